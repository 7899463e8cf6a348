"""Loss curves of every trained model, small."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from workflow_scripts.records import read_table
from workflow_scripts.report.sweep import Sweep

Data = dict[str, Any]
WIDTH, HEIGHT, MARGIN = 132, 40, 3  # px of a curve's box
MAX_POINTS = 120


def loss_curves(sweep: Sweep) -> Data:
    """A row a captioner (and one for stage 1), a column a pipeline; all curves of a column share their axes."""
    columns = []
    for pipeline in sweep.pipelines():
        models = ["align"] if pipeline in sweep.pipelines("understanding") else []
        tables = {model: _tables(sweep, pipeline, model) for model in [*models, *sweep.captioners]}
        of_captioners = [table for captioner in sweep.captioners for table in tables[captioner]]
        columns.append(
            {
                "pipeline": pipeline,
                "cells": {
                    model: _cell(found, [*found] if model == "align" else of_captioners)
                    for model, found in tables.items()
                },
            }
        )
    rows = [("Stage 1, shared", "align")] if sweep.pipelines("understanding") else []
    rows += [(sweep.label(captioner), captioner) for captioner in sweep.captioners]
    return {
        "pipelines": [column["pipeline"] for column in columns],
        "rows": [
            {"label": label, "cells": [column["cells"].get(model) for column in columns]} for label, model in rows
        ],
        "width": WIDTH,
        "height": HEIGHT,
    }


def _tables(sweep: Sweep, pipeline: str, model: str) -> list[pd.DataFrame]:
    """The training tables of one model, one a seed."""
    paths = [sweep.model_folder(pipeline, seed, model) / "training.csv" for seed in sweep.job.analysis.seeds]
    return [_losses(path) for path in paths]


def _losses(path: Path) -> pd.DataFrame:
    """Steps with a loss, a bin's mean where there are more than `MAX_POINTS`."""
    table = read_table(path, "training")[["step", "loss"]].dropna()
    if len(table) <= MAX_POINTS:
        return table
    bins = np.arange(len(table)) * MAX_POINTS // len(table)
    return table.groupby(bins).mean()


def _cell(tables: list[pd.DataFrame], shared: list[pd.DataFrame]) -> Data | None:
    """The lines of one cell on axes that hold `shared`; None where nothing was logged."""
    tables = [table for table in tables if len(table)]
    if not tables:
        return None
    every = pd.concat(shared)
    right, bottom, top = every.step.max(), every.loss.min(), every.loss.max()
    lines = []
    for table in tables:
        x = MARGIN + (WIDTH - 2 * MARGIN) * table.step / max(right, 1)
        y = HEIGHT - MARGIN - (HEIGHT - 2 * MARGIN) * (table.loss - bottom) / ((top - bottom) or 1)
        lines.append(" ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, y, strict=True) if math.isfinite(b)))
    return {
        "lines": lines,
        "first": float(np.mean([table.loss.iloc[0] for table in tables])),
        "last": float(np.mean([table.loss.iloc[-1] for table in tables])),
        "steps": int(max(table.step.iloc[-1] for table in tables)),
    }
