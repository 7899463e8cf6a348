"""Real captions in: ten published caption sets and CAPEval's human captions."""

import json

import pandas as pd
import pyarrow.parquet
import pytest
from engine_helpers import ask, caption_job, engine_job

from workflow_scripts.capeval import caption as capeval_caption
from workflow_scripts.captions import caption, collect
from workflow_scripts.captions.read import count_faults
from workflow_scripts.engines import open_engine
from workflow_scripts.engines.interface import Answer, Picture, Request
from workflow_scripts.errors import UserError
from workflow_scripts.files import read_run_record, write_json
from workflow_scripts.plan import ServingJob
from workflow_scripts.records import read_table, write_table
from workflow_scripts.spec import Sampling

ALL_WARN = dict.fromkeys(("on_missing", "on_empty", "on_duplicate", "on_unknown"), "warn")
SETS = [
    f"Instruction{n}_{model}.json" for n in (1, 2) for model in ("instructblip", "llava", "minigpt-4", "mmgpt", "mplug")
]


def replay_job(file, image_key="image", caption_key="caption", shard_size=700, **faults):
    replay = {"file": str(file), "image_key": image_key, "caption_key": caption_key, **faults}
    return caption_job(engine_job("replay", replay=replay), shard_size=shard_size, attempts=2)


def open_replay(*given, **named):
    job, pictures = replay_job(*given[:-1], **named), given[-1]
    return open_engine(job.engine, ServingJob(), pictures)


def captions_in(engine, pictures):
    return ask(engine, [Request(n, "", 1, Sampling(), picture=picture) for n, picture in enumerate(pictures)])


def pictures(*names):
    return [Picture(f"id-{name}", f"data/{name}") for name in names]


def captions_of(tmp_path, content, names, **replay):
    write_json(tmp_path / "captions.json", content)
    engine = open_replay(tmp_path / "captions.json", pictures(*names), **replay)
    return captions_in(engine, pictures(*names)), engine.facts["replay"]


def test_sound_captions_pass_without_a_word(tmp_path, caplog):
    found, facts = captions_of(tmp_path, {"b.jpg": "two", "a": "one"}, ["a.jpg", "b.jpg"])
    assert found == [Answer("one"), Answer("two")]
    assert facts == {"file_rows": 2, "ambiguous": 0, "unknown": 0, "duplicate": 0, "empty": 0, "missing": 0}
    assert not caplog.records


FAULTY = [
    {"image": "a.jpg", "caption": "one"}, {"image": "a", "caption": "again"}, {"image": "b.jpg", "caption": " \n"},
    {"image": "gone.jpg", "caption": "x"}, {"image": "gone too.jpg", "caption": "y"},
]  # fmt: skip
NAMES = ["a.jpg", "b.jpg", "c.jpg", "d.jpg"]
COUNTS = {"file_rows": 5, "ambiguous": 0, "unknown": 2, "duplicate": 1, "empty": 1, "missing": 2}
MESSAGES = {
    "on_missing": r"2 of 4 images without a caption: data/c.jpg, data/d.jpg",
    "on_empty": r"1 of 5 captions without a word: b.jpg \(row 3\)",
    "on_duplicate": r"1 of 5 more captions of images that have one already: a \(row 2\)",
    "on_unknown": r"2 of 5 captions of images that are not here: gone.jpg \(row 4\), gone too.jpg \(row 5\)",
}


def test_faults_are_counted_and_warned_of(tmp_path, caplog):
    found, facts = captions_of(tmp_path, FAULTY, NAMES, **ALL_WARN)
    assert found == [Answer("one"), Answer(" \n"), Answer(None, error="missing"), Answer(None, error="missing")]
    assert facts == COUNTS
    assert len(caplog.records) == 4


@pytest.mark.parametrize("key", MESSAGES)
def test_a_fault_stops_where_the_config_says_so(tmp_path, key):
    with pytest.raises(UserError, match=MESSAGES[key]) as raised:
        captions_of(tmp_path, FAULTY, NAMES, **{**ALL_WARN, key: "error"})
    assert str(raised.value).count("\n") == 1  # the others are warnings
    with pytest.raises(UserError) as raised:
        captions_of(tmp_path, FAULTY, NAMES, **dict.fromkeys(ALL_WARN, "error"))
    assert str(raised.value).count("\n") == 4  # all at once


def test_an_ambiguous_key_always_stops(tmp_path):
    with pytest.raises(UserError, match=r"1 of 2 keys that name several images \(give their paths\): a \(key 'a'\)"):
        captions_of(tmp_path, {"a": "one", "b": "two"}, ["a.jpg", "a.png", "b.png"], **ALL_WARN)


def test_keys_that_fit_nothing_stop_with_examples_of_both_sides(tmp_path):
    with pytest.raises(
        UserError, match=r"none of its 1 captions belongs to one of the 1 images; .* z \(key 'z'\), .* data/a.jpg"
    ):
        captions_of(tmp_path, {"z": "one"}, ["a.jpg"], **ALL_WARN)


