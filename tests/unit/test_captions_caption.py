"""Caption jobs: shards, kill -9 at any moment, resuming, refusing."""

import random
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

from workflow_scripts.blocks.world import render, sample_scene
from workflow_scripts.captions import caption, collect, work
from workflow_scripts.captions.read import read_captions
from workflow_scripts.engines import exact
from workflow_scripts.errors import NotInThisVersion, UserError
from workflow_scripts.files import read_json, sha256_file
from workflow_scripts.plan import CaptionJob, PoolJob
from workflow_scripts.pool import build
from workflow_scripts.records import read_table
from workflow_scripts.spec import Sampling

ROOT = Path(__file__).resolve().parents[2]
NUM_IMAGES, SHARD_SIZE, CHUNK = 50, 20, 8  # shards of 20, 20 and 10; chunks of 8, 8, 4 | 8, 8, 4 | 8, 2


def exact_job(**changes):
    settings = {
        "engine": "exact", "model": None, "prompt": "describe", "sampling": Sampling(), "max_new_tokens": 24,
        "max_model_len": 128, "max_pixels": None, "chat_template_kwargs": {}, "remote_code": None, "replay": None,
        "dial": {"drop": 0.4, "falsify": 0.2}, "shard_size": SHARD_SIZE,
    }  # fmt: skip
    return CaptionJob(**{**settings, **changes})


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


@pytest.fixture
def count_captioned(monkeypatch):
    """How many images the engine is asked for."""
    counted, original = [], exact.Engine.caption

    def counting(self, pictures):
        counted.append(len(pictures))
        return original(self, pictures)

    monkeypatch.setattr(exact.Engine, "caption", counting)
    return counted


def test_shards_are_the_pool_in_its_order(pool, uninterrupted):
    images = read_table(pool, "images")
    shards = [read_table(uninterrupted / f"{shard:05d}.parquet", "captions") for shard in range(3)]
    assert [len(shard) for shard in shards] == [20, 20, 10]
    assert [i for shard in shards for i in shard["image_id"]] == images["image_id"].tolist()
    manifest = read_json(uninterrupted / "jobs" / "0.json")
    assert [shard["rows"] for shard in manifest["shards"]] == [20, 20, 10]
    for shard in manifest["shards"]:
        assert sha256_file(uninterrupted / "jobs" / shard["path"]) == shard["sha256"]


