"""RealWorldQA: photographs from cars and streets, 765 questions (xAI, 2024).

Files: `data/test-*.parquet` of the hub. Most questions list their options in their text and want the letter; the
others want a word or a number, exactly.
"""

import re
from pathlib import Path

from workflow_scripts.benchmarks.understanding.base import IMAGE, Extracted, Question, Understanding, Variant
from workflow_scripts.benchmarks.understanding.estimates import accuracy
from workflow_scripts.benchmarks.understanding.extraction import option_letter, short_text
from workflow_scripts.benchmarks.understanding.sources import parquet_rows

_OPTION = re.compile(r"^([A-F])\. (.*)$", re.MULTILINE)


def read(folder: Path) -> list[Question]:
    """The 765 questions; `kind` is choice or open."""
    questions = []
    rows = parquet_rows(folder, "data/test-*.parquet", ("question", "answer"))
    for number, row in enumerate(rows):
        answer, options = row["answer"].strip(), dict(_OPTION.findall(row["question"]))
        if answer not in options:  # an open question may have lines that look like options
            options = {}
        kind = "choice" if options else "open"
        questions.append(Question(str(number), row["question"], row["image"], (answer,), options, kind))
    return questions


def prompt(question: Question) -> str:
    """The question as it is: it says how to answer."""
    return f"{IMAGE}\n{question.text.strip()}"


def extract(question: Question, raw_answer: str) -> Extracted:
    """A letter, or the bare short text."""
    return option_letter(raw_answer, question.options) if question.options else short_text(raw_answer)


def is_correct(question: Question, answer: str) -> bool:
    """The right letter, or the same short text."""
    return answer in question.answers or (not question.options and answer == short_text(question.answers[0])[0])


_ACCURACY = Variant("accuracy", accuracy)

BENCHMARK = Understanding(
    name="realworldqa",
    title="RealWorldQA",
    hub="lmms-lab-encoder/RealWorldQA",
    split="test",
    num_items=765,
    published=_ACCURACY,
    overall=_ACCURACY,
    read=read,
    prompt=prompt,
    extract=extract,
    is_correct=is_correct,
)
