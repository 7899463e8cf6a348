"""The same regression on other data: named sets of captioners or benchmarks, and each benchmark left out in turn."""

from collections.abc import Iterator

import pandas as pd

from workflow_scripts.analysis.inference import design_matrix, fit
from workflow_scripts.analysis.outcomes import MIN_CAPTIONERS, Outcome, dissociation, mean_of_parts
from workflow_scripts.analysis.settings import OTHER_VARIANT, AnalysisJob, Sensitivity, variant_spec
from workflow_scripts.errors import UserError, unknown

Variant = tuple[str, pd.DataFrame, list[Outcome]]


def variants(job: AnalysisJob, design: pd.DataFrame, outcomes: list[Outcome]) -> Iterator[Variant]:
    """(name, captioners that stay, outcomes that change) of every named set of the settings, in their order, and of the
    benchmarks' other variant.

    Without captioners every outcome changes and keeps its aggregate; with other benchmarks an outcome is the plain mean
    of those that stay, and one that has none of them, or loses none, is not in the variant. Raises UserError for a
    name that does not exist, and where a set leaves fewer than four captioners or changes nothing.
    """
    singles = {o.name: o for o in outcomes if o.kind == "benchmark"}
    for name, change in job.sensitivity.items():
        place = f"analysis.sensitivity.{name}"
        _check(place, change, design, singles)
        stay = design.drop(index=change.without_captioners)
        if len(stay) < MIN_CAPTIONERS:
            raise UserError(f"{place} leaves {len(stay)} captioners, the regression needs at least {MIN_CAPTIONERS}")
        changed = list(_changed(change, stay.index, outcomes, singles))
        if not changed:
            raise UserError(f"{place} changes no outcome")
        yield name, stay, changed
    others = [outcome.other for outcome in outcomes if outcome.other is not None]
    if others:
        yield variant_spec(OTHER_VARIANT[job.variant]), design, others


def sensitivity_table(job: AnalysisJob, design: pd.DataFrame, outcomes: list[Outcome]) -> pd.DataFrame:
    """Rows of regression_sensitivity.csv: each change by outcome, term and covariance (classical and HC3).

    `all_benchmarks` is the plain mean of all benchmarks, the row to compare the others with (it differs from the spec
    `published` where a pipeline's aggregate is taken as printed).
    """
    singles = {o.name: o for o in outcomes if o.kind == "benchmark"}
    tables = []
    for outcome in outcomes:
        if outcome.kind not in ("pipeline", "composite"):
            continue
        whole = mean_of_parts(outcome, outcome.parts, singles)
        tables += _rows(job, design, whole, "all_benchmarks", "")
        benchmarks = dict.fromkeys(benchmark for _, benchmark in outcome.parts)
        for left_out in benchmarks if len(benchmarks) > 1 else ():
            parts = [part for part in outcome.parts if part[1] != left_out]
            tables += _rows(job, design, mean_of_parts(outcome, parts, singles), "without_benchmark", left_out)
    for name, stay, changed in variants(job, design, outcomes):
        for outcome in changed:
            tables += _rows(job, stay, outcome, "named", name)
    return pd.concat(tables, ignore_index=True)


def _rows(job: AnalysisJob, design: pd.DataFrame, outcome: Outcome, kind: str, change: str) -> list[pd.DataFrame]:
    x, y = design_matrix(design), outcome.values[design.index].to_numpy()
    size = {"n_obs": len(design), "n_benchmarks": len(outcome.parts) or None}
    return [
        fit(y, x, vcov, job.confidence)
        .terms.reset_index()
        .assign(**outcome.labels, kind=kind, change=change, vcov=vcov, **size)
        for vcov in ("classical", "HC3")
    ]


def _changed(change: Sensitivity, stay: pd.Index, outcomes: list[Outcome], singles: dict[str, Outcome]):
    pipelines = []
    for outcome in outcomes:
        if outcome.kind not in ("pipeline", "composite"):
            continue
        parts = [part for part in outcome.parts if _kept(change, part[1])]
        if not parts:
            continue
        if len(parts) < len(outcome.parts):
            yield mean_of_parts(outcome, parts, singles)
        elif change.without_captioners:
            yield outcome
            if outcome.kind == "pipeline":
                pipelines.append(outcome)
    if change.without_captioners and not (change.without_benchmarks or change.only_benchmarks):
        staying = [Outcome(**{**vars(o), "values": o.values[stay]}) for o in pipelines]
        yield from dissociation(staying)


def _kept(change: Sensitivity, benchmark: str) -> bool:
    if change.only_benchmarks:
        return benchmark in change.only_benchmarks
    return benchmark not in change.without_benchmarks


def _check(place: str, change: Sensitivity, design: pd.DataFrame, singles: dict[str, Outcome]) -> None:
    for captioner in change.without_captioners:
        if captioner not in design.index:
            raise unknown(f"{place}.without_captioners", captioner, design.index)
    benchmarks = {part[1] for outcome in singles.values() for part in outcome.parts}
    for key in ("without_benchmarks", "only_benchmarks"):
        for benchmark in getattr(change, key):
            if benchmark not in benchmarks:
                raise unknown(f"{place}.{key}", benchmark, sorted(benchmarks))
