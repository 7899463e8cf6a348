"""Having lmms-eval ask: which benchmarks, in which shares, what is asked again. `tests/integration` runs it itself."""

import contextlib
import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import pandas as pd
import pytest
from asked_models import evaluate_spec, run_evaluate, save_trained
from PIL import Image
from vlm_helpers import make_base

from workflow_scripts.benchmarks.understanding import BENCHMARKS, mmvp
from workflow_scripts.benchmarks.understanding.base import read_questions
from workflow_scripts.benchmarks.understanding.lmms_eval_tasks import TASKS
from workflow_scripts.benchmarks.understanding.make_tiny import make
from workflow_scripts.benchmarks.understanding.pope import SETTINGS
from workflow_scripts.config import check_config, read_yaml
from workflow_scripts.errors import UserError
from workflow_scripts.files import read_run_record
from workflow_scripts.plan import evaluate_environment, evaluate_job
from workflow_scripts.records import read_table
from workflow_scripts.vlm import evaluate, run_lmms_eval, through_lmms_eval

FIGURES = {"ai2d": {"exact_match,flexible-extract": 1.0}, "mme": {"mme_perception_score,none": 2000.0,
           "mme_cognition_score,none": 800.0}}  # fmt: skip


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    return make(tmp_path_factory.mktemp("tiny"), items=6)


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return make_base(tmp_path_factory.mktemp("base") / "clip-llama")


@pytest.fixture(scope="module")
def manifest(base, tmp_path_factory):
    return save_trained(base, tmp_path_factory.mktemp("trained"), pad_to_square=True)


def write_results(folder, name, questions):
    """What lmms-eval leaves of a task of which every answer is right."""
    task = TASKS[name].name
    (folder / "model").mkdir(parents=True)
    counts = {task: {"original": len(questions), "effective": len(questions)}}
    content = {"results": {task: FIGURES[name]}, "n-samples": counts}
    (folder / "model/now_results.json").write_text(json.dumps(content))
    lines = [
        {"doc_id": n, "target": q.answers[0], "input": q.text, "filtered_resps": q.answers[0]}
        for n, q in enumerate(questions)
    ]
    (folder / f"model/now_samples_{task}.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n")


@pytest.fixture
def stand_in(folders, monkeypatch):
    """A stand-in for the process that runs lmms-eval: the names it was started with; what is in `failing` fails."""
    started, failing = [], set()

    def start(command, devices):
        asked = json.loads(command[command.index("--folders") + 1])
        started.append((list(asked), devices))
        for name, folder in asked.items():
            if name not in failing:
                write_results(Path(folder), name, read_questions(BENCHMARKS[name], folders[name]))
        return subprocess.Popen([sys.executable, "-c", ""], start_new_session=True)

    monkeypatch.setattr(through_lmms_eval, "start_process", start)
    monkeypatch.setattr(through_lmms_eval, "version", lambda: "0.7.3")
    monkeypatch.setattr(evaluate.engines, "check", lambda job, place: None)
    start.started, start.failing = started, failing
    return start


def sections(folders, *names):
    return {name: {"path": str(folders[name]), "harness": "lmms-eval"} for name in names}


def test_its_answers_are_scored_by_our_rules_and_its_figures_kept(base, manifest, folders, stand_in, tmp_path):
    spec = evaluate_spec(base, sections(folders, "mme", "ai2d"), "vllm")
    run_evaluate(manifest, spec, tmp_path)
    assert stand_in.started == [(["mme", "ai2d"], None)]  # the larger one first
    scores = read_table(tmp_path / "scores.csv", "benchmark_scores").set_index(["benchmark", "variant"])
    for name in ("mme", "ai2d"):
        assert scores.loc[(name, "overall"), "score"] == scores.loc[(name, "lmms-eval: overall"), "score"] == 100
        assert scores.loc[name].harness.eq("lmms-eval").all()
    answers = read_table(tmp_path / "answers.parquet", "answers")
    assert len(answers) == 28 + 6 and answers["correct"].all()
    assert read_run_record(tmp_path / "scores.csv")["lmms_eval"] == "0.7.3"


def test_only_what_is_new_or_failed_is_asked(base, manifest, folders, stand_in, tmp_path):
    stand_in.failing.add("ai2d")
    both = evaluate_spec(base, sections(folders, "mme", "ai2d"), "vllm")
    with pytest.raises(UserError, match=r"lmms-eval has not answered ai2d, .* run again to ask for just these"):
        run_evaluate(manifest, both, tmp_path)
    assert not (tmp_path / "scores.csv").exists()
    stand_in.failing.clear()
    run_evaluate(manifest, both, tmp_path)
    assert [names for names, _ in stand_in.started] == [["mme", "ai2d"], ["ai2d"]]
    run_evaluate(manifest, both, tmp_path)
    assert len(stand_in.started) == 2
    run_evaluate(manifest, both | {"max_new_tokens": 9}, tmp_path)
    assert stand_in.started[2:] == [(["mme", "ai2d"], None)]


