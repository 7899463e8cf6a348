"""MMMU: college exams in 30 subjects, up to seven images a question, some without options (Yue et al., CVPR 2024).

Files: `data/dev-*.parquet` and `data/validation-*.parquet` of the hub. The headline is the accuracy on the 900 of
validation; the paper's column fits dev and validation together, 1,050. Images stand where the text names them. Open
answers are matched by the authors' rule: a number among the key phrases' numbers, or a text inside of one. Their rule
for options draws a letter at random where it finds none; here that is unparsed.
"""

import ast
import re
from pathlib import Path
from typing import Any

from workflow_scripts.benchmarks.understanding.base import (
    IMAGE,
    LETTER,
    Extracted,
    Question,
    Understanding,
    Variant,
    listed,
)
from workflow_scripts.benchmarks.understanding.estimates import accuracy
from workflow_scripts.benchmarks.understanding.extraction import key_phrases, numbers, option_letter
from workflow_scripts.benchmarks.understanding.forms import lettered
from workflow_scripts.benchmarks.understanding.sources import parquet_rows
from workflow_scripts.errors import UserError

SHORT = "Answer the question using a single word or phrase."
_SPLITS = ("dev", "validation")
_PLACE = re.compile(r"<image (\d)>")
_IMAGES = tuple(f"image_{number}" for number in range(1, 8))


def read(folder: Path) -> list[Question]:
    """Both splits; `kind` is the split and the subject."""
    columns = ("id", "question", "options", "answer", "question_type")
    return [
        _question(split, row)
        for split in _SPLITS
        for row in parquet_rows(folder, f"data/{split}-*.parquet", columns, _IMAGES)
    ]


def prompt(question: Question) -> str:
    """Text with an image at every place that names one; before the text where none does."""
    text = question.text
    text += f"\n{listed(question.options)}\n{LETTER}" if question.options else f"\n{SHORT}"
    text, places = _PLACE.subn(IMAGE, text)
    return text if places else IMAGE * len(question.images) + "\n" + text


def extract(question: Question, raw_answer: str) -> Extracted:
    """A letter, or the key phrases of an open answer."""
    return option_letter(raw_answer, question.options) if question.options else key_phrases(raw_answer)


def is_correct(question: Question, answer: str) -> bool:
    """The right letter, or an open answer that one of the key phrases holds."""
    if question.options:
        return answer in question.answers
    phrases = answer.split("\n")
    return any(_holds(phrase, accepted) for phrase in phrases for accepted in question.answers)


def _holds(phrase: str, accepted: str) -> bool:
    """Whether a phrase has an accepted number among its own, or an accepted text inside; one letter needs room."""
    number = _number(accepted)
    if number is not None:
        return number in numbers(phrase) or number == _number(phrase)
    accepted = accepted.strip().lower()
    if len(accepted) == 1:
        return f" {accepted}" in phrase or f"{accepted} " in phrase or phrase == accepted
    return accepted in phrase


def _number(text: str) -> float | None:
    try:
        return round(float(text.strip().replace(",", "")), 2)
    except ValueError:
        return None


def _question(split: str, row: dict[str, Any]) -> Question:
    options = lettered(ast.literal_eval(row["options"])) if row["question_type"] == "multiple-choice" else {}
    named = _PLACE.findall(row["question"] + "\n" + "\n".join(options.values()))
    present = [image for column in _IMAGES for image in row[column]]
    images = tuple(image for number in named for image in row[f"image_{number}"]) if named else tuple(present)
    if len(images) < len(named):
        raise UserError(f"question {row['id']!r} of MMMU names an image that it has not")
    subject = row["id"].removeprefix(f"{split}_").rsplit("_", 1)[0]
    return Question(
        row["id"], row["question"], images, _accepted(row["answer"], options), options, f"{split}/{subject}"
    )


def _accepted(answer: str, options: dict[str, str]) -> tuple[str, ...]:
    """The key of a question: a letter, a text, or a list of texts written as Python writes it."""
    if not options and answer.startswith("["):
        return tuple(str(text) for text in ast.literal_eval(answer))
    return (answer.strip(),)


BENCHMARK = Understanding(
    name="mmmu",
    title="MMMU",
    hub="lmms-lab-encoder/MMMU",
    split="dev and validation",
    num_items=900,
    num_prompts=1050,
    published=Variant("accuracy, dev and validation", accuracy),
    overall=Variant("accuracy, validation", accuracy, only="validation", num_prompts=900),
    read=read,
    prompt=prompt,
    extract=extract,
    is_correct=is_correct,
)
