"""Training: what learns, with which optimiser, and that a killed run ends where an uninterrupted one does."""

import copy
import json
import logging
import math
import os
import shutil
import signal
import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file
from vlm_helpers import SETTLED, align_spec, conversations, indexed, make_base, make_conversations, model_spec

from workflow_scripts import training
from workflow_scripts.errors import UserError
from workflow_scripts.files import read_json, read_run_record
from workflow_scripts.model_folders import manifest_folder
from workflow_scripts.records import read_table
from workflow_scripts.spec import Optimisation, VlmModel, VlmStage
from workflow_scripts.vlm import align
from workflow_scripts.vlm import stage as vlm_stage
from workflow_scripts.vlm.batches import Batches
from workflow_scripts.vlm.data import in_order
from workflow_scripts.vlm.flops import training_flops
from workflow_scripts.vlm.model import freeze, load, module_of
from workflow_scripts.vlm.trainer import LlavaTrainer


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return make_conversations(tmp_path_factory.mktemp("data") / "align", 32)


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return make_base(tmp_path_factory.mktemp("base") / "clip-llama")


def stage_of(base, data, **changes) -> VlmStage:
    return VlmStage.model_validate(align_spec(base, data, **changes)["stage"])


def loaded(base, architecture="clip-llama", **changes):
    settings = VlmModel.model_validate({**model_spec(base, architecture), **changes})
    return load(base, settings)


def train(model, samples, batches, stage, folder, loader_workers=0) -> training.Trained:
    flops = training_flops(model, batches.num_image_tokens)
    return training.train(model, samples, batches, stage, 0, folder, flops, loader_workers, LlavaTrainer)


@pytest.mark.parametrize(
    "how", [{}, {"precision": "bf16", "gradient_checkpointing": True}], ids=["plain", "bf16, recomputed"]
)
@pytest.mark.parametrize(
    ("architecture", "modules", "from_layer", "feature_layer"),
    [
        ("clip-llama", ["projector"], 0, -1),
        ("siglip-qwen3", ["projector", "language"], 0, -1),
        ("clip-llama", ["vision", "projector", "language"], 0, -1),
        ("siglip-qwen3", ["vision", "projector", "language"], 1, -1),
        ("clip-llama", ["vision"], 0, -2),
        ("siglip-qwen3", ["vision"], 0, -1),
    ],
)
def test_what_learns_moves_and_nothing_else(tmp_path, data, architecture, modules, from_layer, feature_layer, how):
    base = make_base(tmp_path / "base", architecture)
    model, processor = loaded(base, architecture, vision_feature_layer=feature_layer)
    stage = stage_of(base, data, train=modules, vision_from_layer=from_layer, steps=3, **how)
    num_learning = freeze(model, stage)
    learning = {name for name, p in model.named_parameters() if p.requires_grad}
    assert {module_of(name) for name in learning} == set(modules)
    before = {name: p.clone() for name, p in model.named_parameters()}
    samples = list(conversations(data))[:12]
    train(model, samples, Batches(processor, 64), stage, tmp_path)
    moved = {name for name, p in model.named_parameters() if not torch.equal(p, before[name])}
    assert moved == learning
    assert all(p.dtype == torch.float32 for p in model.parameters())
    assert num_learning == sum(before[name].numel() for name in learning)
    if "vision" in modules:
        layers = {int(name.split("layers.")[1][0]) for name in learning if "vision" in name and "layers." in name}
        assert layers == set(range(from_layer, 2 if feature_layer == -1 else 1))
        assert any("embeddings" in name and "vision" in name for name in learning) == (from_layer == 0)


def test_nothing_to_learn_stops(base, data):
    model, _ = loaded(base)
    with pytest.raises(UserError, match="no parameter learns"):
        freeze(model, stage_of(base, data, train=["vision"], vision_from_layer=5))


