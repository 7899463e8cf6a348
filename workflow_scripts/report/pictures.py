"""Generated pictures: the same prompts and the same noise for every captioner's model."""

from typing import Any

import pandas as pd

from workflow_scripts.errors import UserError
from workflow_scripts.records import read_table
from workflow_scripts.report.examples import spread
from workflow_scripts.report.images import picture
from workflow_scripts.report.sweep import Sweep

Data = dict[str, Any]
SIDE = 168  # px, twice what they are shown at


def generated(sweep: Sweep) -> list[Data]:
    """One group a generation pipeline: `num_prompts` rows of pictures, one a captioner, from the first seed's models.

    Prompts are shared out over the benchmarks and evenly spaced within each; of each the first picture is shown.
    """
    groups = []
    for pipeline in sweep.pipelines("generation"):
        benchmarks = sweep.job.analysis.pipelines[pipeline].benchmarks
        rows = []
        for place, benchmark in enumerate(benchmarks):
            share = range(place, sweep.job.num_prompts, len(benchmarks))
            rows += _rows(sweep, pipeline, benchmark, len(share))
        groups.append(
            {
                "pipeline": pipeline,
                "labels": [sweep.label(captioner) for captioner in sweep.captioners],
                "rows": rows,
                "same_noise": all(row["same_noise"] for row in rows),
            }
        )
    return groups


def _rows(sweep: Sweep, pipeline: str, benchmark: str, number: int) -> list[Data]:
    """Rows of one benchmark's pictures. Raises UserError where a captioner lacks a prompt that the first one has."""
    if number == 0:
        return []
    seed, made, scores, folders = sweep.job.analysis.seeds[0], {}, {}, {}
    for captioner in sweep.captioners:
        folders[captioner] = sweep.model_folder(pipeline, seed, captioner) / benchmark
        pictures = read_table(folders[captioner] / "pictures.parquet", "pictures")
        made[captioner] = pictures[pictures["index"] == 0].set_index("prompt_id")
        scored = read_table(folders[captioner] / "picture_scores.parquet", "picture_scores")
        scores[captioner] = scored[scored["index"] == 0].groupby("prompt_id").score.mean()
    rows = []
    for prompt_id in spread(list(made[sweep.captioners[0]].index), number):
        lacking = [str(folders[c]) for c, table in made.items() if prompt_id not in table.index]
        if lacking:
            raise UserError(f"no picture of prompt {prompt_id!r} in {', '.join(lacking)}")
        at = {captioner: table.loc[prompt_id] for captioner, table in made.items()}
        cells = [
            {"picture": picture(folders[captioner] / row.path, SIDE), "score": scores[captioner].get(prompt_id)}
            for captioner, row in at.items()
        ]
        rows.append(
            {
                "prompt": at[sweep.captioners[0]].prompt,
                "benchmark": benchmark,
                "cells": cells,
                "same_noise": _alike(at),
            }
        )
    return rows


def _alike(pictures: dict[str, pd.Series]) -> bool:
    """Whether all pictures start from the same noise and the same prompt."""
    return len({(row.noise_seed, row.prompt) for row in pictures.values()}) == 1
