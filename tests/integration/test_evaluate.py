"""From a trained LLaVA folder to scores of all sixteen benchmarks, through real vLLM and lmms-eval, over a kill -9."""

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
from workflow_scripts.benchmarks.understanding.base import read_questions
from workflow_scripts.benchmarks.understanding.lmms_eval_tasks import TASKS
from workflow_scripts.benchmarks.understanding.make_tiny import make
from workflow_scripts.files import read_jsonl, read_run_record
from workflow_scripts.records import read_table
from workflow_scripts.vlm import align, evaluate, index

ROOT = Path(__file__).resolve().parents[2]
STAGE = {
    "train": ["projector", "language"], "learning_rate": 1e-4, "global_batch": 4, "per_device_batch": 4, "steps": 2,
    "max_length": 256, "precision": "fp32", "zero_stage": 0, "gradient_checkpointing": False, "devices": 1,
}  # fmt: skip
ASKED_ALIKE = {"scienceqa", "ocrbench", "realworldqa", "mmvp", "ai2d", "seedbench_image"}
ASKED_OTHERWISE = {  # what lmms-eval says where our prompt, by the authors or the paper's harness, says another thing
    "pope": "a single word or phrase",
    "mme": "a single word or phrase",  # and it cuts off the question's own last sentence
    "mmbench_en": "There are several options:",
    "mmstar": "choices directly",  # without the full stop
    "cvbench_2d": "Note: You only need to respond with",
    "cvbench_3d": "Note: You only need to respond with",
    "mmmu": "\n\nAnswer",  # an empty line more, and none where an image begins the text
}
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
    listed = str(folder / "index" / "index.parquet")
    index.main(["--spec", json.dumps({"data": {"path": str(folder)}}), "--out", listed])
    out = ["--out", str(folder / "model.json"), "--log-table", str(folder / "training.csv")]
    align.main(["--spec", json.dumps(spec), "--conversations", listed, *out])
    return model, folder / "model.json"


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """All sixteen; the pictures of AMBER and MMVP are not square, every other one is half transparent."""
    made = make(tmp_path_factory.mktemp("tiny"), items=8)
    for folder in (made["amber"] / "image", made["mmvp"] / "MMVP Images"):
        for number, path in enumerate(sorted(folder.iterdir())):
            picture = Image.effect_noise((90, 40 + number), 90).convert("RGB")
            if number % 2:
                picture.putalpha(100)
            picture.save(path, "PNG")
    return made


@pytest.fixture(scope="module")
def asked(tmp_path_factory):
    """Where the answers of our own asking are kept."""
    return tmp_path_factory.mktemp("asked")


def arguments(trained, folders, engine, out, **more):
    model, manifest = trained
    spec = {
        "model": model,
        "benchmarks": {name: {"path": str(folder), **more} for name, folder in folders.items()},
        "engine": {"engine": engine, "max_model_len": 2048},
        "max_new_tokens": 12,
    }
    serving = {"threads": 2, "serving": {"max_num_seqs": 16}}
    files = ["--model", str(manifest), "--answers", str(out / "answers.parquet"), "--out", str(out / "scores.csv")]
    return ["--spec", json.dumps(spec), "--serving", json.dumps(serving), *files]


def kept(out, pattern):
    """Files that fit a pattern, and when each was written."""
    return {path: path.stat().st_mtime_ns for path in out.glob(pattern)}


def kill_at_first(pattern, arguments, out):
    """Run the evaluation and kill it once a file fits the pattern; these files, and the processes it had started."""
    command = [sys.executable, "-m", "workflow_scripts.vlm.evaluate", *arguments]
    killed = subprocess.Popen(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)})
    deadline = time.monotonic() + 300
    while not kept(out, pattern) and killed.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    started = Path(f"/proc/{killed.pid}/task/{killed.pid}/children").read_text().split()
    killed.send_signal(signal.SIGKILL)
    assert killed.wait() == -signal.SIGKILL, "it ended before it could be killed"
    while any(running(process) for process in started) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert started and not any(running(process) for process in started), "what it had started works on"
    assert not (out / "scores.csv").exists()
    return kept(out, pattern)


