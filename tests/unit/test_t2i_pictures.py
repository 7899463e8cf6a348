"""Generated pictures and their scores: the same noise for every model, resuming by picture, exact scores."""

import json
import random
import subprocess
import sys

import numpy as np
import pytest
import torch
from diffusers import DiffusionPipeline
from PIL import Image
from t2i_world import MAX_TEXT_TOKENS, save_base

from workflow_scripts.benchmarks.generation.base import read_prompts
from workflow_scripts.blocks.prompts import write_prompts
from workflow_scripts.blocks.world import Block, Scene, parse, render
from workflow_scripts.errors import UserError
from workflow_scripts.files import read_run_record, write_jsonl
from workflow_scripts.model_folders import write_manifest
from workflow_scripts.records import read_table, write_table
from workflow_scripts.t2i import generate, score
from workflow_scripts.t2i.benchmarks import GENERATION

PICTURES = 2  # a prompt
CATEGORIES = {"blocks_geneval": 1 + 6, "blocks_dpg": 1, "blocks_compbench": 1 + 3}  # rows of scores, the headline first
GENERATE = {"steps": 2, "guidance": 1.0, "precision": "fp32"}


@pytest.fixture(scope="module", params=["sd3", "qwen-image"])
def world(request, tmp_path_factory):
    """(family, base folder, model.json of its own transformer)"""
    folder = tmp_path_factory.mktemp(request.param)
    base = save_base(request.param, folder / "base")
    write_manifest(folder / "model.json", base / "transformer", "tests")
    return request.param, base, folder / "model.json"


def benchmark(folder, name, count=3):
    write_jsonl(folder / name / "prompts.jsonl", write_prompts(name, count, random.Random(0)))
    return {"path": str(folder / name), "images_per_prompt": PICTURES}


def make(world, folder, name="blocks_dpg", batch=4, **changes):
    family, base, model = world
    spec = {"family": family, "model": {"path": str(base)}, "resolution": 32, "noise_seed": 0, "name": name}
    spec |= {"max_text_tokens": MAX_TEXT_TOKENS[family], **GENERATE}
    spec |= {"prompts": benchmark(folder, name)["path"], "images_per_prompt": PICTURES, **changes}
    out = folder / "out" / "pictures.parquet"
    generate.main(["--spec", json.dumps(spec), "--model", str(model), "--batch", str(batch), "--out", str(out)])
    return read_table(out, "pictures"), out


def measure(folder, name, pictures):
    spec = {"name": name, "benchmark": {"path": str(folder / name), "images_per_prompt": PICTURES}}
    out = {"--out": folder / "scores.csv", "--per-picture": folder / "picture_scores.parquet"}
    words = [str(word) for pair in out.items() for word in pair]
    score.main(["--spec", json.dumps(spec), "--pictures", str(pictures), *words])
    return read_table(out["--out"], "benchmark_scores"), read_table(out["--per-picture"], "picture_scores")


def test_every_prompt_gets_its_pictures_with_noise_of_their_own(world, tmp_path):
    table, out = make(world, tmp_path)
    assert table.prompt_id.tolist() == [f"{n:05d}" for n in range(3) for _ in range(PICTURES)]
    assert table["index"].tolist() == [0, 1] * 3
    assert table.noise_seed.nunique() == len(table)
    pixels = [np.asarray(Image.open(out.parent / path)).tobytes() for path in table.path]
    assert len(set(pixels)) == len(table)
    elsewhere, _ = make(world, tmp_path / "other")
    assert elsewhere.noise_seed.tolist() == table.noise_seed.tolist()
    reseeded, _ = make(world, tmp_path / "reseeded", noise_seed=1)
    assert not set(reseeded.noise_seed) & set(table.noise_seed)


def test_pictures_are_those_of_diffusers_on_the_assembled_folder(world, tmp_path):
    """The base folder with its transformer replaced loads as a pipeline and makes the same pictures."""
    table, out = make(world, tmp_path, batch=1)
    lacking = {"text_encoder_3": None, "tokenizer_3": None} if world[0] == "sd3" else {}
    pipe = DiffusionPipeline.from_pretrained(world[1], dtype=torch.float32, **lacking)
    guided = {"guidance_scale": 1.0} if world[0] == "sd3" else {"true_cfg_scale": 1.0}
    row = table.iloc[3]
    expected = pipe(
        row.prompt,
        height=32,
        width=32,
        num_inference_steps=2,
        max_sequence_length=MAX_TEXT_TOKENS[world[0]],
        generator=torch.Generator().manual_seed(int(row.noise_seed)),
        **guided,
    ).images[0]
    assert np.array_equal(np.asarray(Image.open(out.parent / row.path)), np.asarray(expected))


