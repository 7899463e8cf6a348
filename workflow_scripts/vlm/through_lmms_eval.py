"""Have lmms-eval ask a trained model: one process a copy of the model, task after task, each task's results kept."""

import importlib.metadata
import importlib.util
import json
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from workflow_scripts.benchmarks.understanding.base import Question, Understanding
from workflow_scripts.benchmarks.understanding.lmms_eval_tasks import require_files
from workflow_scripts.engines.vllm import split_devices, start_process
from workflow_scripts.errors import UserError
from workflow_scripts.files import fingerprint
from workflow_scripts.plan import EvaluateJob, ServingJob
from workflow_scripts.progress import log

_WAY = 1  # of having it ask: raise it where a change here or in `run_lmms_eval` would change answers


def ask(
    job: EvaluateJob,
    serving: ServingJob,
    manifest: Path,
    weights: str,
    benchmarks: Sequence[tuple[Understanding, Sequence[Question]]],
    folder: Path,
) -> dict[str, Path]:
    """A results folder of lmms-eval for every benchmark, of the model that `manifest` lists and `weights` names.

    `folder` keeps them, each under the fingerprint of all that decides it. Raises UserError naming the benchmarks
    whose task did not end, after the others have: the next run asks for just those; or files that a task lacks.
    """
    settings = [job.engine.model_dump(mode="json"), job.max_new_tokens, weights, version(), _WAY]
    results, sizes = {}, {}
    for benchmark, questions in benchmarks:
        asked = [(q.id, benchmark.prompt(q), [image.key for image in q.images]) for q in questions]
        results[benchmark.name] = folder / benchmark.name / fingerprint(settings, asked)
        if not results[benchmark.name].exists():
            require_files(benchmark.name, job.benchmarks[benchmark.name].path)
            sizes[benchmark.name] = len(questions)
    log.info("lmms-eval: %d of %d tasks are done", len(results) - len(sizes), len(results))
    max_images = max(len(question.images) for _, questions in benchmarks for question in questions)
    command = ["workflow_scripts.vlm.run_lmms_eval", "--spec", job.model_dump_json()]
    command += ["--serving", serving.model_dump_json(), "--model", str(manifest), "--max-images", str(max_images)]
    devices = split_devices(serving.gpus, serving.serving.tensor_parallel)
    copies = []
    try:
        for mine, names in zip(devices, shares(sizes, len(devices)), strict=True):
            if names:
                folders = json.dumps({name: str(results[name].resolve()) for name in names})
                copies.append(start_process([*command, "--folders", folders], mine))
        for copy in copies:
            copy.wait()
    finally:
        for copy in copies:
            if copy.poll() is None:
                os.killpg(copy.pid, signal.SIGTERM)
    if missing := [name for name, path in results.items() if not path.exists()]:
        raise UserError(
            f"understanding.benchmarks: lmms-eval has not answered {', '.join(missing)}, its log above says why; run "
            "again to ask for just these, or leave out their 'harness' and the workflow asks them itself"
        )
    return results


def version() -> str:
    """lmms-eval's version. Raises UserError where it is not installed."""
    if importlib.util.find_spec("lmms_eval") is None:
        raise UserError(
            f"understanding.benchmarks: harness 'lmms-eval' needs the package lmms-eval, which {sys.executable} "
            "lacks: run it in the environment of envs/serve.txt"
        )
    return importlib.metadata.version("lmms-eval")


def shares(sizes: dict[str, int], number: int) -> list[list[str]]:
    """Names in `number` shares of about equal size, the largest first."""
    found: list[list[str]] = [[] for _ in range(number)]
    for name in sorted(sizes, key=sizes.__getitem__, reverse=True):
        min(found, key=lambda share: sum(sizes[other] for other in share)).append(name)
    return found