def test_failed_rows_reach_the_tables_and_their_counts(tmp_path):
    write_json(tmp_path / "captions.json", FAULTY)
    rows = [
        {"index": n, "image_id": p.image_id, "source": "s", "path": p.path, "width": 1, "height": 1, "notes": None}
        for n, p in enumerate(pictures(*NAMES))
    ]
    write_table(tmp_path / "pool.parquet", rows, "images")
    folder = tmp_path / "captions" / "human"
    job = replay_job(tmp_path / "captions.json", shard_size=3, **ALL_WARN)
    words = [
        "--spec", job.model_dump_json(), "--pool", str(tmp_path / "pool.parquet"), "--shards", "0:2",
        "--out-dir", str(folder), "--out", str(folder / "jobs" / "0.json"),
    ]  # fmt: skip
    caption.main(words)
    record = read_run_record(folder / "jobs" / "0.json")
    assert record["replay"] == COUNTS
    assert (record["num_images"], record["num_errors"], record["num_asked_again"]) == (4, 3, 0)
    assert record["errors"] == {"empty": 1, "missing": 2}
    collect.main([
        "--spec", '{"captioner": "human", "leave_out": ["empty"]}', "--jobs", str(folder / "jobs" / "0.json"),
        "--out", str(folder / "captions.json"),
    ])  # fmt: skip
    shards = [read_table(folder / name, "captions") for name in ("00000.parquet", "00001.parquet")]
    table = pd.concat(shards, ignore_index=True)
    assert table["error"].fillna("").tolist() == ["", "empty", "missing", "missing"]
    assert table["image_id"].tolist() == [p.image_id for p in pictures(*NAMES)]
    assert count_faults(table) == {"empty": 1, "failed": 2}
    # The file was edited since: its shards are not kept.
    write_json(tmp_path / "captions.json", [{"image": "a.jpg", "caption": "another"}])
    caption.main(words)
    assert read_table(folder / "00000.parquet", "captions")["caption"][0] == "another"


@pytest.fixture(scope="module")
def coco_pool(shared_path):
    """The 2,000 images that the sets describe, named as COCO names them, in another order; ids from one set."""
    rows = [json.loads(line) for line in (shared_path / "data" / "pope_captions" / SETS[0]).read_text().splitlines()]
    numbers = sorted(row["image_id"] for row in rows)
    return [Picture(f"{number:064x}", f"coco/val2014/COCO_val2014_{number:012d}.jpg") for number in numbers]


@pytest.mark.parametrize("name", SETS)
def test_ten_published_caption_sets(shared_path, coco_pool, name):
    path = shared_path / "data" / "pope_captions" / name
    engine = open_replay(path, "image_id", "text", coco_pool)
    assert engine.facts["replay"] == {
        "file_rows": 2000, "ambiguous": 0, "unknown": 0, "duplicate": 0, "empty": 0, "missing": 0
    }  # fmt: skip
    found = {int(p.image_id, 16): c.text for p, c in zip(coco_pool, captions_in(engine, coco_pool), strict=True)}
    text = path.read_text()
    rows = (
        json.loads("[" + text.replace("\n}\n{", "\n},\n{") + "]")  # objects spread over lines
        if text.startswith("{\n")
        else [json.loads(line) for line in text.splitlines()]
    )
    assert found == {row["image_id"]: row["text"] for row in rows}


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (
            ("image", "text"),
            r"2000 of 2000 rows lack a key; the first is row 1 without 'image', did you mean 'image_id'",
        ),
        (("image_id", "caption"), r"2000 of 2000 rows lack a key; the first is row 1 without 'caption'"),
        (("image_id", "prompt"), r"the caption in row 1 \(image 40468\) is a list, expected text"),
        (("question_id", "text"), r"images without a caption: coco/val2014/COCO_val2014"),
    ],
)
def test_wrong_keys_of_a_published_set(shared_path, coco_pool, keys, message):
    with pytest.raises(UserError, match=message):
        open_replay(shared_path / "data" / "pope_captions" / "Instruction1_mplug.json", *keys, coco_pool)


def test_pope_asks_about_other_images(shared_path, coco_pool):
    """POPE's own 500 images are not the 2,000 captioned ones: 17 are, and the rest is counted as missing."""
    lines = (shared_path / "data" / "pope_captions" / "coco_pope_random.jsonl").read_text().splitlines()
    asked = [Picture(name, f"coco/{name}") for name in sorted({json.loads(line)["image"] for line in lines})]
    path = shared_path / "data" / "pope_captions" / SETS[1]
    with pytest.raises(UserError, match="483 of 500 images without a caption"):
        open_replay(path, "image_id", "text", asked)
    facts = open_replay(path, "image_id", "text", asked, on_missing="warn").facts["replay"]
    assert (facts["missing"], facts["unknown"]) == (483, 1983)


def test_human_captions_of_capeval(shared_path, tmp_path):
    """All 300, though three pictures are absent here: existing captions need no pictures."""
    data, out = shared_path / "data" / "capeval", tmp_path / "human" / "captions.parquet"
    job = replay_job(data / "gt_caption.jsonl", "img_path", "gt_caption", shard_size=None)
    capeval_caption.main(["--spec", job.model_dump_json(), "--data", str(data), "--out", str(out)])
    table = read_table(out, "captions")
    expected = [json.loads(line) for line in (data / "gt_caption.jsonl").read_text().splitlines()]
    assert dict(zip(table["image_id"], table["caption"], strict=True)) == {
        r["img_path"]: r["gt_caption"] for r in expected
    }
    assert len(table) == 300 and table["error"].isna().all()
    assert read_run_record(out)["num_images"] == 300
    assert [path.name for path in out.parent.rglob("*.parquet")] == ["captions.parquet"]  # no chunk is left
    assert pyarrow.parquet.read_schema(out).names == list(table.columns)
