"""The regression's data: captioners with their coverage and precision, and the outcomes that are explained.

Everything is joined by the captioners' names. What is missing is listed in full and stops the analysis.
"""

import logging
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import pandas as pd
from scipy import stats

from workflow_scripts.analysis.settings import OTHER_VARIANT, AnalysisJob
from workflow_scripts.errors import UserError, unknown

log = logging.getLogger("capsweep")
MIN_CAPTIONERS = 4


@dataclass(frozen=True)
class Outcome:
    """One number a captioner, 0-100 (z units for `dissociation`), indexed by captioner."""

    name: str
    kind: Literal["pipeline", "composite", "dissociation", "benchmark"]
    objective: str | None
    pipeline: str | None
    parts: tuple[tuple[str, str], ...]  # (pipeline, benchmark) that make it up
    values: pd.Series
    num_seeds: int | None = None
    seed_sd: float | None = None  # root mean square over captioners of the sd over seeds
    other: "Outcome | None" = None  # the same by the benchmarks' other variant, where that differs

    @property
    def labels(self) -> dict[str, str | None]:
        """The columns that name this outcome in every table."""
        return {"outcome": self.name, "objective": self.objective, "pipeline": self.pipeline}


def read_design(capeval: pd.DataFrame, captioners: pd.DataFrame, confidence: float = 0.95) -> pd.DataFrame:
    """Overall coverage and precision of the sweep's captioners.

    Returns a frame indexed by captioner with family, label, C and P (percent) and the standard errors C_se and P_se
    (half the width of the interval of level `confidence` over the normal quantile; missing where there is none).
    Raises UserError for fewer than four captioners, for repeated or missing ones, and where C or P is undefined.
    """
    if len(captioners) < MIN_CAPTIONERS:
        raise UserError(
            f"the regression on C and P has {len(captioners)} captioners and needs at least {MIN_CAPTIONERS}: "
            "three coefficients leave no degrees of freedom"
        )
    _no_repeats(captioners.captioner, "captioners.csv")
    overall = capeval[capeval.group_kind == "overall"]
    _no_repeats(overall.captioner, "capeval.csv, overall")
    design = captioners.set_index("captioner")[["family", "label"]].join(overall.set_index("captioner"))
    for column, meaning in (("C", "coverage"), ("P", "precision")):
        absent = design.index[design[column].isna()]
        if len(absent):
            raise UserError(f"capeval.csv: no overall {meaning} {column} for {', '.join(absent)}")
        half_width = (design[f"{column}_high"] - design[f"{column}_low"]) / 2
        design[f"{column}_se"] = half_width / stats.norm.ppf((1 + confidence) / 2)
    extra = sorted(set(overall.captioner) - set(design.index))
    if extra:
        log.info("not in captioners.csv and so not in the regression: %s", ", ".join(extra))
    return design[["family", "label", "C", "P", "C_se", "P_se"]]


def read_outcomes(
    job: AnalysisJob, captioners: pd.Index, scores: pd.DataFrame, aggregates: pd.DataFrame | None = None
) -> list[Outcome]:
    """Every outcome of a sweep: pipelines, composites, the dissociation, single benchmarks (in this order).

    `scores` has the columns of scores.csv, `aggregates` those of a published aggregates table (needed where a
    pipeline's aggregate is `printed`). Values are those of `job.variant`; `other` is of the other one, where there are
    such scores. Raises UserError naming every missing or repeated score.
    """
    _check_names(job)
    outcomes = _outcomes(job, captioners, scores, job.variant, aggregates)
    variant = OTHER_VARIANT[job.variant]
    if not (scores.variant == variant).any():
        return outcomes
    others = _outcomes(job, captioners, scores, variant, aggregates)
    return [
        outcome if outcome.values.equals(other.values) else replace(outcome, other=other)
        for outcome, other in zip(outcomes, others, strict=True)
    ]


def of_variant(scores: pd.DataFrame, variant: str) -> pd.DataFrame:
    """The scores of one variant, and those of benchmarks that have a single figure."""
    return scores[scores.variant.isna() | (scores.variant == variant)]


def _outcomes(
    job: AnalysisJob, captioners: pd.Index, scores: pd.DataFrame, variant: str, aggregates: pd.DataFrame | None
) -> list[Outcome]:
    table = _score_table(job, captioners, scores, variant)
    pipelines, singles = [], []
    for name, pipeline in job.pipelines.items():
        parts = tuple((name, benchmark) for benchmark in pipeline.benchmarks)
        outcome = _mean(name, "pipeline", pipeline.objective, name, parts, table)
        if job.aggregate.get(name) == "printed":
            values = _printed(name, captioners, aggregates)
            outcome = replace(outcome, values=values, num_seeds=None, seed_sd=None)
        pipelines.append(outcome)
        singles += [_mean(f"{name}/{part[1]}", "benchmark", pipeline.objective, name, (part,), table) for part in parts]
    composites = []
    for name, composite in job.composites.items():
        parts = tuple((pipeline, benchmark) for pipeline in composite.pipelines for benchmark in composite.benchmarks)
        objectives = {job.pipelines[pipeline].objective for pipeline in composite.pipelines}
        objective = objectives.pop() if len(objectives) == 1 else None
        composites.append(_mean(name, "composite", objective, None, parts, table))
    return [*pipelines, *composites, *dissociation(pipelines), *singles]


