"""What a person wants to know of a sweep: what drives U, what drives G, which captioner to choose."""

import pandas as pd
from scipy import stats

from workflow_scripts.analysis.inference import design_matrix, fit, leverage
from workflow_scripts.analysis.outcomes import Outcome, constant, objective_means
from workflow_scripts.analysis.settings import RESERVED_SPECS, AnalysisJob

NAMES = {"C": "coverage", "P": "precision"}
LETTERS = {"understanding": "U", "generation": "G"}


def summary(
    job: AnalysisJob, design: pd.DataFrame, outcomes: list[Outcome], regression: pd.DataFrame
) -> dict[str, list]:
    """`lines` to print (one an objective, then the choice) and `recommendations` (see `recommend`)."""
    chosen = recommend(design, outcomes, job.confidence)
    lines = [_driver_line(job, objective, outcomes, regression) for objective in LETTERS if objective in chosen]
    return {"lines": [*lines, _choice_line(chosen, job.confidence)], "recommendations": list(chosen.values())}


def recommend(design: pd.DataFrame, outcomes: list[Outcome], confidence: float) -> dict[str, dict]:
    """By objective: the captioner with the highest measured score, and those that it is not distinguishable from.

    The score is U or G averaged over the objective's pipelines. `predicted` is the score at the captioner's C and P by
    OLS on all captioners, with the classical prediction interval for one training run (t(n - 3)), which also stands for
    the noise of a single measured score. Two captioners count as indistinguishable where these intervals overlap:
    a cautious rule, since intervals may overlap although the difference is not zero.
    """
    x = design_matrix(design)
    chosen = {}
    for objective, values in objective_means([o for o in outcomes if o.kind == "pipeline"]).items():
        y = values[design.index]
        fitted = fit(y.to_numpy(), x, "classical", confidence)
        half_width = stats.t.ppf((1 + confidence) / 2, fitted.df) * fitted.residual_sd * (1 + leverage(x)) ** 0.5
        predicted = pd.Series(x @ fitted.terms.estimate.iloc[:3].to_numpy(), index=design.index)
        low, high = predicted - half_width, predicted + half_width
        best = y.idxmax()
        alike = [name for name in y.index if name != best and low[name] <= high[best] and low[best] <= high[name]]
        chosen[objective] = {
            "objective": objective,
            "captioner": None if constant(y) else best,
            "measured": float(y[best]),
            "predicted": float(predicted[best]),
            "predicted_low": float(low[best]),
            "predicted_high": float(high[best]),
            "highest_predicted": predicted.idxmax(),
            "not_distinguishable": alike,
            "num_captioners": len(design),
            "table": [
                {
                    "captioner": name,
                    "measured": float(y[name]),
                    "predicted": float(predicted[name]),
                    "predicted_low": float(low[name]),
                    "predicted_high": float(high[name]),
                }
                for name in y.sort_values(ascending=False).index
            ],
        }
    return chosen


def _driver_line(job: AnalysisJob, objective: str, outcomes: list[Outcome], regression: pd.DataFrame) -> str:
    pipelines = [o.name for o in outcomes if o.kind == "pipeline" and o.objective == objective]
    rows = regression[regression.outcome.isin(pipelines)]
    robust = rows[rows.spec == "robust"].set_index(["term", "outcome"])
    slopes, verdicts = [], []
    for term, meaning in NAMES.items():
        slopes.append(f"{meaning} " + ", ".join(f"{_interval(robust.loc[(term, p)])} ({p})" for p in pipelines))
        clear = [p for p in pipelines if robust.loc[(term, p)].p_value_holm <= 1 - job.confidence]
        for side, sign in (("above", 1), ("below", -1)):
            found = [p for p in clear if sign * robust.loc[(term, p)].estimate > 0]
            if found:
                where = "every pipeline" if len(found) == len(pipelines) else ", ".join(found) + " only"
                verdicts.append(f"the slope of {meaning} is {side} zero in {where}{_fragility(term, found, rows)}")
    verdict = "; ".join(verdicts) or "neither slope, of coverage or of precision, is distinguishable from zero"
    n = int(robust.n_obs.iloc[0])
    return (
        f"{LETTERS[objective]} ({objective}): {verdict} (Holm's correction, HC3, n = {n}). "
        f"Score points per point [{job.confidence:.0%} intervals]: {'; '.join(slopes)}."
    )


def _fragility(term: str, pipelines: list[str], rows: pd.DataFrame) -> str:
    found = rows[(rows.term == term) & rows.outcome.isin(pipelines)]
    named = found[~found.spec.isin(RESERVED_SPECS) & ~((found.conf_low > 0) | (found.conf_high < 0))]
    robust = found[found.spec == "robust"]
    warnings = [f"not in {r.outcome} with {r.spec}" for r in named.itertuples()]
    warnings += [
        f"its sign in {r.outcome} changes without one family"
        for r in robust.itertuples()
        if r.lofo_min < 0 < r.lofo_max
    ]
    return f", fragile: {', '.join(warnings)}" if warnings else ""


def _choice_line(chosen: dict[str, dict], confidence: float) -> str:
    parts = []
    for objective, choice in chosen.items():
        letter = LETTERS[objective]
        if choice["captioner"] is None:
            parts.append(f"for {objective} no difference: {letter} is {choice['measured']:.1f} for all")
            continue
        others = choice["not_distinguishable"]
        rivals = f"not distinguishable from {len(others)} of the other {choice['num_captioners'] - 1}"
        named = f" ({', '.join(others)})" if 0 < len(others) <= 4 else ""
        parts.append(
            f"for {objective} {choice['captioner']} ({letter} {choice['measured']:.1f} measured, "
            f"{choice['predicted']:.1f} [{choice['predicted_low']:.1f}, {choice['predicted_high']:.1f}] predicted from "
            f"C and P; {rivals}{named})"
        )
    return f"Captioner to choose: {'; '.join(parts)}. Brackets: {confidence:.0%} prediction intervals; overlap decides."


def _interval(row: pd.Series) -> str:
    return f"{row.estimate:+.2f} [{row.conf_low:+.2f}, {row.conf_high:+.2f}]"
