"""Settings of the regression of downstream scores on coverage and precision."""

import csv
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

Objective = Literal["understanding", "generation"]
RESERVED_SPECS = ("published", "robust", "simex")
OTHER_VARIANT = {"published": "overall", "overall": "published"}


def variant_spec(variant: str) -> str:
    """The spec of the regression on the benchmarks' other figure."""
    return f"variant_{variant}"


class _Settings(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Composite(_Settings):
    """An outcome of its own: the mean of a few benchmarks over a few pipelines."""

    benchmarks: list[str] = Field(min_length=1, description="benchmarks that are averaged")
    pipelines: list[str] = Field(min_length=1, description="pipelines over which they are averaged")


class Sensitivity(_Settings):
    """The same regression on fewer captioners or fewer benchmarks."""

    without_captioners: list[str] = Field([], description="captioners left out")
    without_benchmarks: list[str] = Field([], description="benchmarks left out of U, G and the composites")
    only_benchmarks: list[str] = Field([], description="benchmarks that alone make up U, G and the composites")

    @model_validator(mode="after")
    def _one_change(self) -> "Sensitivity":
        if self.without_benchmarks and self.only_benchmarks:
            raise ValueError("give without_benchmarks or only_benchmarks, not both")
        if not (self.without_captioners or self.without_benchmarks or self.only_benchmarks):
            raise ValueError("leaves nothing out: name captioners or benchmarks")
        return self


class Analysis(_Settings):
    """How scores are regressed on coverage and precision."""

    aggregate: dict[str, Literal["mean", "printed"]] = Field(
        {}, description="a pipeline's U or G: `mean` of its benchmarks (the default) or as `printed` in a publication"
    )
    variant: Literal["published", "overall"] = Field(
        "published",
        description="the figure of benchmarks that have two: as the paper seems to have used them, or their own "
        "headline; the regression on the other one is a `spec` of its own",
    )
    composites: dict[str, Composite] = Field({}, description="further outcomes, for example hallucination")
    sensitivity: dict[str, Sensitivity] = Field({}, description="named variants of the regression; a name is a `spec`")
    confidence: float = Field(0.95, gt=0.5, lt=1, description="level of every interval of the regression")
    wild_draws: int = Field(
        9999, ge=99, description="sign vectors of the wild bootstrap; all 2^n are used where they are no more than this"
    )
    simex_draws: int = Field(400, ge=20, description="noise replicates per level of the measurement error correction")
    seed: int = Field(0, ge=0, description="seed of the wild bootstrap's and the correction's random draws")

    @model_validator(mode="after")
    def _free_names(self) -> "Analysis":
        for name in self.sensitivity:
            if name in (*RESERVED_SPECS, *map(variant_spec, OTHER_VARIANT)):
                raise ValueError(f"sensitivity {name!r}: this name is taken, choose another")
        return self


class PipelineScores(_Settings):
    """What a pipeline must have in scores.csv for every captioner."""

    objective: Objective
    benchmarks: list[str] = Field(min_length=1)


class AnalysisJob(Analysis):
    """`--spec` of the regression and of its figures: the settings and what the sweep must have measured."""

    pipelines: dict[str, PipelineScores] = Field(min_length=1)
    seeds: list[int] = Field([0], min_length=1, description="training seeds, averaged within a captioner")
    capeval_confidence: float = Field(0.95, gt=0, lt=1, description="level of the intervals in capeval.csv")

    @model_validator(mode="after")
    def _outcome_names(self) -> "AnalysisJob":
        for name in self.composites:
            if name in self.pipelines or name == "dissociation":
                raise ValueError(f"composite {name!r}: this outcome name is taken, choose another")
        return self


class PublishedTables(_Settings):
    """`--spec` of the command that turns published tables into a sweep's tables."""

    tables: Path = Field(description="folder of the transcribed tables")


def published_pipelines(tables: Path) -> dict[str, PipelineScores]:
    """The pipelines of a folder of published tables, with the benchmarks of each, in the order of the table."""
    with (tables / "table4_benchmarks.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    objectives = {row["pipeline"]: row["objective"] for row in rows}
    return {
        name: PipelineScores(
            objective=objective, benchmarks=list(dict.fromkeys(r["benchmark"] for r in rows if r["pipeline"] == name))
        )
        for name, objective in objectives.items()
    }


def figure_names(settings: Analysis) -> list[str]:
    """Names, without suffix, of the figures that the settings lead to; each is an .svg and a .png."""
    return ["coverage_precision", "partial_regression", "coefficients", "leave_one_out", *settings.composites]