def mean_of_parts(outcome: Outcome, parts: Iterable[tuple[str, str]], singles: dict[str, Outcome]) -> Outcome:
    """The same outcome as the plain mean of some of its benchmarks; `singles` holds the single benchmarks by name."""
    parts = tuple(parts)
    values = pd.concat([singles["/".join(part)].values for part in parts], axis=1).mean(axis=1)
    return replace(outcome, parts=parts, values=values, num_seeds=None, seed_sd=None, other=None)


def dissociation(pipelines: list[Outcome]) -> list[Outcome]:
    """z(U) - z(G): U and G are means over the pipelines of an objective, z over the captioners (sd with n - 1).

    Empty where one of the objectives is absent or the same for all captioners.
    """
    zs = []
    for objective in ("understanding", "generation"):
        values = objective_means(pipelines).get(objective)
        if values is None or constant(values):
            return []
        zs.append((values - values.mean()) / values.std())
    return [Outcome("dissociation", "dissociation", None, None, (), zs[0] - zs[1])]


def objective_means(pipelines: list[Outcome]) -> dict[str, pd.Series]:
    """U and G by captioner: the mean of the aggregates of an objective's pipelines."""
    objectives = dict.fromkeys(outcome.objective for outcome in pipelines)
    return {
        objective: pd.concat([o.values for o in pipelines if o.objective == objective], axis=1).mean(axis=1)
        for objective in objectives
    }


def constant(values: pd.Series | np.ndarray) -> bool:
    """Whether all values are the same up to rounding of the arithmetic: then there is nothing to explain."""
    return bool(np.ptp(values) <= 1e-9 * max(1.0, float(np.max(np.abs(values)))))


def _mean(
    name: str,
    kind: str,
    objective: str | None,
    pipeline: str | None,
    parts: tuple[tuple[str, str], ...],
    table: pd.DataFrame,
) -> Outcome:
    by_seed = sum(table[part] for part in parts) / len(parts)  # columns: seeds
    seeds = by_seed.shape[1]
    seed_sd = float(np.sqrt((by_seed.std(axis=1) ** 2).mean())) if seeds > 1 else None
    return Outcome(name, kind, objective, pipeline, parts, by_seed.mean(axis=1), seeds, seed_sd)


def _score_table(job: AnalysisJob, captioners: pd.Index, scores: pd.DataFrame, variant: str) -> pd.DataFrame:
    """Scores of a variant: a row a captioner (in the order of `captioners`), columns (pipeline, benchmark, seed)."""
    keys = ["captioner", "pipeline", "benchmark", "seed"]
    scores = of_variant(scores, variant)
    repeated = scores[scores.duplicated(keys)]
    if len(repeated):
        raise UserError(f"scores.csv has more than one score for {_listed(repeated[keys].itertuples(index=False))}")
    found = scores.dropna(subset="score").set_index(keys).score
    wanted = pd.MultiIndex.from_tuples(
        [
            (captioner, pipeline, benchmark, seed)
            for captioner in captioners
            for pipeline, need in job.pipelines.items()
            for benchmark in need.benchmarks
            for seed in job.seeds
        ],
        names=keys,
    )
    missing = wanted.difference(found.index, sort=False)
    if len(missing):
        kind = f" of variant {variant!r}" if scores.variant.notna().any() else ""
        named = _listed(missing, "\n  ")
        raise UserError(f"scores.csv lacks {len(missing)} of {len(wanted)} scores{kind}:\n  {named}")
    unused = len(scores) - len(wanted)
    if unused:
        log.info("%d scores of other captioners, pipelines, benchmarks or seeds are not in the regression", unused)
    return found.loc[wanted].unstack(keys[1:]).sort_index(axis=1).loc[captioners]


def _printed(pipeline: str, captioners: pd.Index, aggregates: pd.DataFrame | None) -> pd.Series:
    if aggregates is None:
        raise UserError(f"analysis.aggregate: {pipeline} is `printed`, but no table of printed aggregates was given")
    rows = aggregates[aggregates.pipeline == pipeline]
    _no_repeats(rows.captioner, f"aggregates of {pipeline}")
    values = rows.set_index("captioner").score.reindex(captioners)
    if values.isna().any():
        raise UserError(f"no printed aggregate of {pipeline} for {', '.join(values.index[values.isna()])}")
    return values


def _check_names(job: AnalysisJob) -> None:
    for name in job.aggregate:
        if name not in job.pipelines:
            raise unknown("analysis.aggregate", name, job.pipelines)
    for name, composite in job.composites.items():
        for pipeline in composite.pipelines:
            if pipeline not in job.pipelines:
                raise unknown(f"analysis.composites.{name}.pipelines", pipeline, job.pipelines)
            for benchmark in composite.benchmarks:
                if benchmark not in job.pipelines[pipeline].benchmarks:
                    place = f"analysis.composites.{name}.benchmarks (in pipeline {pipeline})"
                    raise unknown(place, benchmark, job.pipelines[pipeline].benchmarks)


def _no_repeats(names: pd.Series, place: str) -> None:
    repeated = names[names.duplicated()].unique()
    if len(repeated):
        raise UserError(f"{place}: more than one row for {', '.join(repeated)}")


def _listed(keys: Iterable[tuple], separator: str = "; ") -> str:
    return separator.join(f"{c}, {p}, {b}, seed {s}" for c, p, b, s in keys)
