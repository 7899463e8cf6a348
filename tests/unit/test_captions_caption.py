"""Caption jobs: shards, kill -9 at any moment, resuming, refusing."""

import importlib.util
import json
import random
import subprocess
import sys
from pathlib import Path
from typing import get_args

import numpy as np
import pandas as pd
import pytest
from engine_helpers import caption_job, engine_job
from PIL import Image
from pool_files import write_parquet, write_tar

from workflow_scripts.blocks.world import render, sample_scene
from workflow_scripts.captions import caption, collect, work
from workflow_scripts.captions.read import FINGERPRINT, StoredCaptions, training_faults
from workflow_scripts.engines import exact
from workflow_scripts.engines.interface import Answer, Picture
from workflow_scripts.errors import UserError
from workflow_scripts.files import read_json, read_run_record, sha256_file, write_json
from workflow_scripts.plan import PoolJob
from workflow_scripts.pool import build
from workflow_scripts.read_ahead import ReadAhead
from workflow_scripts.records import read_table, write_table
from workflow_scripts.spec import CaptionFault, Sampling

FAULTS = get_args(CaptionFault)

ROOT = Path(__file__).resolve().parents[2]
NUM_IMAGES, SHARD_SIZE, CHUNK, ROOM = 50, 20, 8, 5


def exact_job(drop=0.4, falsify=0.2, **changes):
    return caption_job(engine_job("exact", dial={"drop": drop, "falsify": falsify}), **changes)


