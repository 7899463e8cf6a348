"""Read a results folder of lmms-eval (0.7): `<out>/<model>/<time>_results.json`, any number of them.

Each file has `results` (task to `metric,filter` to number) and `n-samples` (how many of how many were asked). With
`--log_samples` there is a `<time>_samples_<task>.jsonl` a task beside it, whose raw answers can be scored by our own
rules instead: `read_answers`.
"""

import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from workflow_scripts.benchmarks.understanding import BENCHMARKS
from workflow_scripts.benchmarks.understanding.base import Question, answer_row
from workflow_scripts.benchmarks.understanding.harness import Figure, both, check_names, score_row
from workflow_scripts.errors import UserError
from workflow_scripts.files import read_jsonl

log = logging.getLogger("capsweep")

_SUBMISSIONS = "submissions"  # a folder beside, of what a task hands in somewhere: other files of such names
_JUDGED = "circular accuracy, answers matched by a model"

# Benchmark to the tasks that can give it, the first that was run is taken, and what of the task each variant is.
TASKS: dict[str, dict[str, dict[str, Figure]]] = {
    "pope": {
        "pope": {
            **both("pope_f1_score", differs="F1 of yes, an answer with punctuation is wrong"),
            "accuracy": Figure.of("pope_accuracy", differs="accuracy, an answer with punctuation is wrong"),
        }
    },
    "hallusionbench": {
        "hallusion_bench_image": {
            "published": Figure.of("qAcc", weight=0.01, differs="qAcc, answers matched by a model"),
            "overall": Figure.of(
                "aAcc", "fAcc", "qAcc", weight=0.01 / 3, differs="mean of aAcc, fAcc, qAcc, answers matched by a model"
            ),
        }
    },
    "mme": {
        "mme": both(
            "mme_perception_score",
            "mme_cognition_score",
            perception=Figure.of("mme_perception_score"),
            cognition=Figure.of("mme_cognition_score"),
        )
    },
    "mmbench_en": {
        "mmbench_en_dev_static": both("gpt_eval_score", weight=0.01),
        "mmbench_en_dev": both("gpt_eval_score", weight=0.01, differs=_JUDGED),
    },
    "mmbench_cn": {"mmbench_cn_dev": both("gpt_eval_score", weight=0.01, differs=_JUDGED)},
    "scienceqa": {"scienceqa_img": both("exact_match")},
    "mmstar": {
        "mmstar": both("average", differs="mean accuracy of eighteen details", mean_of_details=Figure.of("average"))
    },
    "ocrbench": {"ocrbench": both("ocrbench_accuracy", weight=1000.0)},
    "realworldqa": {"realworldqa": both("exact_match")},
    "mmvp": {  # its copy of the questions has the corrected key
        "mmvp": {
            "published": Figure.of("mmvp_accuracy", differs="accuracy, corrected key"),
            "overall": Figure.of("mmvp_pair_accuracy", differs="pair accuracy, corrected key"),
            "corrected": Figure.of("mmvp_pair_accuracy"),
            "corrected_accuracy": Figure.of("mmvp_accuracy"),
        }
    },
    "cvbench_2d": {"cv_bench_2d": both("cv_bench_acc", differs="accuracy", accuracy=Figure.of("cv_bench_acc"))},
    "cvbench_3d": {"cv_bench_3d": both("cv_bench_acc")},
    "ai2d": {"ai2d": both("exact_match")},
    "seedbench_image": {"seedbench": both("seed_image")},
    "mmmu": {
        "mmmu_val": {
            "published": Figure.of("mmmu_acc", differs="accuracy, validation"),
            "overall": Figure.of("mmmu_acc"),
        }
    },
}


def read_scores(folder: Path, benchmarks: Sequence[str]) -> list[dict[str, Any]]:
    """Rows of table `benchmark_scores` of these benchmarks from a model's results folder.

    A run of a part of a task (`--limit`) is not comparable. Raises UserError naming file and task for a file that is
    not whole, a task that was not run or was run more than once, and a figure that is missing or impossible.
    """
    check_names("lmms-eval", benchmarks, list(TASKS))
    runs = _runs(folder)
    rows = []
    for benchmark in benchmarks:
        task = next((task for task in TASKS[benchmark] if task in runs), None)
        if task is None:
            raise UserError(f"{folder}: no results of {' or '.join(TASKS[benchmark])} ({BENCHMARKS[benchmark].title})")
        file, content = runs[task]
        place = f"{file}: task {task}"
        samples = content["n-samples"].get(task)
        if not isinstance(samples, dict) or not {"original", "effective"} <= set(samples):
            raise UserError(f"{place}: no count of its samples")
        whole = samples["effective"] == samples["original"]
        num_items = samples["effective"] if benchmark != "seedbench_image" else None  # its task has videos too
        values = _by_metric(content["results"][task], place)
        for variant, figure in TASKS[benchmark][task].items():
            rows.append(score_row(benchmark, variant, figure, values, place, "lmms-eval", num_items, whole))
    return rows