def running(process):
    """Whether a process is there and is no zombie."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_from_checkpoint_to_scores(trained, folders, asked, tmp_path):
    """vLLM answers like Transformers, whatever the benchmark, and a killed run asks for no finished answer again."""
    pattern = "raw_answers/*/*/[0-9]*.parquet"
    before = kill_at_first(pattern, arguments(trained, folders, "vllm", asked), asked)
    assert 0 < len(before) < len(BENCHMARKS)

    evaluate.main(arguments(trained, folders, "vllm", asked))
    after = kept(asked, pattern)
    assert {path: after[path] for path in before} == before
    answers = read_table(asked / "answers.parquet", "answers")
    scores = read_table(asked / "scores.csv", "benchmark_scores")
    assert {*scores["benchmark"]} == {*answers["benchmark"]} == set(BENCHMARKS)
    assert set(BENCHMARKS) == set(scores[scores["variant"] == "overall"]["benchmark"])
    record = read_run_record(asked / "scores.csv")
    assert sum(sum(ends.values()) for ends in record["finish_reasons"].values()) == len(answers)
    first = next(iter(BENCHMARKS))
    assert record["vllm"]["num_prompt_tokens"] > 0 and first in {path.parts[-3] for path in before}

    reference = tmp_path / "transformers"
    evaluate.main(arguments(trained, folders, "transformers", reference))
    keys = ["benchmark", "question_id"]
    expected = read_table(reference / "answers.parquet", "answers").set_index(keys)["raw_answer"]
    assert answers.set_index(keys)["raw_answer"].to_dict() == expected.to_dict()
    assert expected.nunique() > 10, "the model does not look at what it is asked"


def test_lmms_eval_gets_the_same_answers(trained, folders, asked, tmp_path):
    """Where it asks alike, lmms-eval gets the answers that we get; and it runs no finished task again."""
    evaluate.main(arguments(trained, folders, "vllm", asked))  # asks nothing where the test above has run
    keys = ["benchmark", "question_id"]
    ours = read_table(asked / "answers.parquet", "answers").set_index(keys)["raw_answer"]

    mine = arguments(trained, {name: folders[name] for name in TASKS}, "vllm", tmp_path, harness="lmms-eval")
    pattern = "lmms_eval/*/*/*/*_samples_*.jsonl"
    before = kill_at_first(pattern.replace("/*/*/*", "/*/[!.]*/*"), mine, tmp_path)
    assert 0 < len(before) < len(TASKS)
    evaluate.main(mine)
    after = kept(tmp_path, pattern)
    assert len(after) == len(TASKS) and {path: after[path] for path in before} == before

    theirs = read_table(tmp_path / "answers.parquet", "answers").set_index(keys)["raw_answer"].str.strip()
    for name in ASKED_ALIKE:
        assert theirs[name].to_dict() == ours[name].to_dict(), name
    assert theirs[list(ASKED_ALIKE)].nunique() > 10
    assert set(ASKED_OTHERWISE) == set(TASKS) - ASKED_ALIKE
    for path in after:
        name = path.parts[-4]
        questions = read_questions(BENCHMARKS[name], folders[name])[-len(theirs[name]) :]  # MMMU's validation is last
        texts = {sample["doc_id"]: sample["input"] for sample in read_jsonl(path)}
        prompts = [BENCHMARKS[name].prompt(question).removeprefix("<image>\n") for question in questions]
        if name in ASKED_ALIKE:
            assert [texts[number] for number in range(len(prompts))] == prompts
        else:
            for number, prompt in enumerate(prompts):
                assert ASKED_OTHERWISE[name] in texts[number] and texts[number] != prompt
    scores = read_table(tmp_path / "scores.csv", "benchmark_scores").set_index(["benchmark", "variant"])
    for name in TASKS:
        assert "lmms-eval: overall" in scores.loc[name].index
