"""How questions of the two common forms are put and read: yes or no, and one letter of several options."""

from collections.abc import Sequence

from workflow_scripts.benchmarks.understanding.base import IMAGE, LETTER, YES_NO, Extracted, Question, listed
from workflow_scripts.benchmarks.understanding.extraction import option_letter, yes_or_no

YES_OR_NO = {"yes": "yes", "no": "no"}  # the options of a closed question


def ask_yes_or_no(question: Question) -> str:
    """The image, the question, and how to answer unless the question says so itself."""
    asked = question.text.strip()
    return f"{IMAGE}\n{asked}" if YES_NO.lower() in asked.lower() else f"{IMAGE}\n{asked}\n{YES_NO}"


def read_yes_or_no(question: Question, raw_answer: str) -> Extracted:
    """`yes` or `no`; the question does not matter."""
    return yes_or_no(raw_answer)


def ask_letter(question: Question, instruction: str = LETTER) -> str:
    """The image, the question, the options as lines `A. text`, and how to answer."""
    return f"{IMAGE}\n{question.text.strip()}\n{listed(question.options)}\n{instruction}"


def read_letter(question: Question, raw_answer: str) -> Extracted:
    """One of the question's letters."""
    return option_letter(raw_answer, question.options)


def lettered(texts: Sequence[str]) -> dict[str, str]:
    """Options by letter, A first."""
    return {chr(ord("A") + place): str(text) for place, text in enumerate(texts)}
