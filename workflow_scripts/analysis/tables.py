"""The sweep's tables as the regression, its figures and the report read them."""

import argparse
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from workflow_scripts.analysis.outcomes import Outcome, read_design, read_outcomes
from workflow_scripts.analysis.settings import AnalysisJob
from workflow_scripts.records import read_table

NAMES = ("capeval", "scores", "captioners")


class Tables(NamedTuple):
    """Tables `capeval` and `scores` as they are, and what `read_design` and `read_outcomes` make of all four."""

    capeval: pd.DataFrame
    scores: pd.DataFrame
    design: pd.DataFrame
    outcomes: list[Outcome]


def table_arguments(arguments: argparse.ArgumentParser) -> None:
    """Add the options that name the tables."""
    for name in NAMES:
        arguments.add_argument(f"--{name}", required=True, type=Path, help=f"table `{name}` to read")
    arguments.add_argument("--aggregates", type=Path, help="table `aggregates` to read: U and G as printed")


def read_tables(
    job: AnalysisJob, capeval: Path, scores: Path, captioners: Path, aggregates: Path | None = None
) -> Tables:
    """Read the tables. Raises UserError naming whatever is missing."""
    judged, measured = read_table(capeval, "capeval"), read_table(scores, "scores")
    design = read_design(judged, read_table(captioners, "captioners"), job.capeval_confidence)
    printed = read_table(aggregates, "aggregates") if aggregates else None
    return Tables(judged, measured, design, read_outcomes(job, design.index, measured, printed))
