"""The tables of scores: captioners with C, P, U and G, and every benchmark of every pipeline."""

from typing import Any

import numpy as np
import pandas as pd

from workflow_scripts.report.sweep import LETTERS, Sweep

Data = dict[str, Any]


def key_table(sweep: Sweep) -> Data:
    """One row a captioner: C and P with intervals, U or G of each pipeline; the best of each column is marked."""
    overall = sweep.capeval
    columns = [
        {"head": "C", "sub": "coverage", "values": overall.C, "low": overall.C_low, "high": overall.C_high},
        {"head": "P", "sub": "precision", "values": overall.P, "low": overall.P_low, "high": overall.P_high},
    ]
    nothing = pd.Series(np.nan, index=sweep.design.index)
    for objective, letter in LETTERS.items():
        columns += [
            {"head": letter, "sub": name, "values": sweep.outcomes[name].values, "low": nothing, "high": nothing}
            for name in sweep.pipelines(objective)
        ]
    rows = [
        {
            "captioner": captioner,
            "label": sweep.label(captioner),
            "family": sweep.design.family[captioner],
            "cells": [
                {
                    "value": column["values"][captioner],
                    "bounds": (column["low"][captioner], column["high"][captioner]),
                    "best": _is_best(column["values"], captioner),
                }
                for column in columns
            ],
        }
        for captioner in sweep.captioners
    ]
    return {
        "columns": [{"head": column["head"], "sub": column["sub"]} for column in columns],
        "rows": rows,
        "intervals": bool(overall[["C_low", "P_low"]].notna().any(axis=None)),
    }


def score_tables(sweep: Sweep) -> list[Data]:
    """One table a pipeline: a row a captioner, a column a benchmark (0-100, averaged over seeds), and U or G."""
    return [_score_table(sweep, name) for objective in LETTERS for name in sweep.pipelines(objective)]


def _score_table(sweep: Sweep, pipeline: str) -> Data:
    rows, outcome = sweep.scores[sweep.scores.pipeline == pipeline], sweep.outcomes[pipeline]
    benchmarks = sweep.job.analysis.pipelines[pipeline].benchmarks
    means = rows.groupby(["captioner", "benchmark"]).score.mean().unstack().reindex(sweep.captioners)[benchmarks]
    columns = []
    for benchmark in benchmarks:
        of_benchmark = rows[rows.benchmark == benchmark]
        columns.append(
            {
                "name": benchmark,
                "metric": ", ".join(dict.fromkeys(of_benchmark.metric.dropna())),
                "harness": ", ".join(dict.fromkeys(of_benchmark.harness.dropna())),
                "items": of_benchmark.num_items.max(),
                "chance": of_benchmark.chance.mean(),
                "comparable": bool(of_benchmark.comparable.fillna(True).all()),
            }
        )
    chances = [column["chance"] for column in columns]
    metrics = {column["metric"] for column in columns}
    return {
        "pipeline": pipeline,
        "objective": outcome.objective,
        "letter": LETTERS[outcome.objective],
        "printed": sweep.job.analysis.aggregate.get(pipeline) == "printed",
        "columns": columns,
        "metric": metrics.pop() if len(metrics) == 1 else None,
        "rows": [
            {
                "label": sweep.label(captioner),
                "aggregate": {"value": outcome.values[captioner], "best": _is_best(outcome.values, captioner)},
                "cells": [
                    {"value": means.loc[captioner, name], "best": _is_best(means[name], captioner)}
                    for name in benchmarks
                ],
            }
            for captioner in sweep.captioners
        ],
        "chance": float(np.mean(chances)),  # missing where one of them is
        "any_chance": bool(np.isfinite(chances).any()),
        "any_items": bool(rows.num_items.notna().any()),
        "num_seeds": outcome.num_seeds or len(sweep.job.analysis.seeds),
        "seed_sd": outcome.seed_sd,
    }


def category_tables(sweep: Sweep) -> list[Data]:
    """One table a generation pipeline and benchmark that has categories: a row a captioner, a column a category (0-100,
    averaged over seeds, with the standard error of that mean over the prompts)."""
    return [
        _category_table(sweep, pipeline, str(benchmark), rows)
        for pipeline in sweep.pipelines("generation")
        for benchmark, rows in sweep.categories[sweep.categories.pipeline == pipeline].groupby("benchmark", sort=False)
    ]


def _category_table(sweep: Sweep, pipeline: str, benchmark: str, rows: pd.DataFrame) -> Data:
    names = list(dict.fromkeys(rows.variant))
    by_cell = rows.groupby(["captioner", "variant"])
    means = by_cell.score.mean().unstack().reindex(sweep.captioners)[names]
    errors = by_cell.std_error.agg(lambda some: np.sqrt((some**2).sum(skipna=False)) / len(some)).unstack()
    return {
        "pipeline": pipeline,
        "benchmark": benchmark,
        "columns": [{"name": name, "items": rows[rows.variant == name].num_items.max()} for name in names],
        "rows": [
            {
                "label": sweep.label(captioner),
                "cells": [
                    {
                        "value": means.loc[captioner, name],
                        "error": errors.loc[captioner, name],
                        "best": _is_best(means[name], captioner),
                    }
                    for name in names
                ],
            }
            for captioner in sweep.captioners
        ],
    }


def _is_best(values: pd.Series, captioner: str) -> bool:
    """Whether nobody has more; where all have the same nobody is best."""
    return bool(values[captioner] == values.max() and values.max() > values.min())
