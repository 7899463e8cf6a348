"""CV-Bench 2D: counting and spatial relations on ADE20K and COCO (Tong et al., Cambrian-1, NeurIPS 2024).

Files: `test_2d.parquet` of the hub. The authors average the two sources' accuracies, which are of unequal size.
"""

from functools import partial
from pathlib import Path

from workflow_scripts.benchmarks.understanding.base import Question, Understanding, Variant
from workflow_scripts.benchmarks.understanding.estimates import accuracy, mean_of_kinds
from workflow_scripts.benchmarks.understanding.forms import ask_letter, lettered, read_letter
from workflow_scripts.benchmarks.understanding.sources import parquet_rows


def read(folder: Path, file: str = "test_2d.parquet") -> list[Question]:
    """The questions; `kind` is the source and the task."""
    rows = parquet_rows(folder, file, ("idx", "task", "question", "choices", "answer", "source"))
    return [
        Question(
            id=str(row["idx"]),
            text=row["question"],
            images=row["image"],
            answers=(row["answer"].strip("() "),),
            options=lettered(row["choices"]),
            kind=f"{row['source']}/{row['task']}",
        )
        for row in rows
    ]


_MEAN = Variant("mean accuracy of ADE20K and COCO", mean_of_kinds("ADE20K", "COCO"))

BENCHMARK = Understanding(
    name="cvbench_2d",
    title="CV-Bench 2D",
    hub="nyu-visionx/CV-Bench",
    split="test, 2D",
    num_items=1438,
    published=_MEAN,
    overall=_MEAN,
    others={"accuracy": Variant("accuracy", accuracy)},
    read=partial(read, file="test_2d.parquet"),
    prompt=ask_letter,
    extract=read_letter,
)
