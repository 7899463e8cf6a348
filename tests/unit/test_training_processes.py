"""Training shared out: DeepSpeed and several processes learn what one plain process learns, and resume exactly."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from vlm_helpers import SETTLED, align_spec, indexed, make_base, make_conversations

from workflow_scripts.errors import UserError
from workflow_scripts.files import read_json, read_run_record
from workflow_scripts.model_folders import manifest_folder
from workflow_scripts.records import read_table
from workflow_scripts.vlm import align

pytestmark = pytest.mark.slow

SHARED = {
    "ZeRO-3": {"zero_stage": 3},
    "ZeRO-2": {"zero_stage": 2},
    "ZeRO-3, two processes": {"zero_stage": 3, "devices": 2, "per_device_batch": 2},
    "ZeRO-3, two processes, two halves each": {"zero_stage": 3, "devices": 2, "per_device_batch": 1},
    "two processes": {"devices": 2, "per_device_batch": 2},
}


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return make_base(tmp_path_factory.mktemp("base") / "clip-llama")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """32 conversations; in the second step one of two processes, then both, see text alone."""
    folder = make_conversations(tmp_path_factory.mktemp("data") / "align", 32)
    rows = read_json(folder / "data.json")
    for row in rows[::3]:
        del row["image"]
        row["conversations"][0]["value"] = "how many ?"
        row["conversations"][1]["value"] = "2"
    (folder / "data.json").write_text(json.dumps(rows))
    return folder


def spec_of(base, data, **changes):
    """Some samples are longer than 16 tokens."""
    return align_spec(base, data, max_length=16, **changes)


def run_align(spec, out, code=None, loader_workers=0):
    """Run the command in processes of its own; `code` runs in each before it."""
    lines = [
        code or "",
        "from workflow_scripts.command import run",
        "from workflow_scripts.vlm import align",
    ]
    script = "\n".join([*lines, "run(align.main)"])
    out.mkdir(parents=True, exist_ok=True)
    (out / "run.py").write_text(script)
    devices = spec["stage"]["devices"]
    launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={devices}"] if devices > 1 else []
    arguments = ["--spec", json.dumps(spec), "--out", out / "model.json", "--log-table", out / "training.csv"]
    arguments += ["--loader-workers", str(loader_workers)]
    arguments += indexed(spec)
    environment = {**os.environ, "PYTHONPATH": str(Path.cwd())}
    done = subprocess.run(
        [sys.executable, *launcher, out / "run.py", *arguments], env=environment, capture_output=True, text=True,
        timeout=300,
    )  # fmt: skip
    if code is None:
        assert done.returncode == 0, done.stderr[-3000:]
    return done


def result(out):
    """(weights, loss curve, number of cut samples)"""
    weights = load_file(manifest_folder(out / "model.json") / "model.safetensors")
    curve = read_table(out / "training.csv", "training")
    return weights, curve, read_run_record(out / "model.json")["num_cut_samples"]


@pytest.fixture(scope="module")
def plain(base, data, tmp_path_factory):
    out = tmp_path_factory.mktemp("plain")
    run_align(spec_of(base, data), out)
    return result(out)


@pytest.mark.parametrize("how", SHARED)
def test_sharing_changes_nothing(tmp_path, base, data, plain, how):
    run_align(spec_of(base, data, **SHARED[how]), tmp_path, loader_workers=2 * ("halves" in how))
    weights, curve, num_cut = result(tmp_path)
    assert num_cut == plain[2]
    assert curve.share_truncated.tolist() == plain[1].share_truncated.tolist()
    assert curve.loss.tolist() == pytest.approx(plain[1].loss.tolist(), rel=1e-5)
    assert curve.grad_norm.tolist() == pytest.approx(plain[1].grad_norm.tolist(), rel=1e-4)
    assert weights.keys() == plain[0].keys()
    for name, tensor in plain[0].items():
        torch.testing.assert_close(weights[name], tensor, rtol=1e-3, atol=2e-5, msg=name)


def test_bf16_with_recomputed_activations_learns_alike(tmp_path, base, data, plain):
    run_align(spec_of(base, data, zero_stage=3, precision="bf16", gradient_checkpointing=True), tmp_path)
    assert result(tmp_path)[1].loss.tolist() == pytest.approx(plain[1].loss.tolist(), rel=5e-3)


# Checkpoints at every step; the process of rank 0 dies at its sixth batch.
KILLED = """
import math, os, signal
from workflow_scripts import training
from workflow_scripts.vlm import batches
training.CHECKPOINT_SECONDS, training.SAVING_SHARE = 0.0, math.inf
make, calls = batches.Batches.__call__, []
def make_or_die(self, samples):
    calls.append(1)
    if len(calls) == 6 and os.environ.get("RANK", "0") == "0":
        os.kill(os.getpid(), signal.SIGKILL)
    return make(self, samples)
batches.Batches.__call__ = make_or_die
"""


@pytest.mark.parametrize("devices", [1, 2])
def test_killed_and_resumed_equals_uninterrupted(tmp_path, base, data, devices):
    spec = spec_of(base, data, zero_stage=3, devices=devices, per_device_batch=4 // devices)
    run_align(spec, tmp_path / "whole")
    died = run_align(spec, tmp_path / "killed", KILLED)
    assert died.returncode == (-signal.SIGKILL if devices == 1 else 1)
    assert not (tmp_path / "killed" / "model.json").exists()
    assert "resuming from step" in run_align(spec, tmp_path / "killed").stderr
    whole, resumed = result(tmp_path / "whole"), result(tmp_path / "killed")
    assert all(torch.equal(whole[0][name], resumed[0][name]) for name in whole[0])
    assert resumed[1][SETTLED].equals(whole[1][SETTLED])
    assert resumed[2] == whole[2] == round(4 * whole[1].share_truncated.sum()) > 0


def test_the_wrong_number_of_processes_stops(tmp_path, base, data):
    spec = spec_of(base, data, devices=2, per_device_batch=2)
    with pytest.raises(UserError, match=r"devices is 2, this command was started as 1 process\(es\): start it with"):
        align.main(
            [
                "--spec",
                json.dumps(spec),
                "--out",
                str(tmp_path / "m.json"),
                "--log-table",
                str(tmp_path / "t.csv"),
                *indexed(spec),
            ]
        )
