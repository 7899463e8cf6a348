"""Score answers to the understanding benchmarks of the blocks world, by the rules of the real ones.

An answer that cannot be read is wrong, and counted.
"""

import re
from collections.abc import Sequence
from typing import Any

from workflow_scripts.benchmarks import UNDERSTANDING
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
    raw = _METRICS[facts.metric](answers)
    return {
        "benchmark": benchmark,
        "metric": facts.metric,
        "raw": raw,
        "score": 100 * raw / facts.raw_max,
        "chance": facts.chance,
        "num_items": len(answers),
        "num_unparsed": sum(answer["answer"] is None for answer in answers),
        "harness": "capsweep",
        "comparable": True,
    }


def accuracy(answers: Sequence[Answer]) -> float:
    """The share of right answers."""
    return sum(answer["correct"] for answer in answers) / len(answers)


def f1(answers: Sequence[Answer]) -> float:
    """F1 of yes, as POPE: 2 TP / (2 TP + FP + FN). What cannot be read is no yes."""
    said = [answer["answer"] == "yes" for answer in answers]
    true = [answer["expected"] == "yes" for answer in answers]
    hits = sum(s and t for s, t in zip(said, true, strict=True))
    return 2 * hits / (sum(said) + sum(true))


def pair_accuracy(answers: Sequence[Answer]) -> float:
    """The share of pairs, joined by `group`, of which both answers are right, as MMVP."""
    pairs: dict[str, bool] = {}
    for answer in answers:
        pairs[answer["group"]] = pairs.get(answer["group"], True) and answer["correct"]
    return sum(pairs.values()) / len(pairs)


_METRICS = {"accuracy": accuracy, "f1": f1, "pair accuracy": pair_accuracy}
