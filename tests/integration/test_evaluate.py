"""From a trained LLaVA folder to scores of all sixteen benchmarks, through real vLLM, over a kill -9."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from PIL import Image
from safetensors.torch import load_file, save_file
from transformers import AutoTokenizer

from workflow_scripts.benchmarks.understanding import BENCHMARKS
from workflow_scripts.benchmarks.understanding.make_tiny import make
from workflow_scripts.files import read_run_record
from workflow_scripts.records import read_table
from workflow_scripts.vlm import align, evaluate

ROOT = Path(__file__).resolve().parents[2]
STAGE = {
    "train": ["projector", "language"], "learning_rate": 1e-4, "global_batch": 4, "per_device_batch": 4, "steps": 2,
    "max_length": 256, "precision": "fp32", "zero_stage": 0, "gradient_checkpointing": False, "devices": 1,
}  # fmt: skip
COLOURS = ("red", "green", "blue", "brown")


def ascii_only(model, folder):
    """The model, never writing a part of a character: vLLM keeps back what does not decode."""
    shutil.copytree(model, folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    silent = [token for token in range(len(tokenizer)) if "\ufffd" in tokenizer.decode([token])]
    weights = load_file(folder / "model.safetensors")
    (head,) = (name for name in weights if name.endswith("lm_head.weight"))
    weights[head][silent] = 0
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


@pytest.fixture(scope="module")
def trained(tiny_model, tmp_path_factory):
    """(model settings, manifest) of a LLaVA with CLIP and Llama that `vlm.align` has trained and saved."""
    folder = tmp_path_factory.mktemp("trained")
    (folder / "images").mkdir()
    rows = []
    for number in range(8):
        colour = COLOURS[number % 4]
        Image.new("RGB", (40 + number, 30), colour).save(folder / "images" / f"{number}.png")
        turns = [{"from": "human", "value": "<image>\ndescribe"}, {"from": "gpt", "value": f"a {colour} field"}]
        rows.append({"id": str(number), "image": f"{number}.png", "conversations": turns})
    (folder / "data.json").write_text(json.dumps(rows))
    base = ascii_only(tiny_model("llava"), folder / "base")
    shown = {"vision_feature_layer": -2, "image_size": 32, "pad_to_square": True}
    model = {"base": {"path": str(base)}, "chat_template": "blocks", **shown}
    spec = {"model": model, "stage": {"data": {"path": str(folder)}, **STAGE}, "seed": 0}
    out = ["--out", str(folder / "model.json"), "--log-table", str(folder / "training.csv")]
    align.main(["--spec", json.dumps(spec), *out])
    return model, folder / "model.json"


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """All sixteen; AMBER's pictures are not square."""
    made = make(tmp_path_factory.mktemp("tiny"), items=8)
    for number, path in enumerate(sorted((made["amber"] / "image").iterdir())):
        Image.effect_noise((90, 40 + number), 90).convert("RGB").save(path, "PNG")
    return made


def arguments(trained, folders, engine, out):
    model, manifest = trained
    spec = {
        "model": model,
        "benchmarks": {name: {"path": str(folder)} for name, folder in folders.items()},
        "engine": {"engine": engine, "max_model_len": 2048},
        "max_new_tokens": 12,
    }
    serving = {"threads": 2, "serving": {"max_num_seqs": 16}}
    files = ["--model", str(manifest), "--answers", str(out / "answers.parquet"), "--out", str(out / "scores.csv")]
    return ["--spec", json.dumps(spec), "--serving", json.dumps(serving), *files]


def kept(out):
    """Files of raw answers, and when each was written."""
    return {path: path.stat().st_mtime_ns for path in out.glob("raw_answers/*/*/[0-9]*.parquet")}


def test_from_checkpoint_to_scores(trained, folders, tmp_path):
    """vLLM answers like Transformers, whatever the benchmark, and a killed run asks for no finished answer again."""
    command = [sys.executable, "-m", "workflow_scripts.vlm.evaluate", *arguments(trained, folders, "vllm", tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    killed = subprocess.Popen(command, cwd=ROOT, env=environment)
    deadline = time.monotonic() + 300
    while not kept(tmp_path) and killed.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    killed.send_signal(signal.SIGKILL)
    assert killed.wait() == -signal.SIGKILL, "it ended before it could be killed"
    before = kept(tmp_path)
    assert 0 < len(before) < len(BENCHMARKS) and not (tmp_path / "scores.csv").exists()

    evaluate.main(arguments(trained, folders, "vllm", tmp_path))
    after = kept(tmp_path)
    assert {path: after[path] for path in before} == before
    answers = read_table(tmp_path / "answers.parquet", "answers")
    scores = read_table(tmp_path / "scores.csv", "benchmark_scores")
    assert {*scores["benchmark"]} == {*answers["benchmark"]} == set(BENCHMARKS)
    assert set(BENCHMARKS) == set(scores[scores["variant"] == "overall"]["benchmark"])
    record = read_run_record(tmp_path / "scores.csv")
    assert sum(sum(ends.values()) for ends in record["finish_reasons"].values()) == len(answers)
    first = next(iter(BENCHMARKS))
    assert record["vllm"]["num_prompt_tokens"] > 0 and first in {path.parts[-3] for path in before}

    reference = tmp_path / "transformers"
    evaluate.main(arguments(trained, folders, "transformers", reference))
    keys = ["benchmark", "question_id"]
    expected = read_table(reference / "answers.parquet", "answers").set_index(keys)["raw_answer"]
    assert answers.set_index(keys)["raw_answer"].to_dict() == expected.to_dict()
    assert expected.nunique() > 10, "the model does not look at what it is asked"
