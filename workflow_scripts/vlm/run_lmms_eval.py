"""Ask a trained vision-language model through lmms-eval, task after task, with one engine. `vlm.evaluate` starts it.

    python -m workflow_scripts.vlm.run_lmms_eval --spec '{"model": {...}, "benchmarks": {"mme": {"path": "assets/MME",
        "harness": "lmms-eval"}}, "engine": {"engine": "vllm", "max_model_len": 4096}, "max_new_tokens": 1024}' \\
        --serving '{"gpus": 1, "threads": 8}' --model results/understanding/clip-llama/seed-0/exact/model.json \\
        --max-images 1 --folders '{"mme": "runs/mme"}'

Files in: the model's manifest, the benchmarks' files. Files out: a results folder of lmms-eval a benchmark, with its
samples; each is there whole when its task has ended, and one that is there is not asked again. Until then a task's
answers wait in a hidden folder beside.
"""

import argparse
import json
import logging
import os
import shutil
import signal
import threading
import time
from pathlib import Path
from typing import Any

from workflow_scripts.benchmarks.understanding.lmms_eval_tasks import TABLES, write_task
from workflow_scripts.command import load_spec, parser, run
from workflow_scripts.errors import UserError
from workflow_scripts.model_folders import manifest_folder
from workflow_scripts.partial import Journal
from workflow_scripts.plan import EvaluateJob, ServingJob
from workflow_scripts.progress import Progress
from workflow_scripts.vlm.ask import asked_engine

log = logging.getLogger("capsweep")

SEED = 0  # of all that lmms-eval might draw; answers are greedy


def main(argv: list[str] | None = None) -> None:
    """Run the tasks that have no results yet."""
    arguments = parser(__doc__)
    arguments.add_argument("--serving", default="{}", help="how the engine runs, as JSON: GPUs, threads")
    arguments.add_argument("--model", type=Path, required=True, help="manifest of the trained model")
    arguments.add_argument("--max-images", type=int, required=True, help="the most images that a question has")
    arguments.add_argument("--folders", required=True, help="benchmark to the folder for its results, as JSON")
    args = arguments.parse_args(argv)
    _end_with_parent()
    job, serving = load_spec(args.spec, EvaluateJob), load_spec(args.serving, ServingJob)
    folders = {name: Path(folder) for name, folder in json.loads(args.folders).items()}
    left = [name for name, folder in folders.items() if not folder.exists()]
    if not left:
        return
    os.environ |= {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}  # read when its libraries are imported
    os.environ["LMMS_IMAGE_ENCODE_FORMAT"] = "BMP"  # on the way to vLLM; PNG, its default, holds the engine up
    model = _load(job, serving, manifest_folder(args.model), args.max_images)
    faults = []
    for name in left:
        out = folders[name]
        partial, answers = out.with_name(f".{out.name}.tmp"), out.with_name(f".{out.name}.answers")
        shutil.rmtree(partial, ignore_errors=True)  # of a killed run
        task = write_task(name, job.benchmarks[name].path, job.max_new_tokens, partial)
        log.info("lmms-eval: %s", task)
        keep_answers(model, name, answers)
        try:
            _run(model, task, partial)
        except Exception as error:  # a task raises whatever it likes; the next one may be sound
            log.exception("lmms-eval: %s stopped", task)
            faults.append(f"understanding.benchmarks.{name}: task {task} stopped: {type(error).__name__}: {error}")
        else:
            shutil.rmtree(partial / TABLES)
            for copied in partial.glob("*.parquet"):
                copied.unlink()
            partial.rename(out)
            shutil.rmtree(answers)
    if faults:
        raise UserError("lmms-eval\n  " + "\n  ".join(faults))


def _load(job: EvaluateJob, serving: ServingJob, folder: Path, max_images: int) -> Any:
    """lmms-eval's vLLM model, run as our own engine is."""
    from lmms_eval.models.chat.vllm import VLLM

    from workflow_scripts.engines.vllm_copy import model_settings

    settings = model_settings(asked_engine(job.engine, folder, max_images), serving)
    return VLLM(
        model=str(folder),
        batch_size=2 * serving.serving.max_num_seqs,  # questions that are prepared, asked and kept together
        max_new_tokens=job.max_new_tokens,
        disable_log_stats=True,
        **settings,
    )


def keep_answers(model: Any, benchmark: str, folder: Path) -> None:
    """Have lmms-eval's model keep its answers to a task's requests in `folder`, batch by batch, and ask only for those
    that are not there: by itself it would begin a killed task anew."""
    generate = type(model).generate_until

    def generate_until(requests: list[Any]) -> list[str]:
        journal = Journal(folder, "raw_answers", len(requests) + 1)
        found = {row["question_id"]: row["raw_answer"] for row in journal.read().to_pylist()}
        left = [request for request in requests if str(request.doc_id) not in found]
        progress = Progress(len(requests), "questions", len(requests) - len(left))
        for first in range(0, len(left), model.batch_size_per_gpu):
            batch = left[first : first + model.batch_size_per_gpu]
            for request, answer in zip(batch, generate(model, batch), strict=True):
                row = {"benchmark": benchmark, "question_id": str(request.doc_id), "raw_answer": answer.text}
                journal.append({**row, "finish_reason": None})
                found[row["question_id"]] = answer.text
            journal.flush()
            progress.update(len(batch))
        return [found[str(request.doc_id)] for request in requests]

    model.generate_until = generate_until


def _run(model: Any, task: str, folder: Path) -> None:
    """Run the task whose YAML is in `folder`; its results and samples are written there."""
    from lmms_eval.evaluator import simple_evaluate
    from lmms_eval.loggers.evaluation_tracker import EvaluationTracker
    from lmms_eval.tasks import TaskManager

    now = time.strftime("%Y%m%d_%H%M%S")
    results = simple_evaluate(
        model=model,
        tasks=[task],
        task_manager=TaskManager("WARNING", include_path=str(folder), include_defaults=False, model_name="vllm"),
        batch_size=model.batch_size_per_gpu,
        random_seed=SEED,
        numpy_random_seed=SEED,
        torch_random_seed=SEED,
        fewshot_random_seed=SEED,
        datetime_str=now,
        # What its own command line would say: raw answers are logged as they are, scores need no images.
        cli_args=argparse.Namespace(process_with_media=False, reasoning_tags="none", output_path=str(folder)),
    )
    tracker = EvaluationTracker(output_path=str(folder))
    tracker.general_config_tracker.log_experiment_args("vllm", f"model={model.model}", None, None, False)
    samples = results.pop("samples")
    tracker.save_results_aggregated(results=results, samples=samples, datetime_str=now)
    tracker.save_results_samples(task_name=task, samples=samples[task])
    if not any(folder.rglob(f"{now}_results.json")) or not any(folder.rglob(f"{now}_samples_{task}.jsonl")):
        raise UserError("it could not write its results, see its log above")  # which it only warns of


def _end_with_parent() -> None:
    """In a session of its own, end this process and all that it started once its parent is gone."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os.killpg(0, signal.SIGTERM)

    if os.getsid(0) == os.getpid():
        threading.Thread(target=watch, daemon=True).start()


if __name__ == "__main__":
    run(main)
