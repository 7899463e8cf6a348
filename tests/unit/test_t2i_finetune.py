"""Fine-tuning: what learns, what is counted, and that a killed run ends as an uninterrupted one."""

import json
import math
import os
import shutil
import signal
import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch
from diffusers import QwenImageTransformer2DModel, SD3Transformer2DModel
from safetensors.torch import load_file
from selections import save_selection
from t2i_world import MAX_TEXT_TOKENS, save_base, save_captions, save_pool, training

from workflow_scripts import capacity
from workflow_scripts import training as trainer
from workflow_scripts.captions.selection import read_selection
from workflow_scripts.errors import UserError
from workflow_scripts.files import fingerprint, read_json, read_run_record, write_json
from workflow_scripts.model_folders import manifest_folder
from workflow_scripts.records import read_table, write_table
from workflow_scripts.spec import T2iTraining
from workflow_scripts.t2i import finetune, latents

SETTLED = ["step", "epoch", "loss", "learning_rate", "grad_norm", "share_truncated"]
WEIGHTS = "diffusion_pytorch_model.safetensors"


@pytest.fixture(scope="module", params=["sd3", "qwen-image"])
def world(request, tmp_path_factory):
    """(family, base folder, latents.json, image ids)"""
    folder = tmp_path_factory.mktemp(request.param)
    base, pool = save_base(request.param, folder / "base"), save_pool(folder / "pool", 10)
    spec = {"family": request.param, "model": {"path": str(base)}, "num_images": 10, "resolution": 32}
    latents.main(["--spec", json.dumps(spec), "--pool", str(pool), "--out", str(folder / "latents.json")])
    return request.param, base, folder / "latents.json", latents.Latents(folder / "latents.json").image_ids


def run(world, folder, captions=None, only_main=False, left_out=(), budget=200, side=32, loader_workers=0, **changes):
    family, base, latents_json, image_ids = world
    spec = {"family": family, "model": {"path": str(base)}, "num_images": 10, "resolution": side, "seed": 0}
    spec |= {"max_text_tokens": MAX_TEXT_TOKENS[family], "training": training(**changes)}
    captions = captions or save_captions(folder / "captions", image_ids)
    selection = save_selection(folder / "given.parquet", captions, dict.fromkeys(left_out, "cut"))
    out, curve = folder / "model.json", folder / "training.csv"
    words = ["--spec", json.dumps(spec), "--latents", str(latents_json), "--captions", str(captions)]
    words += ["--embedding-disk-gb", str(budget), "--loader-workers", str(loader_workers)]
    words += ["--selection", str(selection), "--kept-selection", str(folder / "selection.parquet")]
    finetune.main([*words, "--out", str(out), "--log-table", str(curve)])
    if only_main and not out.exists():
        return None  # in all processes but the main one
    return load_file(manifest_folder(out) / WEIGHTS), read_table(curve, "training"), out


@pytest.mark.parametrize(
    "how", [{}, {"precision": "bf16", "gradient_checkpointing": True}], ids=["plain", "bf16, recomputed"]
)
def test_the_whole_transformer_learns_and_nothing_else(world, tmp_path, how):
    base = world[1]
    before = {path: path.read_bytes() for path in base.rglob("*") if path.is_file()}
    weights, curve, out = run(world, tmp_path, **how)
    old = load_file(base / "transformer" / WEIGHTS)
    assert weights.keys() == old.keys()
    still = [name for name in weights if torch.equal(weights[name], old[name])]
    # Positions are no parameters; what the last block would make of the text is read by nothing.
    assert all(name == "pos_embed.pos_embed" or ".2." in name for name in still), still
    assert {path: path.read_bytes() for path in base.rglob("*") if path.is_file()} == before
    assert curve.step.tolist() == [1, 2, 3, 4, 5, 6]
    assert curve.epoch.tolist() == pytest.approx([0.4 * step for step in range(1, 7)])
    assert sorted(path.name for path in out.parent.iterdir()) == sorted(
        [read_json(out)["fingerprint"], "captions", "given.parquet", "model.json", "model.json.run.json",
         "selection.parquet", "training.csv"]
    )  # fmt: skip
    assert [path.name for path in (out.parent / read_json(out)["fingerprint"]).iterdir()] == ["transformer"]