def test_a_missing_answer_is_an_error(base, manifest, folders, stand_in, tmp_path):
    spec = evaluate_spec(base, sections(folders, "ai2d"), "vllm")
    run_evaluate(manifest, spec, tmp_path)
    (samples,) = tmp_path.rglob("*_samples_ai2d.jsonl")
    samples.write_text("\n".join(samples.read_text().splitlines()[1:]) + "\n")
    with pytest.raises(UserError, match=r"_samples_ai2d.jsonl: AI2D.*: 5 samples for 6 questions"):
        run_evaluate(manifest, spec, tmp_path)


def test_every_copy_of_the_model_gets_its_share(base, manifest, folders, stand_in, tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,5")
    spec = evaluate_spec(base, sections(folders, "mme", "ai2d"), "vllm")
    run_evaluate(manifest, spec, tmp_path, "--serving", '{"gpus": 2}')
    assert stand_in.started == [(["mme"], "4"), (["ai2d"], "5")]
    sizes = {"a": 9, "b": 5, "c": 5, "d": 1, "e": 1}
    assert through_lmms_eval.shares(sizes, 3) == [["a"], ["b", "d"], ["c", "e"]]
    assert through_lmms_eval.shares({}, 2) == [[], []]


def test_files_that_its_task_does_not_read_are_named(base, manifest, folders, stand_in, tmp_path):
    pope = tmp_path / "pope"  # the authors' files, which we read
    (pope / "images").mkdir(parents=True)
    Image.new("RGB", (8, 8)).save(pope / "images/COCO_val2014_1.jpg")
    for setting in SETTINGS:
        row = {"question_id": 1, "image": "COCO_val2014_1.jpg", "text": "Is there a dog?", "label": "no"}
        (pope / f"coco_pope_{setting}.json").write_text(json.dumps(row))
    with pytest.raises(UserError, match=r"pope: no file data/test-\*.parquet, which lmms-eval's task pope reads"):
        run_evaluate(manifest, evaluate_spec(base, sections({"pope": pope}, "pope"), "vllm"), tmp_path)
    assert not stand_in.started


class Model:
    """What `keep_answers` knows of lmms-eval's model; it dies at its third batch."""

    batch_size_per_gpu = 4
    asked: ClassVar[list[list[int]]] = []

    def generate_until(self, requests):
        self.asked.append([request.doc_id for request in requests])
        if len(self.asked) == 3:
            raise KeyboardInterrupt
        return [SimpleNamespace(text=f"answer {request.doc_id}") for request in requests]


def test_a_killed_task_asks_only_for_what_is_not_kept(tmp_path):
    requests = [SimpleNamespace(doc_id=number) for number in range(10)]
    for _ in range(2):
        model = Model()
        run_lmms_eval.keep_answers(model, "ai2d", tmp_path)
        with contextlib.suppress(KeyboardInterrupt):
            found = model.generate_until(requests)
    assert found == [f"answer {number}" for number in range(10)]
    assert Model.asked == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9], [8, 9]]


@pytest.mark.parametrize("name", ["amber", "mmbench_cn", "hallusionbench"])
def test_a_benchmark_that_it_cannot_ask_is_a_fault_of_the_config(root, name):
    raw = read_yaml(root / "config.yaml")
    raw["understanding"]["benchmarks"][name]["harness"] = "lmms-eval"
    with pytest.raises(UserError, match=rf"{name}\.harness: lmms-eval has no task for it without another model, only"):
        check_config(raw)


def test_the_config_says_what_it_asks(root, base, manifest, folders, tmp_path):
    raw = read_yaml(root / "config.yaml")
    for name in TASKS:
        raw["understanding"]["benchmarks"][name]["harness"] = "lmms-eval"
    config = check_config(raw)
    assert evaluate_environment(config) == "serve"
    assert evaluate_job(config, "clip-vicuna", 0, "qwen3-vl-8b").engine.engine == "vllm"
    raw["understanding"]["engine"] = "transformers"
    with pytest.raises(UserError, match=r"pope\.harness: lmms-eval asks through vLLM alone, .* is 'transformers'"):
        check_config(raw)
    with pytest.raises(UserError, match=r"ai2d\.harness: lmms-eval asks through vLLM alone"):
        run_evaluate(manifest, evaluate_spec(base, sections(folders, "ai2d")), tmp_path)


def test_its_copy_of_mmvp_is_ours_with_the_answers_mended(tmp_path):
    folder = make(tmp_path, items=150)["mmvp"]
    TASKS["mmvp"].copy(folder, tmp_path / "mmvp.parquet")
    rows = pd.read_parquet(tmp_path / "mmvp.parquet").set_index("Index")
    questions = {int(question.id): question for question in mmvp.read(folder)}
    assert list(rows.index) == list(questions) and len(rows) == 300
    letters = rows["Correct Answer"].str.strip("()").str.upper()
    mended = {number for number, question in questions.items() if letters[number] != question.answers[0]}
    assert mended == {99, 100, 279, 280}
    assert rows.image[7]["bytes"] == questions[7].images[0].data()
