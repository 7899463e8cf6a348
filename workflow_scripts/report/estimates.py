"""The regression and its sensitivity as rows to read."""

from typing import Any

import pandas as pd

from workflow_scripts.analysis.settings import RESERVED_SPECS, variant_spec
from workflow_scripts.report.sweep import LETTERS, Sweep

Data = dict[str, Any]
TERMS = {"C": "coverage C", "P": "precision P", "C-P": "C − P"}


def caveats(sweep: Sweep) -> Data:
    """What limits the regression: its size, how alike C and P are, who weighs most."""
    robust = sweep.regression[(sweep.regression.spec == "robust") & (sweep.regression.term == "C")]
    model = sweep.models[sweep.models.spec == "robust"].iloc[0]
    points = sweep.influence[sweep.influence.kind == "captioner"].drop_duplicates("left_out")
    heaviest = points.loc[points.leverage.idxmax()]
    return {
        "n": int(model.n_obs),
        "families": int(model.n_families),
        "df": int(model.n_obs) - 3,
        "tests": len(sweep.declared()),
        "correlation": model.corr_C_P,
        "vif": robust.vif.iloc[0],
        "between_C": model.between_families_C,
        "between_P": model.between_families_P,
        "heaviest": sweep.label(heaviest.left_out),
        "leverage": heaviest.leverage,
        "mean_leverage": 3 / int(model.n_obs),
        "seeds": len(sweep.job.analysis.seeds),
        "confidence": sweep.job.analysis.confidence,
        "simex": bool((sweep.regression.spec == "simex").any()),
    }


def estimates(sweep: Sweep) -> list[Data]:
    """One group an outcome: the fit, and its terms with classical and robust intervals."""
    groups = []
    for name in [*sweep.declared(), *(o for o in sweep.outcomes if o == "dissociation")]:
        outcome = sweep.outcomes[name]
        robust, published = _fit(sweep, name, "robust"), _fit(sweep, name, "published")
        models = sweep.models[sweep.models.outcome == name].set_index("spec")
        groups.append(
            {
                "name": name,
                "meaning": _meaning(outcome.kind, outcome.objective),
                "model": models.loc["published"],
                "robust_f_p": models.f_p_value["robust"],
                "terms": [
                    {
                        "term": TERMS[term],
                        "estimate": robust.estimate[term],
                        "published": _inference(published.loc[term]),
                        "robust": _inference(robust.loc[term]),
                    }
                    for term in TERMS
                ],
            }
        )
    return groups


def single_benchmarks(sweep: Sweep) -> list[Data]:
    """Robust slopes of every benchmark on its own."""
    rows = []
    for name, outcome in sweep.outcomes.items():
        if outcome.kind == "benchmark":
            fitted = _fit(sweep, name, "robust")
            terms = [{"estimate": fitted.estimate[term], **_inference(fitted.loc[term])} for term in ("C", "P")]
            rows.append({"pipeline": outcome.pipeline, "benchmark": outcome.parts[0][1], "terms": terms})
    return rows


def left_out(sweep: Sweep) -> list[Data]:
    """By outcome and term: the smallest and largest estimate without one captioner, one family, one benchmark."""
    benchmarks = sweep.sensitivity[
        (sweep.sensitivity.kind == "without_benchmark") & (sweep.sensitivity.vcov == "HC3")
    ].rename(columns={"change": "left_out"})
    rows = []
    for name in sweep.declared():
        fitted = _fit(sweep, name, "robust")
        for term in ("C", "P"):
            ranges = []
            for kind in ("captioner", "family"):
                part = _of(sweep.influence, name, term)
                named = sweep.design.label if kind == "captioner" else None
                ranges.append(_range(part[part.kind == kind], named))
            ranges.append(_range(_of(benchmarks, name, term)))
            rows.append(
                {
                    "outcome": name,
                    "term": TERMS[term],
                    "estimate": fitted.estimate[term],
                    "bounds": (fitted.conf_low[term], fitted.conf_high[term]),
                    "ranges": ranges,
                }
            )
    return rows


def named_variants(sweep: Sweep) -> Data:
    """The named sensitivity specifications beside the robust estimate, and what each changes."""
    specs = [spec for spec in dict.fromkeys(sweep.regression.spec) if spec not in RESERVED_SPECS]
    if (sweep.regression.spec == "simex").any():
        specs.append("simex")
    rows = []
    for name in sweep.declared():
        for term in ("C", "P"):
            cells = [_cell(sweep, name, spec, term) for spec in ("robust", *specs)]
            rows.append({"outcome": name, "term": TERMS[term], "cells": cells})
    meanings = [{"name": spec, "meaning": _change(sweep, spec)} for spec in specs]
    return {"specs": specs, "meanings": meanings, "rows": rows}


SIMEX = "corrects for the measurement error of C and P (quadratic SIMEX on their bootstrap intervals)"
VARIANTS = {"published": "the one that the CAPEval paper seems to have used", "overall": "their own headline"}


def _fit(sweep: Sweep, outcome: str, spec: str) -> pd.DataFrame:
    rows = sweep.regression
    return rows[(rows.outcome == outcome) & (rows.spec == spec)].set_index("term")


def _of(table: pd.DataFrame, outcome: str, term: str) -> pd.DataFrame:
    return table[(table.outcome == outcome) & (table.term == term)]


def _inference(row: pd.Series) -> Data:
    return {
        "bounds": (row.conf_low, row.conf_high),
        "p": row.p_value,
        "wild": row.p_value_wild,
        "holm": row.p_value_holm,
        "q": row.q_value_bh,
        "excludes_zero": bool(row.conf_low > 0 or row.conf_high < 0),
    }


def _cell(sweep: Sweep, outcome: str, spec: str, term: str) -> Data | None:
    fitted = _fit(sweep, outcome, spec)
    if term not in fitted.index:
        return None
    return {"estimate": fitted.estimate[term], "n": int(fitted.n_obs[term]), **_inference(fitted.loc[term])}


def _range(rows: pd.DataFrame, labels: pd.Series | None = None) -> Data | None:
    """The ends of a range and what was left out there; None where nothing can be left out."""
    if rows.empty:
        return None
    known = rows.dropna(subset="estimate")
    ends = []
    for at in (known.estimate.idxmin(), known.estimate.idxmax()) if len(known) else ():
        name = known.left_out[at]
        ends.append({"estimate": known.estimate[at], "without": name if labels is None else labels[name]})
    return {"ends": ends, "undefined": len(rows) - len(known), "crosses": len(ends) == 2 and _crosses(ends)}


def _crosses(ends: list[Data]) -> bool:
    return ends[0]["estimate"] < 0 < ends[1]["estimate"]


def _meaning(kind: str, objective: str | None) -> str:
    if kind == "dissociation":
        return "z(U) − z(G): does understanding react otherwise than generation?"
    if kind == "composite":
        return "composite of several benchmarks"
    return f"{LETTERS[objective]}, {objective}"


def _change(sweep: Sweep, spec: str) -> str:
    if spec == "simex":
        return SIMEX
    for variant, meaning in VARIANTS.items():
        if spec == variant_spec(variant):
            return f"benchmarks that have two figures by {meaning}"
    change, parts = sweep.job.analysis.sensitivity[spec], []
    if change.without_captioners:
        parts.append("without " + ", ".join(sweep.label(name) for name in change.without_captioners))
    if change.without_benchmarks:
        parts.append("U, G and composites without " + ", ".join(change.without_benchmarks))
    if change.only_benchmarks:
        parts.append("U, G and composites of " + ", ".join(change.only_benchmarks) + " alone")
    return "; ".join(parts)