@pytest.mark.parametrize(("precision", "tolerance"), [("fp32", 1e-5), ("bf16", 1e-2)])
def test_captions_encoded_once_and_in_every_step_give_the_same_loss(
    world, tmp_path, monkeypatch, caplog, precision, tolerance
):
    """With dropped captions; the cache is there while a model trains, and gone after."""
    seen, losses, train = [], [], trainer.train

    def watched(model, visits, collate, settings, seed, folder, *more):
        seen.append((sorted(path.name for path in folder.rglob("*.safetensors")), model.family.pipe.text_encoder))
        return train(model, visits, collate, settings, seed, folder, *more)

    monkeypatch.setattr(trainer, "train", watched)
    caplog.set_level("INFO")
    for budget, words in ((0, "encoded in every step"), (0.001, "encoded once, on disk")):
        how = {"precision": precision, "caption_dropout": 0.3, "steps": 3}
        _, curve, out = run(world, tmp_path / str(budget), budget=budget, **how)
        assert f"10 captions: {words} (" in caplog.text
        caplog.clear()
        shards, encoder = seen.pop()
        assert (shards, encoder is None) == ((["00000.safetensors"], True) if budget else ([], False))
        assert not list(out.parent.rglob("embeddings"))
        losses.append(curve.loss.tolist())
    assert losses[0] == pytest.approx(losses[1], rel=tolerance)


def plain_transformer(family):
    """A transformer of the published class that takes pictures of any shape, random and tiny."""
    torch.manual_seed(0)
    size = {"num_layers": 2, "attention_head_dim": 8, "num_attention_heads": 2, "out_channels": 8}
    if family == "qwen-image":
        return QwenImageTransformer2DModel(in_channels=32, joint_attention_dim=64, axes_dims_rope=(2, 2, 4), **size)
    size |= {"caption_projection_dim": 16, "joint_attention_dim": 96, "pooled_projection_dim": 96}
    return SD3Transformer2DModel(sample_size=16, in_channels=8, pos_embed_max_size=8, **size)


def test_pictures_of_several_sizes_are_learnt_a_size_a_batch(world, tmp_path):
    family, base = world[:2]
    shutil.copytree(base, tmp_path / "base")
    shutil.rmtree(tmp_path / "base" / "transformer")
    transformer = plain_transformer(family)
    transformer.save_pretrained(tmp_path / "base" / "transformer")
    index = read_json(base / "model_index.json") | {"transformer": ["diffusers", type(transformer).__name__]}
    write_json(tmp_path / "base" / "model_index.json", index)
    pool = save_pool(tmp_path / "pool", 10)
    table = read_table(pool, "images")
    table.width = [32, 50, 30, 32, 50] * 2
    write_table(pool, table, "images")
    spec = {"family": family, "model": {"path": str(tmp_path / "base")}, "num_images": 10, "resolution": 64}
    made = tmp_path / "latents.json"
    latents.main(["--spec", json.dumps(spec | {"aspect": "buckets"}), "--pool", str(pool), "--out", str(made)])
    buckets = latents.Latents(made)
    assert {size: buckets.sizes.count(size) for size in buckets.sizes} == {(64, 64): 6, (80, 48): 4}
    several = (family, tmp_path / "base", made, buckets.image_ids)
    weights, curve, out = run(several, tmp_path / "one", side=64, steps=8)
    _, curve_again, _ = run(several, tmp_path / "two", side=64, steps=8, per_device_batch=2)
    assert curve.loss.notna().all()
    assert curve_again.loss.tolist() == pytest.approx(curve.loss.tolist(), rel=1e-3)
    assert read_run_record(out)["num_images_shown"] == 10
    before = load_file(tmp_path / "base" / "transformer" / WEIGHTS)
    assert any(not torch.equal(weights[name], before[name]) for name in weights)