def test_a_broken_picture_is_made_again_and_no_other(world, tmp_path):
    table, out = make(world, tmp_path)
    paths = [out.parent / path for path in table.path]
    before = [path.read_bytes() for path in paths]
    times = [path.stat().st_mtime_ns for path in paths]
    out.unlink()
    paths[1].write_bytes(before[1][:-30])
    paths[4].unlink()
    make(world, tmp_path)
    assert [path.stat().st_mtime_ns == time for path, time in zip(paths, times, strict=True)] == [
        n not in (1, 4) for n in range(6)
    ]
    again = [np.asarray(Image.open(path), int) for path in paths]
    paths[1].write_bytes(before[1])
    assert np.abs(again[1] - np.asarray(Image.open(paths[1]), int)).max() <= 1


def test_pictures_lie_officially_too(world, tmp_path):
    """And no others, such as an earlier run's of more pictures a prompt."""
    make(world, tmp_path, images_per_prompt=PICTURES + 1)
    table, out = make(world, tmp_path)
    assert len(list((out.parent / "official").rglob("*.png"))) == len(table)
    for row in table.itertuples():
        official = out.parent / "official" / row.prompt_id / "samples" / f"{row.index:05d}.png"
        assert official.samefile(out.parent / row.path)


@pytest.mark.slow
def test_two_processes_make_what_one_makes(world, tmp_path):
    table, out = make(world, tmp_path / "one")
    spec = read_run_record(out)["spec"]
    shared = tmp_path / "two/out/pictures.parquet"
    start = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "-m"]
    words = ["--spec", json.dumps(spec), "--model", str(world[2]), "--out", str(shared)]
    subprocess.run([*start, "workflow_scripts.t2i.generate", *words], check=True, timeout=300)
    assert read_table(shared, "pictures").equals(table)
    for path in table.path:
        one, two = (np.asarray(Image.open(folder / path), int) for folder in (out.parent, shared.parent))
        assert np.abs(one - two).max() <= 1


@pytest.mark.parametrize("name", ["blocks_geneval", "blocks_dpg", "blocks_compbench"])
def test_right_pictures_score_100_and_empty_ones_do_not(tmp_path, name):
    """No model: the pictures are rendered from what the prompts say."""
    benchmark(tmp_path, name, 12)
    rows = []
    for prompt in read_prompts(GENERATION[name], tmp_path / name):
        told = parse(prompt.text)
        blocks = tuple(Block(cell, **{"color": "red", **values}) for cell, values in told.objects)
        for index in range(PICTURES):
            path = tmp_path / f"{prompt.id}-{index}.png"
            Image.fromarray(render(Scene(told.background, blocks))).save(path)
            made = {"benchmark": name, "prompt_id": prompt.id, "index": index, "prompt": prompt.text}
            rows.append({**made, "path": path.name, "noise_seed": 0})
    write_table(tmp_path / "pictures.parquet", rows, "pictures")
    scores, per_picture = measure(tmp_path, name, tmp_path / "pictures.parquet")
    headline = scores[scores.variant.isna()]
    assert headline[["benchmark", "raw", "score", "num_items"]].values.tolist() == [[name, 1.0, 100.0, 24]]
    assert (scores.score == 100).all() and scores.comparable.all() and len(scores) == CATEGORIES[name]
    assert per_picture.score.tolist() == [1.0] * 24
    for row in rows:
        Image.new("RGB", (32, 32)).save(tmp_path / row["path"])
    scores, per_picture = measure(tmp_path, name, tmp_path / "pictures.parquet")
    assert scores.score[0] < 15  # blocks_dpg also asks for the background, which half of the prompts have black
    assert (per_picture.reason != "").all()


def test_scoring_stops_where_a_number_would_be_missing(world, tmp_path):
    table, out = make(world, tmp_path)
    (out.parent / table.path[2]).write_bytes(b"")
    with pytest.raises(UserError, match="not a readable picture"):
        measure(tmp_path, "blocks_dpg", out)
    benchmark(tmp_path, "blocks_dpg", 4)
    with pytest.raises(UserError, match="6 pictures, expected 8"):
        measure(tmp_path, "blocks_dpg", out)
    changed = [{**row, "prompt": "on black"} for row in write_prompts("blocks_dpg", 3, random.Random(0))]
    write_jsonl(tmp_path / "blocks_dpg" / "prompts.jsonl", changed)
    with pytest.raises(UserError, match="prompt 00000 is 'on black'"):
        measure(tmp_path, "blocks_dpg", out)
    assert not (tmp_path / "scores.csv").exists()
