"""Every understanding benchmark by name: what it measures, how large it is, and how its raw figure becomes 0-100.

Facts as published by the benchmarks' authors; the `blocks_` ones belong to the built-in world. The sixteen real ones
have a module each in `understanding`. The generation benchmarks are in `generation` and in `blocks.generation`.
"""

from dataclasses import dataclass

from workflow_scripts.benchmarks import understanding


@dataclass(frozen=True)
class Benchmark:
    """One benchmark. `chance` is the score of guessing (0-100; None where it has no plain value), `raw_max` the raw
    figure that becomes 100."""

    title: str
    metric: str
    num_items: int | None
    chance: float | None
    raw_max: float = 1.0
    hallucination: bool = False


UNDERSTANDING: dict[str, Benchmark] = {
    **{
        name: Benchmark(
            benchmark.title,
            benchmark.overall.metric,
            benchmark.num_items,
            benchmark.overall.chance,
            benchmark.overall.raw_max,
            benchmark.hallucination,
        )
        for name, benchmark in understanding.BENCHMARKS.items()
    },
    "blocks_pope": Benchmark("blocks: existence", "f1", None, 50.0, hallucination=True),
    "blocks_choice": Benchmark("blocks: multiple choice", "accuracy", None, 35.0),
    "blocks_counting": Benchmark("blocks: counting", "accuracy", None, 25.0),
    "blocks_attributes": Benchmark("blocks: attributes", "accuracy", None, 20.0),
    "blocks_position": Benchmark("blocks: position", "accuracy", None, 25.0),
    "blocks_pairs": Benchmark("blocks: pairs", "pair accuracy", None, 25.0),
}