def test_too_small_a_disk_ends_it_before_weights_are_loaded(world, tmp_path, monkeypatch):
    from workflow_scripts.t2i.families import FAMILIES

    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=100_000))
    monkeypatch.setattr(FAMILIES[world[0]], "load_part", lambda *_: pytest.fail("loaded"))
    with pytest.raises(
        UserError, match=r"0.100 MB are free, this needs .*encoded captions .*checkpoints .*the trained"
    ):
        run(world, tmp_path)


def test_checkpoints_take_what_was_foretold(world, tmp_path, monkeypatch):
    base = world[1]
    monkeypatch.setattr(trainer, "CHECKPOINT_SECONDS", 0.0)
    monkeypatch.setattr(trainer, "SAVING_SHARE", math.inf)
    monkeypatch.setattr(trainer, "remove_checkpoints", lambda folder: None)
    run(world, tmp_path, steps=4)
    found = list(tmp_path.rglob("checkpoint-*"))
    size = sum(path.stat().st_size for path in tmp_path.rglob("checkpoint-*/*"))
    parameters = capacity.count_parameters(base / "transformer")[0]
    foretold = capacity.checkpoints(parameters, T2iTraining(**training())) / capacity.CHECKPOINTS
    assert len(found) == 2
    assert size / 2 == pytest.approx(foretold, rel=0.05)


# A process of its own: a fork of one whose libraries have threads can wait for ever.
KILLED = """
import math, os, signal, sys
from pathlib import Path, PosixPath
from workflow_scripts import training
from workflow_scripts.t2i import flow
training.CHECKPOINT_SECONDS, training.SAVING_SHARE = 0.0, math.inf
read = flow.Visits.__getitem__
def deadly(self, visit):
    if visit == 16:  # the fifth step's first
        os.kill(os.getpid(), signal.SIGKILL)
    return read(self, visit)
flow.Visits.__getitem__ = deadly
from test_t2i_finetune import run
run(eval(sys.argv[1]), Path(sys.argv[2]))
"""


def test_a_killed_run_ends_as_an_uninterrupted_one(world, tmp_path, monkeypatch, root):
    monkeypatch.setattr(trainer, "CHECKPOINT_SECONDS", 0.0)
    monkeypatch.setattr(trainer, "SAVING_SHARE", math.inf)
    whole, curve, _ = run(world, tmp_path / "whole")
    paths = os.pathsep.join([str(root), str(root / "tests/unit")])
    died = subprocess.run(
        [sys.executable, "-c", KILLED, repr(world), str(tmp_path / "killed")],
        cwd=root,
        env={**os.environ, "PYTHONPATH": paths},
        timeout=300,
    )
    assert died.returncode == -signal.SIGKILL
    assert not (tmp_path / "killed" / "model.json").exists()
    left = sorted(path.name for path in (tmp_path / "killed").rglob("checkpoint-*"))
    assert left and left[-1] in ("checkpoint-3", "checkpoint-4")
    resumed, curve_again, _ = run(world, tmp_path / "killed")
    assert all(torch.equal(whole[name], resumed[name]) for name in whole)
    assert curve_again[SETTLED].equals(curve[SETTLED])