@pytest.fixture(scope="module")
def pool(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pool")
    (folder / "images").mkdir()
    numbers = random.Random(0)
    for index in range(NUM_IMAGES):
        Image.fromarray(render(sample_scene(numbers), numbers)).save(folder / "images" / f"{index}.png")
    job = PoolJob(sources={"blocks": {"path": str(folder / "images"), "count": NUM_IMAGES}}, size=NUM_IMAGES, seed=0)
    out = ["--out", str(folder / "images.parquet"), "--left-out", str(folder / "left_out.csv")]
    build.main(["--spec", job.model_dump_json(), *out])
    return folder / "images.parquet"


def arguments(pool, folder, job, shards="0:3"):
    return [
        "--spec", job.model_dump_json(), "--pool", str(pool), "--shards", shards, "--out-dir", str(folder),
        "--out", str(folder / "jobs" / f"{shards.split(':')[0]}.json"),
    ]  # fmt: skip


@pytest.fixture(scope="module")
def uninterrupted(pool, tmp_path_factory):
    folder = tmp_path_factory.mktemp("captions") / "dial"
    caption.main(arguments(pool, folder, exact_job()))
    return folder


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr(work, "CHUNK", CHUNK)
    monkeypatch.setattr(exact, "_ROOM", ROOM)


@pytest.fixture
def asked(monkeypatch):
    """The requests that the engine is given."""
    given, original = [], exact.Engine.submit

    def submit(self, request):
        given.append(request)
        original(self, request)

    monkeypatch.setattr(exact.Engine, "submit", submit)
    return given


def test_shards_are_the_pool_in_its_order(pool, uninterrupted):
    images = read_table(pool, "images")
    shards = [read_table(uninterrupted / f"{shard:05d}.parquet", "captions") for shard in range(3)]
    assert [len(shard) for shard in shards] == [20, 20, 10]
    assert [i for shard in shards for i in shard["image_id"]] == images["image_id"].tolist()
    manifest = read_json(uninterrupted / "jobs" / "0.json")
    assert [shard["rows"] for shard in manifest["shards"]] == [20, 20, 10]
    for shard in manifest["shards"]:
        assert sha256_file(uninterrupted / "jobs" / shard["path"]) == shard["sha256"]


@pytest.mark.parametrize("kind", ["tar", "parquet"])
def test_captions_of_a_packed_pool_are_those_of_the_loose_one(pool, uninterrupted, tmp_path, kind):
    files = {path.name: path.read_bytes() for path in (pool.parent / "images").iterdir()}
    if kind == "tar":
        write_tar(tmp_path / "packed.tar", files)
    else:
        rows = [{"image": {"bytes": content, "path": name}} for name, content in files.items()]
        write_parquet(tmp_path / "packed.parquet", rows, row_group_size=7)
    source = {"path": str(tmp_path / f"packed.{kind}"), "count": NUM_IMAGES}
    job = PoolJob(sources={"blocks": source}, size=NUM_IMAGES, seed=0)
    out = tmp_path / "pool" / "images.parquet"
    build.main(["--spec", job.model_dump_json(), "--out", str(out), "--left-out", str(tmp_path / "left_out.csv")])
    caption.main(arguments(out, tmp_path / "dial", exact_job()))
    for shard in range(3):
        loose, packed = (
            read_table(folder / f"{shard:05d}.parquet", "captions") for folder in (uninterrupted, tmp_path / "dial")
        )
        assert packed.equals(loose)


# Images that are safe after each rename that gives a file its name: journal and shards, the run record, the manifest.
SAFE = [8, 16, 20, 24, 32, 40, 40, 48, 50, 50, 50, 50]
# Which call dies: the engine's (answers come by 5), or a rename (the file's bytes are all there). Images safe by then.
MOMENTS = {("collect", 1): 0, ("collect", 2): 0, ("collect", 4): 8, ("collect", 5): 20, ("collect", 10): 40}
MOMENTS |= {("rename", call): safe for call, safe in enumerate([0, *SAFE[:-1]], 1)}
FATAL = """
import os, signal, sys
from workflow_scripts.captions import caption, work
from workflow_scripts.engines import exact
work.CHUNK, exact._ROOM = {chunk}, {room}
for moment, call, arguments in {cases!r}:
    if os.fork():
        status = os.wait()[1]
        assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL, (moment, call, status)
        continue
    place, name = {{"collect": (exact.Engine, "collect"), "rename": (os, "replace")}}[moment]
    original, calls = getattr(place, name), []
    def fatal(*given):
        calls.append(given)
        if len(calls) == call:
            os.kill(os.getpid(), signal.SIGKILL)
        return original(*given)
    setattr(place, name, fatal)
    caption.main(arguments)
    os._exit(0)
"""


@pytest.fixture(scope="module")
def killed(pool, tmp_path_factory):
    """A folder for every moment, left by a job that SIGKILL ended then."""
    folders = {moment: tmp_path_factory.mktemp("killed") / "dial" for moment in MOMENTS}
    cases = [(*moment, arguments(pool, folder, exact_job())) for moment, folder in folders.items()]
    code = FATAL.format(chunk=CHUNK, room=ROOM, cases=cases)
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)
    return folders


@pytest.mark.parametrize("moment", MOMENTS)
def test_kill_9_costs_at_most_one_chunk(pool, uninterrupted, killed, asked, moment):
    folder = killed[moment]
    assert not (folder / "jobs" / "0.json").exists()
    caption.main(arguments(pool, folder, exact_job()))
    assert len(asked) == NUM_IMAGES - MOMENTS[moment]
    for name in ("00000.parquet", "00001.parquet", "00002.parquet", "jobs/0.json"):
        assert sha256_file(folder / name) == sha256_file(uninterrupted / name)
    assert not list(folder.glob(".partial/*/*")) and not list(folder.rglob(".*.tmp*"))


def test_finished_shards_are_kept_and_others_redone(pool, tmp_path, asked):
    folder = tmp_path / "dial"
    caption.main(arguments(pool, folder, exact_job(), "0:2"))
    assert len(asked) == 40
    caption.main(arguments(pool, folder, exact_job(), "0:3"))
    assert len(asked) == 50
    caption.main(arguments(pool, folder, exact_job(0, 0), "0:3"))
    assert len(asked) == 100
    text = read_table(folder / "00000.parquet", "captions")["caption"]
    assert all(" on " in line for line in text)  # nothing is dropped


