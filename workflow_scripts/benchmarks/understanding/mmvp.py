"""MMVP: pairs of images that CLIP takes for the same, one question a pair with opposite answers (Tong et al., 2024).

Files of the hub: `Questions.csv` and `MMVP Images/1.jpg` to `300.jpg`; the repository `MMVP/MMVP`, not a copy with a
mended key. The authors count a pair only if both answers are right; the paper's column fits single questions. Four
answers of the published key are wrong, the pairs 99-100 and 279-280 the other way round; the `corrected` figures mend
them, the others keep the key that everybody reports on.
"""

import csv
import re
from dataclasses import replace
from pathlib import Path

import numpy as np

from workflow_scripts.benchmarks.understanding.base import Question, Understanding, Variant
from workflow_scripts.benchmarks.understanding.estimates import Estimate, Marks, accuracy, all_correct
from workflow_scripts.benchmarks.understanding.forms import ask_letter, lettered, read_letter
from workflow_scripts.benchmarks.understanding.sources import image_file, one_file
from workflow_scripts.errors import UserError

PUBLISHED_KEY = {"99": "A", "100": "B", "279": "A", "280": "B"}  # and all four are wrong
_NUMBER = ("lndex", "Index")  # the published file spells it with an l


def read(folder: Path) -> list[Question]:
    """The 300 questions; `group` joins a pair. Raises UserError where the key is not the published one."""
    file = one_file(folder, "Questions.csv")
    questions = []
    with file.open(newline="", encoding="utf-8-sig") as lines:
        for row in csv.DictReader(lines):
            number = next((row[name] for name in _NUMBER if name in row), None)
            if number is None:
                raise UserError(f"{file}: no column {_NUMBER[0]!r}, it has {', '.join(row)}")
            answer = row["Correct Answer"].strip().strip("()").upper()
            if PUBLISHED_KEY.get(number, answer) != answer:
                raise UserError(
                    f"{file}: question {number} has the answer {answer}, published is {PUBLISHED_KEY[number]}: this "
                    "key has been mended; take the repository MMVP/MMVP, from which the corrected figures follow"
                )
            options = lettered([text.strip() for text in re.split(r"\([a-z]\)", row["Options"])[1:]])
            images = image_file(file.parent / "MMVP Images", f"{number}.jpg")
            pair = f"pair {(int(number) + 1) // 2}"
            questions.append(Question(number, row["Question"], images, (answer,), options, group=pair))
    return questions


def pair_accuracy(marks: Marks) -> Estimate:
    """The share of pairs of which both answers are right."""
    return all_correct(marks, marks.groups)


def mended_answer(question: Question) -> str:
    """The right letter: with two options, where the published one is wrong, the other."""
    (published,) = question.answers
    if question.id not in PUBLISHED_KEY:
        return published
    return next(letter for letter in question.options if letter != published)


def mend_key(marks: Marks) -> Marks:
    """The same answers against the corrected key: with two options, the wrong ones become right."""
    if marks.guessing:
        return marks  # guesses are as good on either key
    mended = [
        (given is not None and given != expected) if question in PUBLISHED_KEY else right
        for question, given, expected, right in zip(marks.ids, marks.given, marks.expected, marks.correct, strict=True)
    ]
    return replace(marks, correct=np.array(mended, dtype=float))


_PAIRS = "pair accuracy"

BENCHMARK = Understanding(
    name="mmvp",
    title="MMVP",
    hub="MMVP/MMVP",
    split="train",
    num_items=300,
    published=Variant("accuracy", accuracy, chance=50.0),
    overall=Variant(_PAIRS, pair_accuracy, chance=25.0),
    others={
        "corrected": Variant(f"{_PAIRS}, corrected key", lambda marks: pair_accuracy(mend_key(marks)), chance=25.0),
        "corrected_accuracy": Variant("accuracy, corrected key", lambda marks: accuracy(mend_key(marks)), chance=50.0),
    },
    read=read,
    prompt=ask_letter,
    extract=read_letter,
)