@pytest.mark.parametrize("budget", [200, 0])
def test_loader_workers_change_no_result(world, tmp_path, budget):
    changes = {0: {"caption": " ".join(["red"] * 90)}, 2: {"caption": None, "error": "refused"}}
    captions = save_captions(tmp_path / "captions", world[3], changes)
    how = {"captions": captions, "left_out": [world[3][2]], "budget": budget}
    plain, curve, _ = run(world, tmp_path / "plain", **how)
    again, ahead, _ = run(world, tmp_path / "ahead", **how, loader_workers=2)
    assert ahead[SETTLED].equals(curve[SETTLED])
    assert all(torch.equal(plain[name], again[name]) for name in plain)
    assert set(curve.share_truncated) == {0.0, 0.25}  # one caption of ten is cut by every encoder
    assert (curve.tokens_per_second > 0).all() and (curve.model_tflops > 0).all()
    assert curve.share_waiting.between(0, 1).all()


@pytest.mark.parametrize(
    ("how", "tolerance"),
    [({}, 1e-3), ({"gradient_checkpointing": True}, 1e-3), ({"precision": "bf16"}, 2e-2)],
    ids=["plain", "recomputed", "bf16"],
)
def test_four_at_once_learn_as_two_and_two(world, tmp_path, how, tolerance):
    _, one_curve, _ = run(world, tmp_path / "one", steps=3, **how)
    _, two_curve, _ = run(world, tmp_path / "two", steps=3, per_device_batch=2, **how)
    assert two_curve.loss.tolist() == pytest.approx(one_curve.loss.tolist(), rel=tolerance)
    assert two_curve.grad_norm.tolist() == pytest.approx(one_curve.grad_norm.tolist(), rel=tolerance)


def test_bf16_keeps_master_weights_and_recomputing_changes_nothing(world, tmp_path):
    plain, curve, _ = run(world, tmp_path / "plain", steps=2)
    recomputed, curve_again, _ = run(world, tmp_path / "recomputed", steps=2, gradient_checkpointing=True)
    assert all(torch.equal(plain[name], recomputed[name]) for name in plain)
    assert curve_again[SETTLED].equals(curve[SETTLED])
    halved, curve_halved, _ = run(world, tmp_path / "halved", steps=2, precision="bf16")
    assert {tensor.dtype for tensor in halved.values()} == {torch.float32}
    assert curve_halved.loss.tolist() == pytest.approx(curve.loss.tolist(), rel=0.03)


def test_images_that_are_left_out_count_nothing_and_are_counted(world, tmp_path):
    image_ids = world[3]
    captions = save_captions(tmp_path / "captions", image_ids, {4: {"caption": "  "}, 6: {"caption": None}})
    left_out = {image_ids[n] for n in (1, 4, 6)}
    kept = finetune.usable_captions(captions, image_ids, left_out)
    assert [n for n, text in enumerate(kept) if text is None] == [1, 4, 6]
    run(world, tmp_path, captions, left_out=left_out, steps=1)
    told = {"num_images": 10, "num_left_out": 3, "left_out_fingerprint": fingerprint(sorted(left_out))}
    assert read_run_record(tmp_path / "model.json")["selection"] == told
    assert (tmp_path / "selection.parquet").read_bytes() == (tmp_path / "given.parquet").read_bytes()
    with pytest.raises(UserError, match="1 of 11 images have no caption, first stranger"):
        finetune.usable_captions(captions, [*image_ids, "stranger"], left_out)
    with pytest.raises(UserError, match=f"1 captions are empty, and the selection keeps them, first {image_ids[4]}"):
        finetune.usable_captions(captions, image_ids, left_out - {image_ids[4]})
    with pytest.raises(UserError, match="none of 10 images is left to train on"):
        run(world, tmp_path, captions, left_out=image_ids)


def test_a_selection_of_other_captions_is_refused(world, tmp_path):
    selection = save_selection(tmp_path / "given.parquet", save_captions(tmp_path / "before", world[3]))
    captions = save_captions(tmp_path / "captions", world[3], {4: {"caption": "another"}})
    with pytest.raises(UserError, match=r"selected from other captions than .*--forcerun select_images"):
        read_selection(selection, captions)


