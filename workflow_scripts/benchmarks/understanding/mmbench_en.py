"""MMBench, English: multiple choice asked once for every rotation of its options (Liu et al., ECCV 2024), dev split.

Files: `en/dev-*.parquet` of the hub, or VLMEvalKit's MMBench_DEV_EN.tsv. The rotations of question i have the indices
i, i + 1,000,000, i + 2,000,000 and so on; circular accuracy counts a question only if all its rotations are right.
The paper's cells are multiples of 1/36: it scored a part of the benchmark that it does not name.
"""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from workflow_scripts.benchmarks.understanding.base import Question, Understanding, Variant
from workflow_scripts.benchmarks.understanding.estimates import Estimate, Marks, all_correct, ratio
from workflow_scripts.benchmarks.understanding.forms import ask_letter, read_letter
from workflow_scripts.benchmarks.understanding.sources import one_file, parquet_rows, tsv_rows

_ROTATION = 1_000_000
_COLUMNS = ("index", "question", "hint", "answer", "A", "B", "C", "D", "category")


def read(folder: Path, language: str = "en") -> list[Question]:
    """All rotations of all questions; `group` joins a question's."""
    table = f"MMBench_DEV_{language.upper()}.tsv"
    if any(folder.rglob(table)):
        return [_question(row) for row in tsv_rows(one_file(folder, table))]
    return [_question(row) for row in parquet_rows(folder, f"{language}/dev-*.parquet", _COLUMNS)]


def circular_accuracy(marks: Marks) -> Estimate:
    """The share of questions of which every rotation is right."""
    return all_correct(marks, marks.groups)


def plain_accuracy(marks: Marks) -> Estimate:
    """The share of questions that are right as first asked, without rotation."""
    first = np.array([int(index) < _ROTATION for index in marks.ids], dtype=float)
    return ratio(marks.correct * first, first)


def _question(row: dict[str, Any]) -> Question:
    index = int(row["index"])  # text in some files
    hint, text = _present(row["hint"]), row["question"].strip()
    return Question(
        id=str(index),
        text=f"{hint}\n{text}" if hint else text,
        images=row["image"],
        answers=(row["answer"].strip(),),
        options={letter: row[letter] for letter in "ABCD" if _present(row[letter])},
        kind=row["category"],
        group=str(index % _ROTATION),
    )


def _present(text: str | None) -> str | None:
    """A cell's text, None where it is empty; some files write `nan`."""
    return text.strip() if text and text.strip() not in ("", "nan") else None


CIRCULAR = Variant("circular accuracy", circular_accuracy)
OTHERS = {"plain_accuracy": Variant("accuracy without rotation", plain_accuracy, num_prompts=4329)}

BENCHMARK = Understanding(
    name="mmbench_en",
    title="MMBench EN",
    hub="lmms-lab-encoder/MMBench",
    split="dev",
    num_items=1164,
    num_prompts=4329,
    published=CIRCULAR,
    overall=CIRCULAR,
    others=OTHERS,
    read=partial(read, language="en"),
    prompt=ask_letter,
    extract=read_letter,
    caution="the paper's cells are multiples of 1/36, of a part of the benchmark that it does not name",
)