# Which call dies: of the engine (a chunk's rows are not there yet), or of the rename that gives a file its name
# (its bytes are all there). Renames 1-3 are shard 0's chunks, 4 is shard 0, 12 the run record, 13 the manifest.
MOMENTS = [("engine", 1), ("engine", 2), ("engine", 5), *(("rename", call) for call in range(1, 14))]
FATAL = """
import os, signal, sys
from workflow_scripts.captions import caption, work
from workflow_scripts.engines import exact
work.CHUNK = {chunk}
for moment, call, arguments in {cases!r}:
    if os.fork():
        status = os.wait()[1]
        assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL, (moment, call, status)
        continue
    place, name = {{"engine": (exact.Engine, "caption"), "rename": (os, "replace")}}[moment]
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
    subprocess.run([sys.executable, "-c", FATAL.format(chunk=CHUNK, cases=cases)], cwd=ROOT, check=True)
    return folders


@pytest.mark.parametrize("moment", MOMENTS)
def test_kill_9_costs_at_most_one_chunk(pool, uninterrupted, killed, count_captioned, moment):
    folder, (kind, call) = killed[moment], moment
    assert not (folder / "jobs" / "0.json").exists()
    chunks_done = call - 1 if kind == "engine" else call - 1 - sum(call > shard_rename for shard_rename in (4, 8, 11))
    caption.main(arguments(pool, folder, exact_job()))
    assert sum(count_captioned) == NUM_IMAGES - sum([8, 8, 4, 8, 8, 4, 8, 2][:chunks_done])
    for name in ("00000.parquet", "00001.parquet", "00002.parquet", "jobs/0.json"):
        assert sha256_file(folder / name) == sha256_file(uninterrupted / name)
    assert not list(folder.glob(".partial/*/*"))


def test_finished_shards_are_kept_and_others_redone(pool, tmp_path, count_captioned):
    folder = tmp_path / "dial"
    caption.main(arguments(pool, folder, exact_job(), "0:2"))
    assert sum(count_captioned) == 40
    caption.main(arguments(pool, folder, exact_job(), "0:3"))
    assert sum(count_captioned) == 50
    caption.main(arguments(pool, folder, exact_job(dial={"drop": 0, "falsify": 0}), "0:3"))
    assert sum(count_captioned) == 100
    text = read_table(folder / "00000.parquet", "captions")["caption"]
    assert all(" on " in line for line in text)  # nothing is dropped


def test_captions_do_not_depend_on_shards_or_chunks(pool, uninterrupted, tmp_path, monkeypatch):
    monkeypatch.setattr(work, "CHUNK", 3)
    caption.main(arguments(pool, tmp_path / "dial", exact_job(shard_size=50), "0:1"))
    whole = read_table(tmp_path / "dial" / "00000.parquet", "captions")
    parts = [read_table(uninterrupted / f"{shard:05d}.parquet", "captions") for shard in range(3)]
    assert whole["caption"].tolist() == [line for part in parts for line in part["caption"]]


def test_later_versions_and_mistakes_stop_before_the_pool_is_read(tmp_path):
    nowhere = tmp_path / "no-pool.parquet"
    vllm = exact_job(engine="vllm", dial=None, model={"path": str(tmp_path)})
    with pytest.raises(NotInThisVersion, match=r"captioners.qwen.engine: 'vllm' is not in this version"):
        caption.main(arguments(nowhere, tmp_path / "qwen", vllm))
    remote = exact_job(engine="transformers", dial=None, model={"path": str(tmp_path)}, remote_code="0" * 40)
    with pytest.raises(NotInThisVersion, match=r"captioners.llava.remote_code"):
        caption.main(arguments(nowhere, tmp_path / "llava", remote))
    absent = exact_job(engine="transformers", dial=None, model={"path": str(tmp_path / "gone")})
    with pytest.raises(UserError, match=r"captioners.llava.model.path: no such folder .*gone"):
        caption.main(arguments(nowhere, tmp_path / "llava", absent))


@pytest.mark.parametrize("shards", ["0", "2:2", "0:4", "a:b", "-1:2", "3:2"])
def test_shards_that_the_pool_does_not_have(shards):
    with pytest.raises(UserError, match=r"within the pool's 3 shards \(0:3\)"):
        caption.shard_rows(shards, NUM_IMAGES, SHARD_SIZE)


def test_a_vanished_image_stops_and_a_broken_one_is_a_row(pool, tmp_path):
    images = read_table(pool, "images")
    picture = exact.Picture(images["image_id"][0], str(tmp_path / "gone.png"))
    engine = exact.Engine(exact_job(), [])
    with pytest.raises(UserError, match=r"gone.png: no such file \(image"):
        engine.caption([picture])
    (tmp_path / "gone.png").write_bytes(b"not a picture")
    sound = exact.Picture(images["image_id"][1], images["path"][1])
    broken, fine = engine.caption([picture, sound])
    assert broken.text is None and broken.error.startswith("unreadable image: UnidentifiedImageError")
    assert fine.error is None and fine.text
    Image.new("RGB", (10, 10)).save(tmp_path / "gone.png")
    with pytest.raises(UserError, match="reads blocks pictures only"):
        engine.caption([picture])


def collected(folder, *jobs):
    collect.main([
        "--jobs", *(str(folder / "jobs" / f"{job}.json") for job in jobs), "--captioner", "dial",
        "--out", str(folder / "captions.json"), "--statistics", str(folder / "statistics.csv"),
    ])  # fmt: skip


def test_collected_jobs_are_the_whole_pool(pool, uninterrupted, tmp_path):
    folder = tmp_path / "dial"
    caption.main(arguments(pool, folder, exact_job(), "2:3"))
    caption.main(arguments(pool, folder, exact_job(), "0:2"))
    collected(folder, 2, 0)
    captions = read_captions(folder / "captions.json")
    assert captions["image_id"].tolist() == read_table(pool, "images")["image_id"].tolist()
    statistics = read_table(folder / "statistics.csv", "caption_statistics").iloc[0]
    sound = captions[captions["error"].isna()]
    lengths = sound["caption"].str.split().str.len()
    assert statistics["num_images"] == 50 and statistics["num_usable"] == len(sound)
    assert statistics["words_mean"] == pytest.approx(lengths.mean())
    assert statistics["words_p95"] == pytest.approx(lengths.quantile(0.95))
    assert statistics["tokens_mean"] == pytest.approx(lengths.mean())  # a word is a token in this world
    assert statistics["distinct_words"] == len(set(" ".join(sound["caption"]).split()))


def test_jobs_that_do_not_belong_together(pool, tmp_path):
    folder = tmp_path / "dial"
    caption.main(arguments(pool, folder, exact_job(), "0:2"))
    caption.main(arguments(pool, folder, exact_job(dial={"drop": 0, "falsify": 0}), "2:3"))
    with pytest.raises(UserError, match="made from different settings or pools"):
        collected(folder, 0, 2)
    with pytest.raises(UserError, match="belongs to another job too"):
        collected(folder, 0, 0)
    caption.main(arguments(pool, folder, exact_job(dial={"drop": 0, "falsify": 0}), "1:2"))
    with pytest.raises(UserError, match=r"shard .*00001.parquet was made from \w{16}, expected one made from"):
        collected(folder, 0, 2)
    (folder / "00001.parquet").unlink()
    with pytest.raises(UserError, match=r"shard .*00001.parquet is absent"):
        collected(folder, 0)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", 0), ("a b c", 0), ("a b c d", 0), ("a b c d e a b c d", 1 / 6), ("x " * 103, 99 / 100)],
)
def test_repetition_counts_windows_of_four_words(text, expected):
    assert collect.repetition(text.split()) == pytest.approx(expected)
