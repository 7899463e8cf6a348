"""Results of another harness, which a team has already or which `vlm.evaluate` has had it make."""

import logging
from pathlib import Path
from typing import Any

from workflow_scripts.benchmarks.understanding import BENCHMARKS, lmms_eval, vlmevalkit
from workflow_scripts.benchmarks.understanding.base import read_questions, score
from workflow_scripts.benchmarks.understanding.harness import ROUNDING, own_variant
from workflow_scripts.errors import UserError
from workflow_scripts.spec import UnderstandingBenchmark

log = logging.getLogger("capsweep")

_READERS = {"lmms-eval": lmms_eval.read_scores, "VLMEvalKit": vlmevalkit.read_scores}
_GIVEN = {"lmms-eval": lmms_eval.TASKS, "VLMEvalKit": vlmevalkit.DATA_SETS}

Rows = list[dict[str, Any]]


def faults_of_results(benchmarks: dict[str, UnderstandingBenchmark]) -> dict[str, str]:
    """Why the `results` of a benchmark cannot be read from its harness, by name."""
    faults = {}
    for name, one in benchmarks.items():
        if one.results is not None and name not in _GIVEN[one.harness]:
            others = [f"take those of {other!r}" for other, given in _GIVEN.items() if name in given]
            ways = [*others, "leave out 'results' and 'harness' and give its files"]
            faults[name] = f"{one.harness!r} has no results of it: {', or '.join(ways)}"
    return faults


def read_results(name: str, benchmark: UnderstandingBenchmark) -> tuple[Rows, Rows]:
    """Rows of the tables `answers` and `benchmark_scores` of one benchmark from its `results`.

    Where the benchmark's files are given too, the answers that lmms-eval logged are scored by our rules, and its own
    figures stand beside as variants of their own (`own_variant`); else the harness's figures are taken, and there are
    no answers. Raises UserError naming what is missing or not whole.
    """
    folder = Path(benchmark.results)
    if not folder.is_dir():
        raise UserError(f"understanding.benchmarks.{name}.results: no such folder: {folder}")
    if benchmark.path is None:
        return [], _READERS[benchmark.harness](folder, [name])
    questions = read_questions(BENCHMARKS[name], benchmark.path)
    if name == "mmmu":  # lmms-eval asks for validation alone
        questions = [question for question in questions if question.kind.startswith("validation/")]
    answers = lmms_eval.read_answers(folder, name, questions)
    scores = score(BENCHMARKS[name], answers, benchmark.harness)
    return answers, scores + _own_figures(scores, lmms_eval.read_scores(folder, [name]))


def _own_figures(ours: Rows, theirs: Rows) -> Rows:
    """lmms-eval's rows under their own variants. A figure of the same metric that differs from ours is logged."""
    by_variant = {row["variant"]: row for row in ours}
    for row in theirs:
        mine = by_variant[row["variant"]]
        if mine["metric"] == row["metric"] and abs(mine["score"] - row["score"]) > ROUNDING:
            log.warning(
                "%s, %s (%s): %.2f by our rules, %.2f by %s's own",
                row["benchmark"], row["variant"], row["metric"], mine["score"], row["score"], row["harness"],
            )  # fmt: skip
    return [{**row, "variant": own_variant(row["harness"], row["variant"])} for row in theirs]