@pytest.mark.parametrize("schedule", ["cosine", "linear", "constant_with_warmup"])
def test_steps_are_those_of_a_plain_loop(tmp_path, base, data, schedule):
    """AdamW without decay of vectors, linear warm-up and decay in closed form, clipping, loss a token."""
    stage = stage_of(base, data, schedule=schedule, max_grad_norm=0.5)
    model, processor = loaded(base)
    freeze(model, stage)
    plain, batches, samples = copy.deepcopy(model), Batches(processor, 64), list(conversations(data))
    curve = train(model, samples, batches, stage, tmp_path).curve

    learning = [p for p in plain.parameters() if p.requires_grad]
    groups = [
        {"params": [p for p in learning if p.ndim > 1], "weight_decay": 0.1},
        {"params": [p for p in learning if p.ndim == 1], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, betas=(0.9, 0.98), eps=1e-8)
    plain.train()
    for step in range(8):
        decay = {
            "cosine": 0.5 * (1 + math.cos(math.pi * (step - 2) / 6)),
            "linear": (8 - step) / 6,
            "constant_with_warmup": 1.0,
        }[schedule]
        rate = 1e-3 * (step / 2 if step < 2 else decay)
        batch = batches(samples[4 * step : 4 * step + 4])
        del batch["counts"]
        labels = batch.pop("labels")[:, 1:]
        logits = plain(**batch).logits[:, :-1]
        loss = torch.nn.functional.cross_entropy(logits[labels != -100], labels[labels != -100])
        optimizer.zero_grad()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(learning, 0.5)
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.step()
        assert curve[step]["step"] == step + 1
        assert curve[step]["loss"] == pytest.approx(loss.item(), rel=1e-4)
        assert curve[step]["grad_norm"] == pytest.approx(norm.item(), rel=1e-3)
        assert curve[step]["learning_rate"] == pytest.approx(rate, abs=1e-12)
    for (name, a), b in zip(model.named_parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=2e-5, msg=name)


@pytest.mark.parametrize(
    ("how", "tolerance"),
    [({}, 1e-5), ({"gradient_checkpointing": True}, 1e-5), ({"precision": "bf16"}, 5e-3)],
    ids=["plain", "recomputed", "bf16"],
)
def test_accumulation_changes_nothing(tmp_path, base, data, how, tolerance):
    """One batch of 8 and two of 4 give the same losses and weights, though captions differ in length."""
    ends = []
    for per_device in (8, 4):
        stage = stage_of(base, data, global_batch=8, per_device_batch=per_device, steps=4, **how)
        model, processor = loaded(base)
        freeze(model, stage)
        batches, folder = Batches(processor, 64), tmp_path / str(per_device)
        curve = train(model, list(conversations(data)), batches, stage, folder).curve
        ends.append(([row["loss"] for row in curve], model.state_dict()))
    assert ends[0][0] == pytest.approx(ends[1][0], rel=tolerance)
    if "precision" not in how:
        for name, tensor in ends[0][1].items():
            torch.testing.assert_close(tensor, ends[1][1][name], rtol=1e-3, atol=2e-5, msg=name)


def test_recomputed_activations_and_bf16_learn_alike(tmp_path, base, data):
    ends = {}
    for name, how in {"plain": {}, "recomputed": {"gradient_checkpointing": True},
                      "bf16": {"precision": "bf16"}}.items():  # fmt: skip
        model, processor = loaded(base)
        stage = stage_of(base, data, **how)
        freeze(model, stage)
        batches = Batches(processor, 64)
        curve = train(model, list(conversations(data)), batches, stage, tmp_path / name).curve
        ends[name] = [row["loss"] for row in curve], model.state_dict()
    assert ends["recomputed"][0] == ends["plain"][0]
    assert all(torch.equal(tensor, ends["plain"][1][name]) for name, tensor in ends["recomputed"][1].items())
    assert ends["bf16"][0] != ends["plain"][0]
    assert ends["bf16"][0] == pytest.approx(ends["plain"][0], rel=5e-3)


def test_number_of_steps_and_warm_up():
    def settings(**changes):
        return Optimisation(learning_rate=1, global_batch=256, per_device_batch=8, devices=8, **changes)

    assert training.num_steps(settings(), 558_128) == 2181
    assert training.num_steps(settings(epochs=2), 558_128) == 4361
    assert training.num_steps(settings(steps=7), 558_128) == 7
    assert training.warmup_steps(settings(warmup_ratio=0.03), 2181) == 66
    assert training.warmup_steps(settings(warmup_ratio=0.03, warmup_steps=5), 2181) == 5
    assert training.warmup_steps(settings(), 2181) == 0


def run_align(spec, out) -> None:
    words = ["--spec", json.dumps(spec), "--out", str(out / "model.json"), "--log-table", str(out / "training.csv")]
    align.main([*words, *indexed(spec)])


KILLED = """
import math, os, signal, sys
from workflow_scripts import training
from workflow_scripts.vlm import align, batches
training.CHECKPOINT_SECONDS, training.SAVING_SHARE = 0.0, math.inf
make, calls = batches.Batches.__call__, []
def make_or_die(self, samples):
    calls.append(1)
    if len(calls) == 6:
        os.kill(os.getpid(), signal.SIGKILL)
    return make(self, samples)
batches.Batches.__call__ = make_or_die
align.main(sys.argv[1:])
"""


@pytest.mark.slow
def test_killed_and_resumed_equals_uninterrupted(tmp_path, base, data, caplog, root):
    spec = align_spec(base, data)
    run_align(spec, tmp_path / "whole")
    out = tmp_path / "killed"
    arguments = ["--spec", json.dumps(spec), "--out", out / "model.json", "--log-table", out / "training.csv"]
    arguments += indexed(spec)
    died = subprocess.run(
        [sys.executable, "-c", KILLED, *arguments], cwd=root, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    assert died.returncode == -signal.SIGKILL
    assert not (out / "model.json").exists()
    (work,) = (path for path in out.iterdir() if path.is_dir())
    assert work.name == read_json(tmp_path / "whole" / "model.json")["fingerprint"]
    (work / "checkpoint-7").mkdir()  # as if the kill had come while it was written

    with caplog.at_level(logging.INFO):
        run_align(spec, out)
    assert "resuming from step 4 of 8" in caplog.text
    whole, resumed = (
        load_file(manifest_folder(f / "model.json") / "model.safetensors") for f in (tmp_path / "whole", out)
    )
    assert whole.keys() == resumed.keys()
    assert all(torch.equal(whole[name], resumed[name]) for name in whole)
    curves = [read_table(f / "training.csv", "training") for f in (tmp_path / "whole", out)]
    assert curves[0][SETTLED].equals(curves[1][SETTLED])
    assert not list(work.glob("checkpoint-*"))


def test_align_writes_a_folder_that_loads_and_its_manifest(tmp_path, base, data):
    out = tmp_path / "align"
    run_align(align_spec(base, data), out)
    manifest = read_json(out / "model.json")
    folder = manifest_folder(out / "model.json")
    assert folder == out / manifest["fingerprint"] / "model"
    model, processor = loaded(folder)
    assert model.config.vision_feature_layer == -1
    assert processor.tokenizer.chat_template
    curve = read_table(out / "training.csv", "training")
    assert curve["step"].tolist() == list(range(1, 9))
    assert curve["epoch"].iloc[-1] == 1.0  # 8 steps of 4 over 32 samples
    assert curve["loss"].iloc[-1] < curve["loss"].iloc[0]
    record = read_run_record(out / "model.json")
    assert (record["num_samples"], record["num_conversations"], record["num_cut_samples"]) == (32, 32, 0)

    run_align(align_spec(base, data, learning_rate=2e-3), out)
    assert read_json(out / "model.json")["fingerprint"] != manifest["fingerprint"]

    (folder / "config.json").write_text("{}")
    (out / "old.json").write_text(json.dumps(manifest))
    with pytest.raises(UserError, match=r"config\.json has changed since it was listed"):
        manifest_folder(out / "old.json")
    (folder / "config.json").unlink()
    with pytest.raises(UserError, match=r"config\.json is missing"):
        manifest_folder(out / "old.json")


def test_missing_weights_stop(tmp_path, base):
    from safetensors.torch import save_file

    folder = make_base(tmp_path / "base")
    weights = load_file(folder / "model.safetensors")
    gone = next(name for name in weights if "multi_modal_projector" in name)
    rest = {name: tensor for name, tensor in weights.items() if name != gone}
    save_file(rest, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(UserError, match=r"1 missing keys in the weights, first .*multi_modal_projector"):
        loaded(folder)
    save_file({**weights, "odd": torch.zeros(1)}, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(UserError, match="1 unexpected keys in the weights, first odd"):
        loaded(folder)
    with pytest.raises(UserError, match=r"sees 32 px, model\.image_size is 336"):
        loaded(base, image_size=336)


def test_a_lost_loss_stops(tmp_path, base, data):
    stage = stage_of(base, data, learning_rate=1e30, warmup_steps=0)
    model, processor = loaded(base)
    freeze(model, stage)
    with pytest.raises(UserError, match=r"the loss is (nan|inf) at step"):
        train(model, list(conversations(data)), Batches(processor, 64), stage, tmp_path)


def test_samples_whose_answers_are_cut_off_teach_nothing_and_are_counted(tmp_path, base, caplog):
    """A whole step of them has the loss 0 and no gradient; the steps before it are as they were."""
    data = make_conversations(tmp_path / "data", 16)
    run_align(align_spec(base, data, steps=4), tmp_path / "before")
    rows = read_json(data / "data.json")
    order = [int(sample.key.split(":")[1]) for sample in in_order(conversations(data), 0, 16)]
    for number in (*order[8:12], order[13]):  # the third step of four, and one of the last
        rows[number]["conversations"][0]["value"] += " describe" * 300
    data = data.rename(tmp_path / "long")
    (data / "data.json").write_text(json.dumps(rows))
    with caplog.at_level(logging.WARNING):
        run_align(align_spec(base, data, steps=4), tmp_path / "out")
    curve = read_table(tmp_path / "out" / "training.csv", "training")
    assert (curve.loss == 0).tolist() == (curve.grad_norm == 0).tolist() == [False, False, True, False]
    before = read_table(tmp_path / "before" / "training.csv", "training")
    assert curve.loss[:2].tolist() == before.loss[:2].tolist()
    assert curve.share_truncated.tolist() == [0, 0, 1, 0.25]
    record = read_run_record(tmp_path / "out" / "model.json")
    assert (record["num_cut_samples"], record["num_unlearnt_samples"]) == (5, 5)
    assert "5 of 16 samples were longer than max_length 64 and cut; 5 of them lost all answers" in caplog.text
    weights = load_file(manifest_folder(tmp_path / "out" / "model.json") / "model.safetensors")
    assert all(tensor.isfinite().all() for tensor in weights.values())


def test_too_small_a_disk_ends_it_before_the_model_is_loaded(tmp_path, base, data, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=1000))
    monkeypatch.setattr(vlm_stage, "load", lambda *_: pytest.fail("loaded"))
    with pytest.raises(UserError, match=r"0.001 MB are free, this needs .*\(checkpoints .*, the trained model "):
        run_align(align_spec(base, data), tmp_path)


def test_a_missing_folder_stops(tmp_path, base, data):
    with pytest.raises(UserError, match=r"align\.data: no such folder"):
        align.main(
            [
                "--spec",
                json.dumps(align_spec(base, tmp_path / "nowhere")),
                "--conversations",
                "index.parquet",
                "--out",
                str(tmp_path / "m.json"),
                "--log-table",
                str(tmp_path / "t.csv"),
            ]
        )