def test_captions_do_not_depend_on_shards_or_chunks(pool, uninterrupted, tmp_path, monkeypatch):
    monkeypatch.setattr(work, "CHUNK", 3)
    caption.main(arguments(pool, tmp_path / "dial", exact_job(shard_size=50), "0:1"))
    whole = read_table(tmp_path / "dial" / "00000.parquet", "captions")
    parts = [read_table(uninterrupted / f"{shard:05d}.parquet", "captions") for shard in range(3)]
    assert whole["caption"].tolist() == [line for part in parts for line in part["caption"]]


def test_mistakes_stop_before_the_pool_is_read(tmp_path):
    nowhere = tmp_path / "no-pool.parquet"
    if not importlib.util.find_spec("vllm"):
        vllm = caption_job(engine_job("vllm", model={"path": str(tmp_path)}))
        with pytest.raises(UserError, match=r"captioners.qwen.engine: 'vllm' needs the package vllm, .*envs/serve.txt"):
            caption.main(arguments(nowhere, tmp_path / "qwen", vllm))
    absent = caption_job(engine_job("transformers", model={"path": str(tmp_path / "gone")}))
    with pytest.raises(UserError, match=r"captioners.llava.model.path: no such folder .*gone"):
        caption.main(arguments(nowhere, tmp_path / "llava", absent))
    wrong = caption_job(engine_job("transformer", model={"path": str(tmp_path)}))
    with pytest.raises(UserError, match=r"captioners.llava.engine: unknown name 'transformer', did you mean"):
        caption.main(arguments(nowhere, tmp_path / "llava", wrong))


@pytest.mark.parametrize("shards", ["0", "2:2", "0:4", "a:b", "-1:2", "3:2"])
def test_shards_that_the_pool_does_not_have(shards):
    with pytest.raises(UserError, match=r"within the pool's 3 shards \(0:3\)"):
        caption.shard_rows(shards, NUM_IMAGES, SHARD_SIZE)


def with_picture(pool, tmp_path, path):
    """The pool with another file as its fourth image."""
    images = read_table(pool, "images")
    images.loc[3, "path"] = str(path)
    write_table(tmp_path / "images.parquet", images, "images")
    return tmp_path / "images.parquet"


def test_a_vanished_image_stops_and_a_broken_one_is_a_row(pool, uninterrupted, tmp_path):
    path, folder = tmp_path / "gone.png", tmp_path / "dial"
    changed = with_picture(pool, tmp_path, path)
    with pytest.raises(UserError, match=r"gone.png: no such file \(image"):
        caption.main(arguments(changed, folder, exact_job(), "0:1"))
    path.write_bytes(b"not a picture")
    caption.main(arguments(changed, folder, exact_job(), "0:1"))
    table = read_table(folder / "00000.parquet", "captions")
    assert table["error"][3].startswith("unreadable image: ") and pd.isna(table["caption"][3])
    assert table["num_attempts"][3] == 0
    expected = read_table(uninterrupted / "00000.parquet", "captions")
    pd.testing.assert_frame_equal(table.drop(3), expected.drop(3), check_dtype=False)
    assert read_run_record(folder / "jobs" / "0.json")["errors"] == {"unreadable image": 1}
    Image.new("RGB", (10, 10)).save(path)
    with pytest.raises(UserError, match="reads blocks pictures only"):
        caption.main(arguments(changed, tmp_path / "other", exact_job(), "0:1"))


class ScriptedEngine:
    """A test double: answers as a script says, last asked first."""

    reads_images = True

    def __init__(self, script):
        self.script, self.waiting, self.seen, self.facts = script, [], [], {}

    def room(self):
        return 3 - len(self.waiting)

    def submit(self, request):
        self.waiting.append(request)
        self.seen.append(request)

    def collect(self):
        return [(request, self.script(request)) for request in [self.waiting.pop()]] if self.waiting else []

    def close(self):
        self.closed = True


