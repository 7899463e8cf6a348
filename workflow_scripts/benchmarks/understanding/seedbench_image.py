"""SEED-Bench, the image part: nine dimensions, four options (Li et al., CVPR 2024).

Files: `data/test-*.parquet` of the hub, of which only the rows with `data_type` image are asked; the video rows are
another task. The authors' nine dimensions have 14,233 questions, VLMEvalKit's table SEEDBench_IMG has 14,232.
"""

from pathlib import Path

from workflow_scripts.benchmarks.understanding.base import Question, Understanding, Variant
from workflow_scripts.benchmarks.understanding.estimates import accuracy
from workflow_scripts.benchmarks.understanding.forms import ask_letter, read_letter
from workflow_scripts.benchmarks.understanding.sources import parquet_rows

_CHOICES = ("choice_a", "choice_b", "choice_c", "choice_d")


def read(folder: Path) -> list[Question]:
    """The questions on images; `kind` is the dimension's number."""
    columns = (*_CHOICES, "answer", "data_type", "question", "question_id", "question_type_id")
    return [
        Question(
            id=str(row["question_id"]),
            text=row["question"],
            images=row["image"],
            answers=(row["answer"].strip(),),
            options={choice[-1].upper(): str(row[choice]) for choice in _CHOICES},
            kind=str(row["question_type_id"]),
        )
        for row in parquet_rows(folder, "data/test-*.parquet", columns)
        if row["data_type"] == "image"
    ]


_ACCURACY = Variant("accuracy", accuracy, chance=25.0)

BENCHMARK = Understanding(
    name="seedbench_image",
    title="SEED-Bench image",
    hub="lmms-lab-encoder/SEED-Bench",
    split="test, images",
    num_items=14233,
    published=_ACCURACY,
    overall=_ACCURACY,
    read=read,
    prompt=ask_letter,
    extract=read_letter,
)