def read_answers(folder: Path, benchmark: str, questions: Sequence[Question]) -> list[dict[str, Any]]:
    """Rows of table `answers` from the samples of a task: what the model wrote, read by our rules.

    `questions` are those of the task, in the order of its files (of MMMU the ones of validation). Samples are joined
    to them by their number, and must agree with them in the answer or the text of the question. Raises UserError
    naming file and task for samples that are missing, doubled, cut short, without an answer, or of other questions.
    """
    check_names("lmms-eval", [benchmark], list(TASKS))
    files = [file for task in TASKS[benchmark] for file in sorted(folder.rglob(f"*_samples_{task}.jsonl"))]
    if len(files) != 1:
        raise UserError(f"{folder}: {len(files)} files of samples of {' or '.join(TASKS[benchmark])}, expected one")
    place = f"{files[0]}: {BENCHMARKS[benchmark].title}"
    samples: dict[int, dict[str, Any]] = {}
    for sample in read_jsonl(files[0]):
        if sample["doc_id"] in samples:
            raise UserError(f"{place}: sample {sample['doc_id']} occurs more than once")
        samples[sample["doc_id"]] = sample
    if set(samples) != set(range(len(questions))):
        raise UserError(f"{place}: {len(samples)} samples for {len(questions)} questions")
    rows = []
    for number, question in enumerate(questions):
        raw = samples[number].get("resps", samples[number].get("filtered_resps"))
        while isinstance(raw, list) and len(raw) == 1:
            raw = raw[0]
        if not isinstance(raw, str):
            raise UserError(f"{place}: sample {number} has no single answer: {raw!r}")
        if not _agrees(samples[number], question):
            raise UserError(f"{place}: sample {number} is not of question {question.id!r}")
        rows.append(answer_row(BENCHMARKS[benchmark], question, raw))
    return rows


def _agrees(sample: dict[str, Any], question: Question) -> bool:
    """Whether a sample may be of a question: the same answer, or the question's last line in its prompt."""
    target = str(sample["target"]).strip()
    accepted = {answer.lower() for answer in question.answers} | {str(list(question.answers)).lower()}
    return (
        target.strip("().").lower() in accepted
        or target.lower() in accepted
        or (question.text.strip().split("\n")[-1] in str(sample["input"]))
    )


def _runs(folder: Path) -> dict[str, tuple[Path, dict[str, Any]]]:
    """Every task that was run, with its file."""
    files = sorted(file for file in folder.rglob("*_results.json") if file.parent.name != _SUBMISSIONS)
    if not files:
        raise UserError(f"{folder}: no file *_results.json of lmms-eval")
    runs: dict[str, tuple[Path, dict[str, Any]]] = {}
    for file in files:
        try:
            content = json.loads(file.read_text(encoding="utf-8"))
        except ValueError as error:
            raise UserError(f"{file}: not JSON, perhaps cut short: {error}") from None
        if not isinstance(content, dict) or not {"results", "n-samples"} <= set(content):
            raise UserError(f"{file}: no results of lmms-eval, it lacks 'results' or 'n-samples'")
        for task in content["results"]:
            if task in runs:
                raise UserError(f"{file}: task {task} is in {runs[task][0]} too; leave one of them")
            runs[task] = (file, content)
    wanted = {task for tasks in TASKS.values() for task in tasks}
    if others := sorted(set(runs) - wanted):
        log.info("%s: no benchmark of ours: %s", folder, ", ".join(others))
    return runs


def _by_metric(results: dict[str, Any], place: str) -> dict[str, Any]:
    """Figures by the metric's name, without the filter's. Raises UserError where two filters gave one metric."""
    values: dict[str, Any] = {}
    for key, value in results.items():
        metric = key.split(",")[0]
        if metric in values:
            raise UserError(f"{place}: figure {metric!r} occurs with more than one filter")
        values[metric] = value
    return values