@pytest.fixture
def scripted(monkeypatch, tmp_path):
    """Run a caption job whose engine follows a script; (engine, captions)."""

    def run(pool, script, **changes):
        made = ScriptedEngine(script)
        monkeypatch.setattr(work, "open_engine", lambda *_: made)
        (tmp_path / "model").mkdir()
        monkeypatch.setattr("workflow_scripts.engines.inputs", lambda job: [])
        job = caption_job(engine_job("transformers", model={"path": str(tmp_path / "model")}), **changes)
        caption.main(arguments(pool, tmp_path / "scripted", job, "0:3"))
        tables = [read_table(tmp_path / "scripted" / f"{shard:05d}.parquet", "captions") for shard in range(3)]
        assert made.closed
        return made, pd.concat(tables, ignore_index=True)

    return run


def test_a_faulty_caption_is_asked_for_again(pool, scripted):
    """Image 0 says something at the second attempt, image 1 never, image 2 is cut both times, the others are sound."""
    ids = read_table(pool, "images")["image_id"]

    def script(request):
        number, attempt = request.key
        texts = {(0, 1): "", (0, 2): "a red circle", (1, 1): "!!!!!!!!!!", (1, 2): "", (2, 1): "a b", (2, 2): "c d"}
        return Answer(texts.get((number, attempt), f"caption {number}"), 3, "length" if number == 2 else "stop")

    engine, table = scripted(pool, script, attempts=2)
    assert table["image_id"].tolist() == ids.tolist()
    assert table["caption"].tolist()[:4] == ["a red circle", "", "c d", "caption 3"]
    assert table["error"].fillna("").tolist()[:4] == ["", "empty", "cut", ""]
    assert table["num_attempts"].tolist() == [2, 2, 2] + [1] * 47
    assert len(engine.seen) == 53
    again = [request for request in engine.seen if request.key[1] == 2]
    assert all(request.sampling.temperature == 0.7 for request in again)  # greedy would say the same
    firsts = {request.key[0]: request for request in engine.seen if request.key[1] == 1}
    assert all(request.seed != firsts[request.key[0]].seed and request.images for request in again)


def test_an_engine_error_is_a_row_and_not_asked_again(pool, scripted):
    engine, table = scripted(pool, lambda request: Answer(None, error="server: too long"), attempts=2)
    assert len(engine.seen) == 50
    assert set(table["error"]) == {"server: too long"} and table["caption"].isna().all()


def test_an_engine_that_gives_up_costs_no_finished_image(pool, uninterrupted, tmp_path, asked, monkeypatch):
    folder, collect_now, calls = tmp_path / "dial", exact.Engine.collect, []

    def collect_twice(self):
        calls.append(1)
        if len(calls) > 2:
            raise UserError("the server refuses the key")
        return collect_now(self)

    monkeypatch.setattr(exact.Engine, "collect", collect_twice)
    with pytest.raises(UserError, match="refuses the key"):
        caption.main(arguments(pool, folder, exact_job()))
    monkeypatch.setattr(exact.Engine, "collect", collect_now)
    asked.clear()
    caption.main(arguments(pool, folder, exact_job()))
    assert len(asked) == NUM_IMAGES - 2 * ROOM
    assert sha256_file(folder / "00000.parquet") == sha256_file(uninterrupted / "00000.parquet")


def test_a_resumed_job_draws_the_same_captions(pool, tmp_path, monkeypatch):
    """A sampling model in batches of 5, with second attempts for cut captions, interrupted and not."""
    from workflow_scripts.blocks.vlm_model import build_model, save_checkpoint
    from workflow_scripts.engines import transformers

    save_checkpoint(build_model("clip-llama", seed=0), "clip-llama", tmp_path / "model")
    monkeypatch.setattr(transformers, "LARGEST_BATCH", ROOM)
    job = caption_job(
        engine_job("transformers", model={"path": str(tmp_path / "model")}), sampling=Sampling(temperature=2.0),
        max_new_tokens=40, attempts=2,
    )  # fmt: skip
    caption.main(arguments(pool, tmp_path / "whole", job, "0:1"))
    answer, calls = transformers.Engine._answer, []

    def answer_twice(self, requests):
        calls.append(len(requests))
        if len(calls) > 2:
            raise UserError("interrupted")
        return answer(self, requests)

    monkeypatch.setattr(transformers.Engine, "_answer", answer_twice)
    with pytest.raises(UserError, match="interrupted"):
        caption.main(arguments(pool, tmp_path / "parts", job, "0:1"))
    monkeypatch.setattr(transformers.Engine, "_answer", answer)
    caption.main(arguments(pool, tmp_path / "parts", job, "0:1"))
    shards = [tmp_path / run / "00000.parquet" for run in ("whole", "parts")]
    assert sha256_file(shards[0]) == sha256_file(shards[1])
    assert set(read_table(shards[0], "captions")["num_attempts"]) == {1, 2}


