"""All of CAPEval's photographs through the command and vLLM; killed in the middle and run again, the same table."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from asking import PROMPT, copies_of
from conftest import LARGEST

from workflow_scripts.files import read_jsonl, read_run_record, write_jsonl
from workflow_scripts.records import read_table


@pytest.fixture(scope="module")
def data(shared_path, tmp_path_factory):
    """CAPEval without the three images that are not in the folder."""
    source, folder = shared_path / "data/capeval", tmp_path_factory.mktemp("capeval")
    (folder / "image").symlink_to(source / "image")
    (folder / "images.csv").symlink_to(source / "images.csv")
    rows = read_jsonl(source / "checklist.jsonl")
    write_jsonl(folder / "checklist.jsonl", [row for row in rows if (source / "image" / row["img_path"]).is_file()])
    return folder


@pytest.fixture(scope="module")
def command(tiny_model, data):
    """The captioning command with its output file still to come."""
    job = {
        "engine": {"engine": "vllm", "model": {"path": str(tiny_model("qwen3-vl"))}, "max_model_len": 512},
        "prompt": PROMPT,
        "sampling": {"temperature": 0.7, "top_p": 0.8, "seed": 3},
        "max_new_tokens": 32,
        "attempts": 2,
        "retry_temperature": 0.7,
        "shard_size": None,
    }
    serving = {"threads": 2, "serving": {"max_num_seqs": 16}}
    start = [sys.executable, "-m", "workflow_scripts.capeval.caption", "--data", str(data)]
    return [*start, "--spec", json.dumps(job), "--serving", json.dumps(serving), "--out"]


def test_a_killed_run_goes_on_to_the_same_table(command, root, tmp_path):
    whole, resumed = tmp_path / "whole/captions.parquet", tmp_path / "killed/captions.parquet"
    subprocess.run([*command, str(whole)], cwd=root, check=True)
    killed = subprocess.Popen([*command, str(resumed)], cwd=root)
    while not list(resumed.parent.glob(".partial/*/[0-9]*.parquet")):
        assert killed.poll() is None, "it was done before it could be killed"
        time.sleep(0.02)
    (copy,) = copies_of(killed.pid)
    killed.kill()
    assert killed.wait() == -signal.SIGKILL
    deadline = time.monotonic() + 30
    while os.path.exists(f"/proc/{copy}"):  # noqa: PTH110
        assert time.monotonic() < deadline, "the killed job's vLLM holds on to its memory"
        time.sleep(0.1)
    assert not resumed.exists()
    subprocess.run([*command, str(resumed)], cwd=root, check=True)

    table = read_table(whole, "captions")
    assert len(table) == 297
    assert LARGEST in set(table["image_id"])
    faults = set(table["error"].dropna())
    assert faults <= {"cut", "repetition", "one_symbol", "empty"}, (
        "random models write like that; nothing else may fail"
    )
    assert read_table(resumed, "captions").equals(table)
    assert read_run_record(whole)["vllm"]["copies"] == 1
