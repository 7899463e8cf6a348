"""Score answers to the understanding benchmarks of the blocks world, by the rules of the real ones.

An answer that cannot be read is wrong, and counted.
"""

import re
from collections.abc import Sequence
from typing import Any

from workflow_scripts.benchmarks import UNDERSTANDING
from workflow_scripts.benchmarks.understanding.base import marks_of
from workflow_scripts.benchmarks.understanding.estimates import accuracy, all_correct, f1, std_error
from workflow_scripts.blocks.world import ATTRIBUTES, BACKGROUNDS, CELLS

Answer = dict[str, Any]  # a row of the table `answers`

_WORDS = {
    "existence": ("yes", "no"),
    "count": ("1", "2", "3", "4"),
    "position": CELLS,
    "background": BACKGROUNDS,
    **ATTRIBUTES,
}


def extract(kind: str, raw_answer: str) -> str | None:
    """The first word of an answer that answers this kind of question; punctuation and case do not count."""
    words = re.findall(r"\w+", raw_answer.lower())
    return next((word for word in words if word in _WORDS[kind]), None)


def score(benchmark: str, answers: Sequence[Answer]) -> dict[str, Any]:
    """A row of the table `benchmark_scores` from all answers to one benchmark."""
    facts = UNDERSTANDING[benchmark]
    marks = marks_of(benchmark, answers)
    estimate = _MEASURES[facts.metric](marks)
    error = std_error(estimate, marks)
    return {
        "benchmark": benchmark,
        "variant": None,
        "metric": facts.metric,
        "raw": estimate.value,
        "score": 100 / facts.raw_max * estimate.value,
        "std_error": None if error is None else 100 / facts.raw_max * error,
        "chance": facts.chance,
        "num_items": len(answers),
        "num_unparsed": sum(answer["answer"] is None for answer in answers),
        "harness": "capsweep",
        "comparable": True,
    }


_MEASURES = {
    "accuracy": accuracy,
    "f1": lambda marks: f1(marks, "yes"),  # as POPE
    "pair accuracy": lambda marks: all_correct(marks, marks.groups),  # as MMVP
}
