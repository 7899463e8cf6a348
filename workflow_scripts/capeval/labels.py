"""Verdicts by people: a CSV file with the columns captioner, image_id, item_index, verdict."""

import csv
from pathlib import Path

import pandas as pd

from workflow_scripts.capeval.benchmark import Benchmark
from workflow_scripts.capeval.prompt import VERDICTS
from workflow_scripts.errors import UserError, nearest

COLUMNS = ("captioner", "image_id", "item_index", "verdict")


def read_labels(path: Path, benchmark: Benchmark, captioners: list[str]) -> pd.DataFrame:
    """The labels, item_index as a whole number. Further columns are passed over.

    Raises UserError naming file and line for a column that is missing, a captioner, image or item that is not in the
    sweep, a verdict that is none, and an item that is labelled twice for one captioner.
    """
    if not path.is_file():
        raise UserError(f"{path}: no such file (capeval.labels)")
    known = set(zip(benchmark.items["image_id"], benchmark.items["item_index"], strict=True))
    rows: dict[tuple[str, str, int], str] = {}
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.DictReader(file)
        for column in COLUMNS:
            if column not in (reader.fieldnames or []):
                raise UserError(f"{path}: no column {column!r}")
        for row in reader:
            place = f"{path}:{reader.line_num}"
            captioner, image_id, index, verdict = (row[column] or "" for column in COLUMNS)
            for what, name, names in (
                ("captioner", captioner, captioners),
                ("image", image_id, benchmark.images.index),
                ("verdict", verdict, VERDICTS),
            ):
                if name not in names:
                    raise UserError(f"{place}: no {what} {name!r}{_hint(name, names)}")
            if not (index.isdecimal() and (image_id, int(index)) in known):
                count = sum(image == image_id for image, _ in known)
                raise UserError(f"{place}: item_index {index!r} of {image_id} is none of 0 to {count - 1}")
            key = (captioner, image_id, int(index))
            if key in rows:
                raise UserError(f"{place}: item {index} of {image_id} is labelled twice for {captioner}")
            rows[key] = verdict
    return pd.DataFrame([(*key, verdict) for key, verdict in rows.items()], columns=list(COLUMNS))


def _hint(name: str, names: object) -> str:
    guess = nearest(name, names)
    return f", did you mean {guess!r}?" if guess else ""
