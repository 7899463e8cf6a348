"""The course of every training, small: loss, learning rate, speed, waiting for data, samples cut."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import pandas as pd

from workflow_scripts.records import read_table
from workflow_scripts.report.sweep import Sweep
from workflow_scripts.report.text import count, percent

Data = dict[str, Any]
WIDTH, HEIGHT, MARGIN = 92, 34, 3  # px of a curve's box


class Measure(NamedTuple):
    """A column of curves: the column of table `training`, where its axis begins and ends (None: at the smallest and
    largest value), and what is said of all its rows."""

    title: str
    column: str
    bottom: float | None
    top: float | None
    say: Callable[[pd.DataFrame], str]


def _loss(rows: pd.DataFrame) -> str:
    first, last = (rows[rows.step == rows.step.agg(end)].loss.mean() for end in ("min", "max"))
    return f"{first:.3g} to {last:.3g}"


def _tflops(rows: pd.DataFrame) -> str:
    used = rows.mfu.median()
    of_peak = "" if math.isnan(used) else f", {percent(used, 0)} of peak"
    return f"{rows.model_tflops.median():.3g}{of_peak}"


MEASURES = (
    Measure("Loss", "loss", None, None, _loss),
    Measure("Learning rate", "learning_rate", 0.0, None, lambda rows: f"at most {rows.learning_rate.max():.3g}"),
    Measure("Tokens/s", "tokens_per_second", 0.0, None, lambda rows: count(rows.tokens_per_second.median())),
    Measure("TFLOPS a device", "model_tflops", 0.0, None, _tflops),
    Measure("Waiting", "share_waiting", 0.0, 1.0, lambda rows: percent(rows.share_waiting.mean())),
    Measure("Cut", "share_truncated", 0.0, 1.0, lambda rows: percent(rows.share_truncated.mean())),
)


def training_curves(sweep: Sweep) -> list[Data]:
    """A table a pipeline: a row a captioner (and one for stage 1), a column a measure; the captioners' curves of a
    column share their axes."""
    tables = []
    for pipeline in sweep.pipelines():
        of_captioners = {captioner: _tables(sweep, pipeline, captioner) for captioner in sweep.captioners}
        shared = [table for found in of_captioners.values() for table in found]
        rows = [_row(sweep.label(captioner), found, shared) for captioner, found in of_captioners.items()]
        if pipeline in sweep.pipelines("understanding"):
            align = _tables(sweep, pipeline, "align")
            rows.insert(0, _row("Stage 1, shared", align, align))
        tables.append({"pipeline": pipeline, "titles": [measure.title for measure in MEASURES], "rows": rows})
    return tables


def _tables(sweep: Sweep, pipeline: str, model: str) -> list[pd.DataFrame]:
    """The training tables of one model, one a seed."""
    paths = [sweep.model_folder(pipeline, seed, model) / "training.csv" for seed in sweep.job.analysis.seeds]
    return [read_table(path, "training") for path in paths]


def _row(label: str, tables: list[pd.DataFrame], shared: list[pd.DataFrame]) -> Data:
    steps = max((table.step.max() for table in tables if len(table)), default=0)
    return {"label": label, "steps": steps, "cells": [_cell(measure, tables, shared) for measure in MEASURES]}


def _cell(measure: Measure, tables: list[pd.DataFrame], shared: list[pd.DataFrame]) -> Data | None:
    """The lines of one cell, one a seed, on axes that hold `shared`; None where nothing was logged."""
    tables = [known for table in tables if len(known := table.dropna(subset=measure.column))]
    if not tables:
        return None
    every = pd.concat(shared)
    right, values = every.step.max(), every[measure.column]
    bottom = values.min() if measure.bottom is None else measure.bottom
    top = values.max() if measure.top is None else measure.top
    lines = []
    for table in tables:
        x = MARGIN + (WIDTH - 2 * MARGIN) * table.step / max(right, 1)
        y = HEIGHT - MARGIN - (HEIGHT - 2 * MARGIN) * (table[measure.column] - bottom) / ((top - bottom) or 1)
        lines.append(" ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, y, strict=True) if math.isfinite(b)))
    return {"title": measure.title, "lines": lines, "says": measure.say(pd.concat(tables))}
