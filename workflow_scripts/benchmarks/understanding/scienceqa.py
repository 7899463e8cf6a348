"""ScienceQA: school science, two to five options (Lu et al., NeurIPS 2022), the 2,017 test questions with an image.

Files: `ScienceQA-IMG/test-*.parquet` of the hub. The authors' headline counts all 4,241 test questions; those without
an image say nothing about captions and are left out, as in every table of vision-language models. The paper's cells
are multiples of 1/39: it scored a part of the benchmark that it does not name.
"""

from pathlib import Path

from workflow_scripts.benchmarks.understanding.base import Question, Understanding, Variant
from workflow_scripts.benchmarks.understanding.estimates import accuracy, mean_of_kinds
from workflow_scripts.benchmarks.understanding.forms import ask_letter, lettered, read_letter
from workflow_scripts.benchmarks.understanding.sources import parquet_rows

SUBJECTS = ("natural science", "social science", "language science")


def read(folder: Path) -> list[Question]:
    """The questions with an image; `kind` is the subject and the topic."""
    questions = []
    rows = parquet_rows(
        folder, "ScienceQA-IMG/test-*.parquet", ("question", "choices", "answer", "hint", "subject", "topic")
    )
    for number, row in enumerate(rows):
        if row["image"]:
            options = lettered(row["choices"])
            text = f"Context: {row['hint']}\n{row['question']}" if row["hint"] else row["question"]
            letter = list(options)[int(row["answer"])]
            kind = f"{row['subject']}/{row['topic']}"
            questions.append(Question(str(number), text, row["image"], (letter,), options, kind))
    return questions


_ACCURACY = Variant("accuracy", accuracy)

BENCHMARK = Understanding(
    name="scienceqa",
    title="ScienceQA",
    hub="lmms-lab-encoder/ScienceQA",
    split="test, with image",
    num_items=2017,
    published=_ACCURACY,
    overall=_ACCURACY,
    others={"mean_of_subjects": Variant("mean accuracy of three subjects", mean_of_kinds(*SUBJECTS))},
    read=read,
    prompt=ask_letter,
    extract=read_letter,
    caution="the paper's cells are multiples of 1/39, of a part of the benchmark that it does not name",
)