def test_few_pictures_are_decoded_ahead(pool):
    images = read_table(pool, "images")
    pictures = [Picture(*names) for names in zip(images["image_id"], images["path"], strict=True)]
    read = []

    def counting(picture):
        read.append(picture)
        return work.read_picture(picture, None)

    ahead = ReadAhead(counting, pictures, threads=2, ahead=4)
    for number in range(50):
        image = ahead.next()
        assert np.array_equal(np.asarray(image), np.asarray(Image.open(pictures[number].path)))
        assert len(read) <= number + 1 + 4
    assert len(read) == 50


def collected(folder, *jobs, leave_out=FAULTS):
    collect.main([
        "--spec", json.dumps({"captioner": "dial", "leave_out": list(leave_out)}),
        "--jobs", *(str(folder / "jobs" / f"{job}.json") for job in jobs),
        "--out", str(folder / "captions.json"),
    ])  # fmt: skip


def test_collected_jobs_are_the_whole_pool(pool, uninterrupted, tmp_path):
    folder = tmp_path / "dial"
    caption.main(arguments(pool, folder, exact_job(), "2:3"))
    caption.main(arguments(pool, folder, exact_job(), "0:2"))
    collected(folder, 2, 0)
    stored = StoredCaptions(folder / "captions.json")
    assert stored.image_ids().to_pylist() == read_table(pool, "images")["image_id"].tolist()
    record = read_run_record(folder / "captions.json")
    assert (record["num_images"], record["num_usable"]) == (50, 50)


def test_jobs_that_do_not_belong_together(pool, tmp_path):
    folder = tmp_path / "dial"
    caption.main(arguments(pool, folder, exact_job(), "0:2"))
    caption.main(arguments(pool, folder, exact_job(0, 0), "2:3"))
    with pytest.raises(UserError, match="made from different settings or pools"):
        collected(folder, 0, 2)
    with pytest.raises(UserError, match="belongs to another job too"):
        collected(folder, 0, 0)
    caption.main(arguments(pool, folder, exact_job(0, 0), "1:2"))
    with pytest.raises(UserError, match=r"shard .*00001.parquet was made from \w{16}, expected one made from"):
        collected(folder, 0, 2)
    (folder / "00001.parquet").unlink()
    with pytest.raises(UserError, match=r"shard .*00001.parquet is absent"):
        collected(folder, 0)


def test_faults_that_are_left_out_of_training(tmp_path):
    faults = [None, "cut", "repetition", "missing"]
    rows = [
        {"image_id": str(n), "caption": None if fault == "missing" else f"caption {n}", "num_tokens": 2,
         "finish_reason": "stop", "num_attempts": 1, "error": fault}
        for n, fault in enumerate(faults)
    ]  # fmt: skip
    write_table(tmp_path / "00000.parquet", rows, "captions", {FINGERPRINT: "f"})
    shard = {"path": "../00000.parquet", "rows": 4, "sha256": sha256_file(tmp_path / "00000.parquet")}
    write_json(tmp_path / "jobs" / "0.json", {"fingerprint": "f", "shards": [shard]})
    for leave_out, usable in ((FAULTS, [0]), (["repetition"], [0, 1]), ([], [0, 1, 2])):
        collected(tmp_path, 0, leave_out=leave_out)
        table = read_table(tmp_path / "00000.parquet", "captions")
        assert np.flatnonzero(training_faults(table, leave_out).isna()).tolist() == usable
        assert read_run_record(tmp_path / "captions.json")["num_usable"] == len(usable)
