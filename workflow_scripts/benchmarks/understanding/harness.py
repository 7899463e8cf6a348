"""Scores that other programs computed, as rows of table `benchmark_scores`.

A harness names the figures it prints in its own way and does not always print ours. Its reader says, for each variant
of each benchmark, which of its figures to take; one that is of something else keeps its own name in `metric` and is
not comparable. Where the answers were left uncounted, `num_items` and `num_unparsed` are null.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from workflow_scripts.benchmarks.understanding import BENCHMARKS
from workflow_scripts.errors import UserError, unknown

ROUNDING = 0.01  # of 100; harnesses round their figures


def own_variant(harness: str, variant: str) -> str:
    """What a variant is called whose figure is the harness's own, beside ours from the same answers."""
    return f"{harness}: {variant}"


@dataclass(frozen=True)
class Figure:
    """Where a variant's raw figure is found: the sum of `keys` with their weights.

    `differs` names what it is where that is not the variant's own metric or rule.
    """

    keys: dict[str, float]
    differs: str | None = None

    @classmethod
    def of(cls, *keys: str, weight: float = 1.0, differs: str | None = None) -> "Figure":
        """The sum of some figures, all with one weight."""
        return cls(dict.fromkeys(keys, weight), differs)


def both(*keys: str, weight: float = 1.0, differs: str | None = None, **others: Figure) -> dict[str, Figure]:
    """The two headlines from one figure, and other variants beside them."""
    figure = Figure.of(*keys, weight=weight, differs=differs)
    return {"published": figure, "overall": figure, **others}


def check_names(place: str, benchmarks: Sequence[str], known: Sequence[str]) -> None:
    """Raise UserError for a benchmark that is none of the sixteen or that a harness cannot give."""
    for name in benchmarks:
        if name not in BENCHMARKS:
            raise unknown(place, name, BENCHMARKS)
        if name not in known:
            raise UserError(f"{place}: {BENCHMARKS[name].title} has no results here; it is scored by capsweep itself")


def score_row(
    benchmark: str,
    variant: str,
    figure: Figure,
    values: dict[str, Any],
    place: str,
    harness: str,
    num_items: int | None,
    whole: bool,
) -> dict[str, Any]:
    """One row from a harness's figures by name. Raises UserError, beginning with `place` (file and task), for a figure
    that is missing, is no number, or is not between 0 and the benchmark's most."""
    facts = BENCHMARKS[benchmark]
    ours = facts.variants[variant]
    raw = 0.0
    for key, weight in figure.keys.items():
        if key not in values:
            raise UserError(f"{place}: no figure {key!r}, it has {', '.join(map(repr, values))}")
        try:
            raw += weight * float(values[key])
        except (TypeError, ValueError):
            raise UserError(f"{place}: {key!r} is no number: {values[key]!r}") from None
    if math.isnan(raw) or not 0 <= raw <= ours.raw_max * (1 + 1e-9):
        raise UserError(
            f"{place}: {' + '.join(figure.keys)} makes {raw:g}, expected 0 to {ours.raw_max:g} ({ours.metric})"
        )
    return {
        "benchmark": benchmark,
        "variant": variant,
        "metric": figure.differs or ours.metric,
        "raw": raw,
        "score": 100 * raw / ours.raw_max,
        "std_error": None,
        "chance": ours.chance,
        "num_items": num_items,
        "num_unparsed": None,
        "harness": harness,
        "comparable": whole and figure.differs is None and not (variant == "published" and facts.caution),
    }
