"""MMStar: 1,500 questions that need the image, 250 in each of six abilities, three details each (Chen et al., 2024).

Files: `mmstar.parquet` of the hub; the options stand in the question. Accuracy over all questions is the authors' and
VLMEvalKit's figure and, on the whole benchmark, equal to the mean of the six abilities; lmms-eval averages the
eighteen details, which are of unequal size.
"""

import re
from pathlib import Path

from workflow_scripts.benchmarks.understanding.base import IMAGE, LETTER, Question, Understanding, Variant
from workflow_scripts.benchmarks.understanding.estimates import Estimate, Marks, Measure, accuracy, mean
from workflow_scripts.benchmarks.understanding.forms import read_letter
from workflow_scripts.benchmarks.understanding.sources import parquet_rows

_OPTION = re.compile(r"\b([A-D]): (.*?)(?=,? *\n?\b[B-D]: |$)", re.DOTALL)


def read(folder: Path) -> list[Question]:
    """The 1,500 questions; `kind` is the ability and the detail."""
    rows = parquet_rows(folder, "mmstar.parquet", ("index", "question", "answer", "category", "l2_category"))
    return [
        Question(
            id=str(row["index"]),
            text=row["question"],
            images=row["image"],
            answers=(row["answer"].strip(),),
            options=_options(row["question"]),
            kind=f"{row['category']}/{row['l2_category']}",
        )
        for row in rows
    ]


def prompt(question: Question) -> str:
    """The question has its options inside."""
    return f"{IMAGE}\n{question.text.strip()}\n{LETTER}"


def mean_of_level(level: int) -> Measure:
    """A measure: the mean accuracy of the abilities (level 1) or of the details (level 2)."""

    def measure(marks: Marks) -> Estimate:
        kinds = dict.fromkeys("/".join(kind.split("/")[:level]) for kind in marks.kinds)
        return mean([accuracy(marks, kind) for kind in kinds])

    return measure


def _options(question: str) -> dict[str, str]:
    """The options in a question's text; bare letters where they are only in the picture."""
    tail = question.rsplit("Options:", 1)[-1] if "Options:" in question else ""
    found = {letter: text.strip().rstrip(",") for letter, text in _OPTION.findall(tail)}
    return {letter: found.get(letter, "") for letter in (found or "ABCD")}


_ACCURACY = Variant("accuracy", accuracy, chance=25.0)

BENCHMARK = Understanding(
    name="mmstar",
    title="MMStar",
    hub="Lin-Chen/MMStar",
    split="val",
    num_items=1500,
    published=_ACCURACY,
    overall=_ACCURACY,
    others={
        "mean_of_abilities": Variant("mean accuracy of six abilities", mean_of_level(1), chance=25.0),
        "mean_of_details": Variant("mean accuracy of eighteen details", mean_of_level(2), chance=25.0),
    },
    read=read,
    prompt=prompt,
    extract=read_letter,
)
