"""A sweep's tables as the report reads them, and where its other files lie."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from workflow_scripts.analysis.outcomes import Outcome, objective_means, of_variant
from workflow_scripts.analysis.tables import NAMES, read_tables
from workflow_scripts.benchmarks.understanding.harness import own_variant
from workflow_scripts.files import read_json
from workflow_scripts.records import read_table
from workflow_scripts.report.settings import ReportJob

LETTERS = {"understanding": "U", "generation": "G"}


@dataclass(frozen=True)
class Sweep:
    """The final tables. `design` and `outcomes` are the regression's own view of them: what it explains, by what."""

    job: ReportJob
    results: Path
    capeval: pd.DataFrame  # overall rows of the sweep's captioners, indexed by captioner
    scores: pd.DataFrame  # of the variant that the regression explains
    own_figures: pd.DataFrame  # the same ones by lmms-eval's own rules, of what it asked
    categories: pd.DataFrame  # the parts of generation benchmarks, as scores: `variant` is the category
    regression: pd.DataFrame
    models: pd.DataFrame
    influence: pd.DataFrame
    sensitivity: pd.DataFrame
    summary: dict[str, Any]
    design: pd.DataFrame  # indexed by captioner, the page's order: highest mean U first (G where there is no U)
    outcomes: dict[str, Outcome]

    @property
    def captioners(self) -> list[str]:
        """The captioners in the page's order."""
        return list(self.design.index)

    def label(self, captioner: str) -> str:
        """What figures call a captioner."""
        return self.design.label[captioner]

    def pipelines(self, objective: str | None = None) -> list[str]:
        """The pipelines of one objective, or all."""
        found = self.job.analysis.pipelines.items()
        return [name for name, pipeline in found if objective in (None, pipeline.objective)]

    def declared(self) -> list[str]:
        """The outcomes that the regression is about: each pipeline's U or G, then the composites."""
        return [name for name, outcome in self.outcomes.items() if outcome.kind in ("pipeline", "composite")]

    def model_folder(self, pipeline: str, seed: int, captioner: str) -> Path:
        """Where one trained model and its measurements lie."""
        objective = self.job.analysis.pipelines[pipeline].objective
        return self.results / objective / pipeline / f"seed-{seed}" / captioner

    def captions_file(self, captioner: str, name: str) -> Path:
        """A file of one captioner's captions of the pool."""
        return self.results / "captions" / captioner / name

    def capeval_file(self, captioner: str, name: str) -> Path:
        """A file of one captioner's captions of CAPEval's images."""
        return self.results / "capeval" / captioner / name


def read_sweep(job: ReportJob, results: Path, aggregates: Path | None) -> Sweep:
    """Read the final tables of the folder `results`. Raises UserError naming a table or score that is missing."""
    paths = [results / f"{name}.csv" for name in NAMES]
    capeval, scores, design, outcomes = read_tables(job.analysis, *paths, aggregates)
    means = objective_means([outcome for outcome in outcomes if outcome.kind == "pipeline"])
    design = design.loc[next(iter(means.values())).sort_values(ascending=False, kind="stable").index]
    scores = scores[scores.captioner.isin(design.index) & scores.pipeline.isin(job.analysis.pipelines)]
    overall = capeval[capeval.group_kind == "overall"].set_index("captioner").loc[design.index]
    return Sweep(
        job=job,
        results=results,
        capeval=overall,
        scores=of_variant(scores, job.analysis.variant),
        own_figures=scores[scores.variant == own_variant("lmms-eval", job.analysis.variant)],
        categories=scores[(scores.objective == "generation") & scores.variant.notna()],
        regression=read_table(results / "regression.csv", "regression"),
        models=read_table(results / "regression_models.csv", "regression_models"),
        influence=read_table(results / "regression_influence.csv", "regression_influence"),
        sensitivity=read_table(results / "regression_sensitivity.csv", "regression_sensitivity"),
        summary=read_json(results / "summary.json"),
        design=design,
        outcomes={outcome.name: outcome for outcome in outcomes},
    )
