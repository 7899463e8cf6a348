"""Scores as ratios of sums over answers, with standard errors that know which answers belong together.

Every metric of the benchmarks is a sum of ratios: an accuracy is right answers over answers, F1 twice the hits over
what was said and what is true, a grouped accuracy the groups without a fault over groups. A ratio r = sum(a) / sum(b)
moves by (a_i - r b_i) / sum(b) with answer i (linearisation, Särndal et al. 1992, section 5.6): these influences add
up within a cluster, and their squares over the G clusters, times G / (G - 1), are the variance. For a plain accuracy
that is the cluster-robust variance of a mean (CR1).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from workflow_scripts.errors import UserError


@dataclass(frozen=True)
class Marks:
    """Answers to one benchmark, by column. `correct` is 1 or 0, or the probability of being right by guessing."""

    benchmark: str
    ids: tuple[str, ...]
    kinds: tuple[str, ...]
    groups: tuple[str, ...]
    images: tuple[str, ...]
    given: tuple[str | None, ...]
    expected: tuple[str, ...]
    correct: np.ndarray
    guessing: bool = False

    def __len__(self) -> int:
        return len(self.ids)

    def says(self, word: str) -> np.ndarray:
        """1 where the answer was `word`, else 0, (answers,); the probability of it where guessing."""
        if self.guessing:
            return np.where(self.wants(word) == 1, self.correct, 1 - self.correct)
        return np.array([given == word for given in self.given], dtype=float)

    def wants(self, word: str) -> np.ndarray:
        """1 where the right answer is `word`, else 0, (answers,)."""
        return np.array([expected == word for expected in self.expected], dtype=float)

    def of_kind(self, prefix: str) -> np.ndarray:
        """1 where the kind is `prefix` or begins with `prefix/`, else 0, (answers,). Raises UserError if nowhere."""
        found = np.array([kind == prefix or kind.startswith(f"{prefix}/") for kind in self.kinds], dtype=float)
        if not found.any():
            raise UserError(f"{self.benchmark}: no answer of kind {prefix!r}, and the score needs that part")
        return found

    def guessed(self, correct: np.ndarray) -> "Marks":
        """The same questions with probabilities of being right in place of answers."""
        return replace(self, given=(None,) * len(self), correct=correct, guessing=True)


@dataclass(frozen=True)
class Estimate:
    """A number and how far each answer moves it, `influence` (answers,)."""

    value: float
    influence: np.ndarray

    def __add__(self, other: "Estimate") -> "Estimate":
        return Estimate(self.value + other.value, self.influence + other.influence)

    def __mul__(self, factor: float) -> "Estimate":
        return Estimate(self.value * factor, self.influence * factor)


Measure = Callable[[Marks], Estimate]


def ratio(numerator: np.ndarray, denominator: np.ndarray) -> Estimate:
    """sum(numerator) / sum(denominator), both (answers,); 0 where nothing is counted."""
    total = denominator.sum()
    value = numerator.sum() / total if total else 0.0
    return Estimate(float(value), (numerator - value * denominator) / (total or 1.0))


def accuracy(marks: Marks, kind: str | None = None) -> Estimate:
    """The share of right answers, 0-1, of all or of one kind."""
    counted = np.ones(len(marks)) if kind is None else marks.of_kind(kind)
    return ratio(marks.correct * counted, counted)


def all_correct(marks: Marks, keys: Sequence[str], kind: str | None = None) -> Estimate:
    """The share of groups, joined by `keys`, in which every answer is right, 0-1."""
    counted = np.ones(len(marks)) if kind is None else marks.of_kind(kind)
    first, whole = np.zeros(len(marks)), np.zeros(len(marks))
    heads: dict[str, int] = {}
    for i in np.flatnonzero(counted):
        head = heads.setdefault(keys[i], i)
        whole[head] = marks.correct[i] if head == i else whole[head] * marks.correct[i]
        first[head] = 1.0
    return ratio(whole, first)


def f1(marks: Marks, word: str) -> Estimate:
    """F1 of the answer `word`, 2 TP / (2 TP + FP + FN); what cannot be read was not `word`."""
    said, wanted = marks.says(word), marks.wants(word)
    return ratio(2 * said * wanted, said + wanted)


def mean(estimates: Sequence[Estimate]) -> Estimate:
    """The plain mean of estimates over the same answers."""
    total = estimates[0]
    for estimate in estimates[1:]:
        total = total + estimate
    return total * (1 / len(estimates))


def mean_of_kinds(*kinds: str) -> Measure:
    """A measure: the mean of the kinds' accuracies, each kind with the same weight."""
    return lambda marks: mean([accuracy(marks, kind) for kind in kinds])


def std_error(estimate: Estimate, marks: Marks) -> float | None:
    """Standard error of an estimate, answers clustered where they share an image or a scored group; None if all do."""
    return clustered_error(estimate, _clusters(marks))


def clustered_error(estimate: Estimate, clusters: np.ndarray) -> float | None:
    """Standard error of an estimate whose observations belong to `clusters` 0 to G - 1, (observations,); None if G is
    1."""
    num_clusters = int(clusters.max()) + 1
    if num_clusters == 1:
        return None
    sums = np.bincount(clusters, estimate.influence)
    return float(np.sqrt(num_clusters / (num_clusters - 1) * (sums**2).sum()))


def _clusters(marks: Marks) -> np.ndarray:
    """The cluster of every answer, 0 to G - 1: answers that an image or a group joins, directly or through others."""
    parent: dict[Any, Any] = {}

    def root(node: Any) -> Any:
        while parent.setdefault(node, node) != node:
            parent[node] = parent[parent[node]]
            node = parent[node]
        return node

    for i, (image, group) in enumerate(zip(marks.images, marks.groups, strict=True)):
        parent[root(("image", image))] = root(("answer", i))
        parent[root(("group", group))] = root(("answer", i))
    numbers: dict[Any, int] = {}
    return np.array([numbers.setdefault(root(("answer", i)), len(numbers)) for i in range(len(marks))])
