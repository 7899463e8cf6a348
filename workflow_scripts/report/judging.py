"""How far the judge can be believed, the yardsticks beside the captioners, and what each captioner lacks."""

from typing import Any

import pandas as pd

from workflow_scripts.capeval.benchmark import DIMENSIONS
from workflow_scripts.files import read_run_record
from workflow_scripts.records import read_table
from workflow_scripts.report.sweep import Sweep

Data = dict[str, Any]
BASELINES = {
    "human": ("People", "captions that people wrote of these images: about what can be reached"),
    "shuffled": ("People, of another image", "what agrees by accident"),
    "template": ("One sentence for all images", "what a judge grants to nothing"),
}
KINDS = {
    "orders": "the same items in another order",
    "retest": "asked again with another seed",
    "second_judge": "the second judge",
    "labels": "labels by people",
}
SHOWN = 3  # faults of a captioner with their examples


def judging(sweep: Sweep) -> Data:
    """Baselines, reliability, canaries (None for an exact judge) and diagnosis."""
    return {
        "measured": measured(sweep),
        "reliability": reliability(sweep),
        "canaries": canaries(sweep) if judge_is_model(sweep) else None,
        "dimensions": dimensions(sweep),
        "diagnosis": [diagnosis(sweep, name) for name in sweep.captioners],
    }


def judge_is_model(sweep: Sweep) -> bool:
    """Whether the judge can err."""
    record = read_run_record(sweep.capeval_file(sweep.captioners[0], "verdicts.parquet"))
    return record["spec"]["engine"]["engine"] != "exact"


def measured(sweep: Sweep) -> list[list[Data]]:
    """Rows of C and P with intervals: the captioners, highest C first, then the baselines."""
    table = read_table(sweep.results / "capeval_baselines.csv", "capeval")
    baselines = table[table.group_kind == "overall"].set_index("captioner")
    captioners = sweep.capeval.sort_values("C", ascending=False, kind="stable")
    return [
        [_scores(sweep.label(name), None, row) for name, row in captioners.iterrows()],
        [_scores(*BASELINES[name], row) for name, row in baselines.iterrows()],
    ]


def _scores(label: str, meaning: str | None, row: pd.Series) -> Data:
    parts = [{"value": row[part], "bounds": (row[f"{part}_low"], row[f"{part}_high"])} for part in ("C", "P")]
    return {"label": label, "meaning": meaning, "scores": parts, "num_unjudged": row.num_unjudged}


def reliability(sweep: Sweep) -> list[Data]:
    """A group a kind of comparison, a row a captioner or baseline."""
    table = read_table(sweep.results / "reliability.csv", "reliability")
    return [
        {
            "kind": meaning,
            "rows": [
                {"label": _label(sweep, row.captioner), "bounds": (row.kappa_low, row.kappa_high), "row": row}
                for row in table[table.kind == kind].itertuples()
            ],
        }
        for kind, meaning in KINDS.items()
        if (table.kind == kind).any()
    ]


def canaries(sweep: Sweep) -> Data:
    """Questions with known answers: agreement by kind, and those that the judge got wrong."""
    table = read_table(sweep.results / "capeval/canaries.csv", "canaries")
    kinds = table.groupby("kind", sort=False).agrees.agg(["sum", "size"])
    return {
        "judge": table.judge.iloc[0],
        "agreeing": int(table.agrees.sum()),
        "total": len(table),
        "kinds": [(kind.replace("_", " "), row["sum"], row["size"]) for kind, row in kinds.iterrows()],
        "wrong": table[~table.agrees].to_dict("records"),
    }


def dimensions(sweep: Sweep) -> Data:
    """Percent of the checklist missed (100 - C) and wrong (100 - P) by dimension, and what is above the mean."""
    table = read_table(sweep.results / "capeval.csv", "capeval")
    table = table[(table.group_kind == "dimension") & table.captioner.isin(sweep.captioners)]
    table = table.set_index(["captioner", "group"])
    names = [name for name in DIMENSIONS if name in table.index.levels[1]]
    shares = {fault: 100 - table[letter].unstack()[names] for fault, letter in (("missed", "C"), ("wrong", "P"))}
    return {
        "names": [name.replace("_", " ") for name in names],
        "rows": [
            {
                "label": sweep.label(captioner),
                "cells": [
                    {
                        fault: {
                            "share": share.loc[captioner, name],
                            "above": share.loc[captioner, name] > share[name].mean(),
                        }
                        for fault, share in shares.items()
                    }
                    for name in names
                ],
            }
            for captioner in sweep.captioners
        ],
    }


def diagnosis(sweep: Sweep, captioner: str) -> Data:
    """The faults of a captioner that are furthest above the sweep's mean, with examples."""
    table = read_table(sweep.capeval_file(captioner, "diagnosis.csv"), "diagnosis")
    above = table[table.share > table.mean_share]
    faults = [
        {
            "dimension": dimension.replace("_", " "),
            "fault": fault,
            "share": rows.share.iloc[0],
            "mean": rows.mean_share.iloc[0],
            "examples": _examples(rows),
        }
        for (dimension, fault), rows in above.groupby(["dimension", "fault"], sort=False)
    ]
    return {"label": sweep.label(captioner), "faults": faults[:SHOWN]}


def _examples(rows: pd.DataFrame) -> list[Data]:
    columns = ["image_id", "question", "sentence", "reasoning"]
    return rows[columns].astype(object).where(rows[columns].notna(), None).to_dict("records")


def _label(sweep: Sweep, name: str) -> str:
    return BASELINES[name][0] if name in BASELINES else sweep.label(name)
