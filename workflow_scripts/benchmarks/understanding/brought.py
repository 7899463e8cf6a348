"""Results that a team has of another harness, in place of asking."""

from pathlib import Path
from typing import Any

from workflow_scripts.benchmarks.understanding import BENCHMARKS, lmms_eval, vlmevalkit
from workflow_scripts.benchmarks.understanding.base import read_questions, score
from workflow_scripts.errors import UserError
from workflow_scripts.spec import UnderstandingBenchmark

_READERS = {"lmms-eval": lmms_eval.read_scores, "VLMEvalKit": vlmevalkit.read_scores}

Rows = list[dict[str, Any]]


def read_results(name: str, benchmark: UnderstandingBenchmark) -> tuple[Rows, Rows]:
    """Rows of the tables `answers` and `benchmark_scores` of one benchmark from its `results`.

    Where the benchmark's files are given too, the answers that lmms-eval logged are scored by our rules; else the
    harness's figures are taken, and there are no answers. Raises UserError naming what is missing or not whole.
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
    return answers, score(BENCHMARKS[name], answers, benchmark.harness)
