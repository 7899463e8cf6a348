"""The regression tables: every outcome, specification and term, with robust and corrected inference.

Specifications: `published` is classical OLS as in the paper; `robust` is HC3 with t(n - 3) and a wild bootstrap;
`simex` corrects for the measurement error of C and P; the others are the named sets of the settings, as `robust`.
"""

import logging

import numpy as np
import pandas as pd

from workflow_scripts.analysis.inference import (
    FULL_LEVERAGE,
    TESTED,
    Fit,
    benjamini_hochberg,
    design_matrix,
    fit,
    holm,
    leverage,
    sign_vectors,
    wild_p_value,
)
from workflow_scripts.analysis.influence import between_families, cooks_distance, leave_out, variance_inflation
from workflow_scripts.analysis.outcomes import Outcome, constant
from workflow_scripts.analysis.sensitivity import variants
from workflow_scripts.analysis.settings import AnalysisJob
from workflow_scripts.analysis.simex import simex
from workflow_scripts.records import SCHEMAS

log = logging.getLogger("capsweep")
DECLARED = ("pipeline", "composite")


def regression_tables(
    job: AnalysisJob, design: pd.DataFrame, outcomes: list[Outcome]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The rows of regression.csv and of regression_models.csv.

    Holm's correction runs, for each specification and term, over the declared outcomes (the pipelines' aggregates and
    the composites): "is coverage worth anything" is one question asked of each of them, "is precision" another.
    Benjamini and Hochberg's runs, likewise, over the single benchmarks of all pipelines. The dissociation is a single
    planned test and needs neither.
    """
    for outcome in outcomes:
        if constant(outcome.values):
            log.warning("%s is the same for every captioner: there is nothing to explain", outcome.name)
    terms, models = [], []
    for outcome in outcomes:
        for spec, vcov in (("published", "classical"), ("robust", "HC3")):
            _add(terms, models, job, design, outcome, spec, vcov)
    for name, stay, changed in variants(job, design, outcomes):
        for outcome in changed:
            _add(terms, models, job, stay, outcome, name, "HC3")
    terms += _simex_rows(job, design, outcomes)
    table = pd.concat(terms, ignore_index=True)
    declared = {o.name for o in outcomes if o.kind in DECLARED}
    singles = {o.name for o in outcomes if o.kind == "benchmark"}
    table["p_value_holm"] = _corrected(table, declared, holm)
    table["q_value_bh"] = _corrected(table, singles, benjamini_hochberg)
    return table[SCHEMAS["regression"].names], pd.DataFrame(models)[SCHEMAS["regression_models"].names]


def influence_table(design: pd.DataFrame, outcomes: list[Outcome]) -> pd.DataFrame:
    """The rows of regression_influence.csv, for every outcome but the single benchmarks."""
    x, tables = design_matrix(design), []
    for outcome in outcomes:
        if outcome.kind == "benchmark":
            continue
        y = outcome.values[design.index]
        full = fit(y.to_numpy(), x, "classical", 0.95).terms.estimate
        points = pd.DataFrame(
            {"leverage": leverage(x), "cooks_distance": cooks_distance(y.to_numpy(), x)}, index=design.index
        )
        for kind, sizes in (("captioner", None), ("family", design.family.value_counts())):
            left = leave_out(y, design, kind).rename_axis(index="left_out", columns="term")
            rows = left.stack().rename("estimate").reset_index()
            rows["change"] = rows.estimate - rows.term.map(full)
            rows["n_obs"] = len(design) - (1 if sizes is None else rows.left_out.map(sizes))
            for column in points:
                rows[column] = rows.left_out.map(points[column]) if kind == "captioner" else np.nan
            tables.append(rows.assign(**outcome.labels, kind=kind))
    return pd.concat(tables, ignore_index=True)[SCHEMAS["regression_influence"].names]


def _add(
    terms: list[pd.DataFrame],
    models: list[dict],
    job: AnalysisJob,
    design: pd.DataFrame,
    outcome: Outcome,
    spec: str,
    vcov: str,
) -> None:
    x, y = design_matrix(design), outcome.values[design.index]
    fitted = fit(y.to_numpy(), x, vcov, job.confidence)
    table = _labelled(fitted.terms, design, outcome, y, spec, vcov)
    if spec != "published":
        signs = sign_vectors(len(y), job.wild_draws, job.seed)
        table["p_value_wild"] = [
            wild_p_value(y.to_numpy(), x, term, signs) if term in TESTED else np.nan for term in table.term
        ]
    for prefix, kind in (("loo", "captioner"), ("lofo", "family")):
        left = leave_out(y, design, kind)
        whole = left.notna().all().all()  # a range over those that happen to exist would hide the most telling one
        table[f"{prefix}_min"] = table.term.map(left.min()) if whole else np.nan
        table[f"{prefix}_max"] = table.term.map(left.max()) if whole else np.nan
    terms.append(table)
    models.append(_model(fitted, design, outcome, spec))


def _labelled(
    terms: pd.DataFrame, design: pd.DataFrame, outcome: Outcome, y: pd.Series, spec: str, vcov: str
) -> pd.DataFrame:
    table = terms.reset_index().assign(**outcome.labels, spec=spec, vcov=vcov)
    scale = table.term.map({"C": design.C.std(), "P": design.P.std()})
    table["estimate_std"] = np.nan if constant(y) else table.estimate * scale / y.std()
    table["vif"] = np.where(table.term.isin(["C", "P"]), variance_inflation(design), np.nan)
    for column in ("p_value_wild", "loo_min", "loo_max", "lofo_min", "lofo_max"):
        table[column] = np.nan
    return table.assign(n_obs=len(design), n_families=design.family.nunique())


def _model(fitted: Fit, design: pd.DataFrame, outcome: Outcome, spec: str) -> dict:
    return {
        **outcome.labels,
        "spec": spec,
        "vcov": fitted.vcov,
        "r_squared": fitted.r_squared,
        "r_squared_adjusted": fitted.r_squared_adjusted,
        "residual_sd": fitted.residual_sd,
        "f_statistic": fitted.f_statistic,
        "f_df_num": 2.0,
        "f_df_den": float(fitted.df),
        "f_p_value": fitted.f_p_value,
        "corr_C_P": float(np.corrcoef(design.C, design.P)[0, 1]),
        "between_families_C": between_families(design.C, design.family),
        "between_families_P": between_families(design.P, design.family),
        "num_seeds": outcome.num_seeds,
        "seed_sd": outcome.seed_sd,
        "n_obs": len(design),
        "n_families": design.family.nunique(),
    }


def _simex_rows(job: AnalysisJob, design: pd.DataFrame, outcomes: list[Outcome]) -> list[pd.DataFrame]:
    std_errors = design[["C_se", "P_se"]].to_numpy()
    if np.isnan(std_errors).any():
        without = design.index[np.isnan(std_errors).any(axis=1)]
        log.info("spec simex is not computed: capeval.csv has no intervals for %s", ", ".join(without))
        return []
    x, rows = design_matrix(design), []
    if leverage(x).max() > FULL_LEVERAGE:
        log.info("spec simex is not computed: without one of the captioners C and P of the others lie on one line")
        return []
    for outcome in outcomes:
        y = outcome.values[design.index]
        if outcome.kind == "benchmark" or constant(y):
            continue
        corrected = simex(y.to_numpy(), x, std_errors, job.simex_draws, job.seed, job.confidence)
        rows.append(_labelled(corrected, design, outcome, y, "simex", "jackknife"))
    return rows


def _corrected(table: pd.DataFrame, outcomes: set[str], correct) -> pd.Series:
    tested = table[table.outcome.isin(outcomes) & table.term.isin(TESTED)]
    corrected = tested.groupby(["spec", "term"]).p_value.transform(correct)
    return corrected.reindex(table.index)