def test_captions_that_an_encoder_cuts_are_counted(world, tmp_path):
    changes = {0: {"caption": " ".join(["red"] * 90)}, 3: {"caption": " ".join(["red"] * 70)}}
    run(world, tmp_path, save_captions(tmp_path / "captions", world[3], changes), steps=1)
    for facts in read_run_record(tmp_path / "model.json")["captions_cut"].values():
        assert (facts["num_cut"], facts["share_cut"]) == (2, 0.2)


SHARED = """
import math, os, sys
from pathlib import Path, PosixPath
from workflow_scripts import training
from workflow_scripts.t2i import flow
world, folder, captions, changes, death = eval(sys.argv[1])
if death:
    training.CHECKPOINT_SECONDS, training.SAVING_SHARE = 0.0, math.inf
    read = flow.Visits.__getitem__
    def deadly(self, visit):
        if visit == death:
            os._exit(9)
        return read(self, visit)
    flow.Visits.__getitem__ = deadly
from test_t2i_finetune import run
run(world, folder, captions, only_main=True, **changes)
"""


def run_shared(world, folder, captions, root, death=None, **changes):
    """`run` in as many processes as `devices` says; they end at visit `death`."""
    (folder / "run.py").write_text(SHARED)
    devices = changes.get("devices", 1)
    launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={devices}"] if devices > 1 else []
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(root), str(root / "tests/unit")])}
    given = repr((world, folder, captions, changes, death))
    command = [sys.executable, *launcher, folder / "run.py", given]
    done = subprocess.run(command, cwd=root, env=environment, timeout=400, capture_output=True, text=True)
    assert death or done.returncode == 0, done.stderr[-3000:]
    if not death:
        out = folder / "model.json"
        return load_file(manifest_folder(out) / WEIGHTS), read_table(folder / "training.csv", "training")


@pytest.mark.slow
def test_deepspeed_over_two_processes_learns_alike_and_resumes(world, tmp_path, root):
    """ZeRO-2 for SD3, ZeRO-3 with the optimiser in host memory for Qwen-Image, as their recipes; one caption is
    missing, so that the processes' halves do not count alike."""
    captions = save_captions(tmp_path / "captions", world[3], {2: {"caption": None, "error": "refused"}})
    left_out = [world[3][2]]
    whole, curve, _ = run(world, tmp_path / "plain", captions, left_out=left_out)
    how = {"sd3": {"zero_stage": 2}, "qwen-image": {"zero_stage": 3, "offload_optimizer": True}}[world[0]]
    how |= {"devices": 2, "per_device_batch": 2, "left_out": left_out}
    shared = tmp_path / "shared"
    shared.mkdir()
    run_shared(world, shared, captions, root, death=16, **how)
    assert len(list(shared.rglob("embeddings/*.safetensors"))) == 1
    assert list(shared.rglob("checkpoint-*")) and not (shared / "model.json").exists()
    weights, again = run_shared(world, shared, captions, root, budget=0, **how)  # nothing that the result depends on
    assert again.loss.tolist() == pytest.approx(curve.loss.tolist(), rel=1e-4)
    assert weights.keys() == whole.keys()
    for name, tensor in whole.items():
        torch.testing.assert_close(weights[name], tensor, rtol=1e-2, atol=1e-4, msg=name)


def test_the_wrong_number_of_processes_ends_at_once(tmp_path):
    spec = {"family": "sd3", "model": {"path": "nowhere"}, "num_images": 10, "resolution": 32, "seed": 0}
    spec |= {"max_text_tokens": 1, "training": training(devices=2, global_batch=8)}
    words = ["--spec", json.dumps(spec), "--latents", "nowhere", "--captions", "nowhere", "--out", str(tmp_path / "m")]
    words += ["--selection", "nowhere", "--kept-selection", str(tmp_path / "s.parquet")]
    with pytest.raises(UserError, match=r"devices is 2, this command was started as 1 process"):
        finetune.main([*words, "--log-table", str(tmp_path / "t.csv")])
    assert not list(tmp_path.iterdir())
