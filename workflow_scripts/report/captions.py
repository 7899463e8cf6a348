"""The pool's captions: their statistics, for whom they are too long, what training leaves out for them, and the images
that never came so far."""

from typing import Any

import pandas as pd

from workflow_scripts.captions.read import FAULTS
from workflow_scripts.records import read_table
from workflow_scripts.report.sweep import Sweep
from workflow_scripts.spec import INTERSECTION

Data = dict[str, Any]


def captions(sweep: Sweep) -> Data:
    """A row a captioner with its statistics and, by text encoder, the share of captions over the limit."""
    rows, encoders = [], None
    for name in sweep.captioners:
        limits = read_table(sweep.captions_file(name, "limits.csv"), "caption_limits")
        encoders = encoders or list(limits[["pipeline", "encoder", "limit"]].itertuples(index=False, name=None))
        statistics = read_table(sweep.captions_file(name, "statistics.csv"), "caption_statistics").iloc[0]
        rows.append(
            {
                "label": sweep.label(name),
                "statistics": statistics,
                "num_faulty": sum(statistics[f"num_{fault}"] for fault in ("failed", *FAULTS)),
                "over": limits.share_over.tolist(),
            }
        )
    return {
        "rows": rows,
        "encoders": encoders,
        "left_out": left_out_of_pool(sweep),
        "train_on": sweep.job.train_on,
        "selection": selection(sweep),
    }


def selection(sweep: Sweep) -> Data | None:
    """The images that captions leave out of training: each captioner's cells by pipeline, and the pipelines' totals.
    None where there are none."""
    counts = selection_counts(sweep)
    if not counts.num_any.any():
        return None
    by_model = counts.set_index(["captioner", "pipeline"])
    totals = counts.drop_duplicates("pipeline")
    return {
        "rows": [
            {"label": sweep.label(name), "cells": [by_model.loc[name, pipeline] for pipeline in totals.pipeline]}
            for name in sweep.captioners
        ],
        "totals": totals.to_dict("records"),
    }


def selection_counts(sweep: Sweep) -> pd.DataFrame:
    """Table `selection_counts` of all captioners."""
    return read_table(sweep.results / "selection" / INTERSECTION / "counts.csv", "selection_counts")


def left_out_of_pool(sweep: Sweep) -> list[Data]:
    """Images of the sources that are not in the pool for a reason, counted by source and reason, with an example."""
    table = read_table(sweep.results / "pool/left_out.csv", "left_out")
    return [
        {"source": source, "reason": reason.replace("_", " "), "number": len(group), **_example(group.iloc[0])}
        for (source, reason), group in table.groupby(["source", "reason"], sort=True)
    ]


def _example(row: pd.Series) -> Data:
    return {"path": row.path, "detail": None if pd.isna(row.detail) else row.detail}
