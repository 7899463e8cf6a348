"""Data sets of conversations at their real shapes: found, listed with every fault, read by place."""

import json
import logging
import multiprocessing
import pickle
import signal
import subprocess
import sys
import zipfile
from pathlib import Path

import pandas as pd
import pyarrow.parquet
import pytest
from pool_files import animation, photo, write_zip

from workflow_scripts.errors import UserError
from workflow_scripts.files import read_run_record, sha256_file
from workflow_scripts.images import read_bytes
from workflow_scripts.records import read_table
from workflow_scripts.vlm import image_files, index
from workflow_scripts.vlm.conversations import Conversations, find_json
from workflow_scripts.vlm.data import Sample


def turns(*texts: str) -> list[dict]:
    return [{"from": ("human", "gpt")[i % 2], "value": text} for i, text in enumerate(texts)]


def write_json(path: Path, rows: list[dict], lines: bool = False) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(map(json.dumps, rows)) if lines else json.dumps(rows))
    return path


def write_images(folder: Path, images: dict[str, bytes]) -> Path:
    for name, content in images.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


def run_index(data: Path, out: Path, threads: int = 1, **settings) -> Path:
    """Index a data set; the table `conversations`."""
    spec = {"data": {"path": str(data)}, **{key: str(value) for key, value in settings.items()}}
    out.mkdir(parents=True, exist_ok=True)
    index.main(["--spec", json.dumps(spec), "--out", str(out / "index.parquet"), "--threads", str(threads)])
    return out / "index.parquet"


def read_all(listed: Path, data: Path) -> list[Sample]:
    conversations = Conversations(listed, find_json(data))
    samples = [conversations.sample(number) for number in range(len(conversations))]
    assert [sample.key for sample in samples] == [conversations.key(number) for number in range(len(samples))]
    return samples


@pytest.mark.parametrize("lines", [False, True])
def test_turns_and_images_of_every_shape(tmp_path, lines):
    rows = [
        {"id": "a", "image": "é/a.png", "conversations": turns("<image>\nwhat ?", "red", "where ?", "topleft")},
        {"id": 7, "image": "é/a.png", "conversations": turns("what ?\n<image>", "漢 red")},
        {"id": "c", "conversations": turns("hello", "yes")},
        {"image": "é/a.png", "conversations": turns("no mark", "yes")},
        {"id": "e", "image": ["é/a.png", "b.jpg"], "conversations": turns("<image> or <image> ?", "b")},
    ]
    write_json(tmp_path / "data.jsonl" if lines else tmp_path / "data.json", rows, lines)
    write_images(tmp_path / "images", {"é/a.png": photo(1), "b.jpg": photo(2, "JPEG")})
    a, b = (tmp_path / "images" / name for name in ("é/a.png", "b.jpg"))
    listed = run_index(tmp_path, tmp_path / "out")
    assert read_all(listed, tmp_path) == [
        Sample("conversation:0", (a,), (("what ?", "red"), ("where ?", "topleft"))),
        Sample("conversation:1", (a,), (("what ?", "漢 red"),)),
        Sample("conversation:2", (), (("hello", "yes"),)),
        Sample("conversation:3", (a,), (("no mark", "yes"),)),
        Sample("conversation:4", (a, b), (("or  ?", "b"),)),
    ]
    assert read_table(listed, "conversations")["id"].fillna("none").tolist() == ["a", "7", "c", "none", "e"]
    assert read_run_record(listed)["num_images"] == 2
    assert not (tmp_path / "out" / ".partial").exists()


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_the_shape_of_558k_an_array_and_a_zip_beside_it(tmp_path, method):
    """As liuhaotian/LLaVA-Pretrain: images.zip is read in place."""
    images = {f"{n // 3:05d}/{n:09d}.jpg": photo(n, "JPEG") for n in range(9)}
    rows = [
        {"id": name[:-4], "image": name, "conversations": turns("Describe.\n<image>", name)}
        for name in reversed(images)
    ]
    write_json(tmp_path / "blip_laion_cc_sbu_558k.json", rows)
    (tmp_path / "README.md").touch()
    write_zip(tmp_path / "images.zip", images, method)
    before = sorted(tmp_path.iterdir())
    samples = read_all(run_index(tmp_path, tmp_path / "out", threads=2), tmp_path)
    assert [read_bytes(sample.images[0]) for sample in samples] == list(reversed(images.values()))
    assert [sample.turns for sample in samples] == [(("Describe.", name),) for name in reversed(images)]
    assert sorted(tmp_path.iterdir()) == sorted([*before, tmp_path / "out"])


FAULTY = {
    "coco/train2017/1.jpg": photo(1, "JPEG"),
    "gqa/images/cut.jpg": photo(2, "JPEG")[:400],
    "ocr_vqa/images/page.jpg": b"<html>404</html>",
    "ocr_vqa/images/gone.gif": photo(3, "GIF"),
    "ocr_vqa/images/still.jpg": animation("GIF"),
    "textvqa/train_images/wrong.jpg": photo(4, "PNG"),
    "vg/VG_100K/empty.jpg": b"",
}


def mix(folder: Path) -> Path:
    """As llava_v1_5_mix665k.json: images elsewhere, some missing or broken; a sample of text alone in between."""
    names = [*FAULTY, "ocr_vqa/images/gone.jpg"]
    rows = [{"id": name, "image": name, "conversations": turns("<image>\nwhat ?", "it")} for name in names]
    rows[3] = {"id": "text", "model": "", "conversations": turns("hello", "yes")}
    rows.append({"id": "odd", "conversations": turns("hello")})
    rows.append({"id": "marks", "conversations": turns("<image> hello", "yes")})
    rows.append({"id": "both", "image": [names[-1], names[1]], "conversations": turns("<image><image>", "yes")})
    rows.append({"id": "shape", "conversations": [{"from": "human"}]})
    write_json(folder / "llava_v1_5_mix665k.json", rows)
    write_images(folder / "pictures", FAULTY)
    return folder


LISTED = [
    ("conversation:1", "gqa/images/cut.jpg", "truncated"),
    ("conversation:2", "ocr_vqa/images/page.jpg", "not_an_image"),
    ("conversation:6", "vg/VG_100K/empty.jpg", "empty"),
    ("conversation:7", "ocr_vqa/images/gone.jpg", "missing"),
    ("conversation:8", None, "turns"),
    ("conversation:9", None, "marks"),
    ("conversation:10", "ocr_vqa/images/gone.jpg", "missing"),
    ("conversation:10", "gqa/images/cut.jpg", "truncated"),
    ("conversation:11", None, "malformed"),
]


@pytest.mark.parametrize("zipped", [False, True])
def test_faults_are_listed_whole_before_the_job_stops(tmp_path, zipped):
    data, out = mix(tmp_path / "data"), tmp_path / "out"
    images = data / "pictures"
    if zipped:
        images = write_zip(tmp_path / "all.zip", FAULTY)
    with pytest.raises(UserError) as caught:
        run_index(data, out, images=images)
    assert str(caught.value) == (
        f"{data}/llava_v1_5_mix665k.json: 8 of 12 conversations are faulty (2 missing, 1 truncated, 1 not_an_image, "
        f"1 empty, 1 turns, 1 marks, 1 malformed), listed in {out}/left_out.csv. Mend them, or set faulty_samples: "
        "leave_out in the stages with these data"
    )
    assert not (out / "index.parquet").exists()
    rows = read_table(out / "left_out.csv", "faulty_samples")
    for row, (sample, image, reason) in zip(rows.itertuples(), LISTED, strict=True):
        assert (row.sample, row.reason) == (sample, reason)
        assert row.image.endswith(f"/{image}") if image else pd.isna(row.image)
    assert rows["id"].tolist()[-1] == "shape"
    details = dict(zip(rows["sample"], rows["detail"], strict=True))
    assert details["conversation:8"] == "turns are ['human'], expected human and gpt in turn"
    assert zipped or details["conversation:7"] == "but there is gone.gif"


def test_faults_are_left_out_where_that_is_asked(tmp_path, caplog):
    data, out = mix(tmp_path / "data"), tmp_path / "out"
    with caplog.at_level(logging.INFO):
        listed = run_index(data, out, images=data / "pictures", faulty_samples="leave_out")
    assert "8 of 12 conversations are faulty" in caplog.text
    # GIFs, animated ones too, and a PNG that is called .jpg are images as good as any; keys count all rows.
    assert [sample.key for sample in read_all(listed, data)] == [f"conversation:{n}" for n in (0, 3, 4, 5)]
    counts = {"missing": 2, "truncated": 1, "not_an_image": 1, "empty": 1, "turns": 1, "marks": 1, "malformed": 1}
    assert read_run_record(listed)["num_left_out"] == counts
    facts = Conversations(listed, find_json(data)).facts()
    assert facts == {"num_conversations": 4, "num_conversations_left_out": counts}
    assert len(read_table(out / "left_out.csv", "faulty_samples")) == len(LISTED)

    (data / "llava_v1_5_mix665k.json").write_text(json.dumps([{"id": "odd", "conversations": turns("hello")}]))
    with pytest.raises(UserError, match=r"1 of 1 conversations are faulty .* none is left"):
        run_index(data, out, faulty_samples="leave_out")


def test_mended_data_are_checked_where_they_changed(tmp_path, monkeypatch):
    data, out = mix(tmp_path / "data"), tmp_path / "out"
    rows = json.loads((data / "llava_v1_5_mix665k.json").read_text())[:8]
    write_json(data / "llava_v1_5_mix665k.json", rows)
    with pytest.raises(UserError, match="4 of 8 conversations are faulty"):
        run_index(data, out, images=data / "pictures")
    write_images(data / "pictures", {name: photo(9) for name in ("gqa/images/cut.jpg", "ocr_vqa/images/gone.jpg")})
    write_json(data / "llava_v1_5_mix665k.json", [row for row in rows if "page" not in row["id"]])
    checked, fault = [], image_files._fault
    monkeypatch.setattr(image_files, "_fault", lambda path: checked.append(Path(path).name) or fault(path))
    with pytest.raises(UserError, match=r"1 of 7 conversations are faulty \(1 empty\)"):
        run_index(data, out, images=data / "pictures")
    assert sorted(checked) == ["cut.jpg", "gone.jpg"]
    checked.clear()
    run_index(data, out, images=data / "pictures", faulty_samples="leave_out")
    assert checked == [], "the same check goes on without the faulty"
    run_index(data, out, images=data / "pictures", faulty_samples="leave_out")
    assert len(checked) == 6, "nothing is kept of a check that ended well"


KILLED = """
import os, signal, sys
from workflow_scripts.vlm import image_files, index
image_files.CHUNK, fault, calls = 5, image_files._fault, []
def fault_or_die(path):
    calls.append(path)
    if len(calls) == 13:
        os.kill(os.getpid(), signal.SIGKILL)
    return fault(path)
image_files._fault = fault_or_die
index.main(sys.argv[1:])
"""


def test_a_killed_job_goes_on(tmp_path, root, caplog):
    images = {f"{n:03d}.png": photo(n) for n in range(40)}
    write_json(tmp_path / "data.json", [{"image": name, "conversations": turns("what ?", "it")} for name in images])
    write_images(tmp_path / "images", images)
    spec, out = json.dumps({"data": {"path": str(tmp_path)}}), tmp_path / "killed" / "index.parquet"
    died = subprocess.run([sys.executable, "-c", KILLED, "--spec", spec, "--out", out], cwd=root, check=False)
    assert died.returncode == -signal.SIGKILL and not out.exists()
    with caplog.at_level(logging.INFO):
        run_index(tmp_path, out.parent, threads=2)
    assert "40 images to be checked, 10 of them are already" in caplog.text
    assert out.read_bytes() == run_index(tmp_path, tmp_path / "whole").read_bytes()


def test_which_json_and_which_images(tmp_path):
    with pytest.raises(UserError, match="no such folder or file"):
        find_json(tmp_path / "nowhere")
    with pytest.raises(UserError, match="no JSON file"):
        find_json(tmp_path)
    first = write_json(tmp_path / "a.json", [{"image": "x.png", "conversations": turns("what ?", "it")}])
    assert find_json(tmp_path) == find_json(first) == first
    write_json(tmp_path / "b.jsonl", [])
    with pytest.raises(UserError, match=r"2 JSON files \(a\.json, b\.jsonl\): name one of them in data\.path"):
        find_json(tmp_path)
    assert find_json(write_json(tmp_path / "data.json", [])).name == "data.json"
    assert find_json(tmp_path).name == "data.json"

    with pytest.raises(UserError, match=r"image x\.png is named, but there is neither images/ nor images\.zip"):
        run_index(first, tmp_path / "out")
    with pytest.raises(UserError, match=r"images: .*nowhere is no folder and no zip"):
        run_index(first, tmp_path / "out", images=tmp_path / "nowhere")
    (tmp_path / "images.zip").write_bytes(b"PK\x03\x04 cut short")
    with pytest.raises(UserError, match=r"images: .*images\.zip is no whole zip"):
        run_index(first, tmp_path / "out")
    (tmp_path / "images.zip").unlink()
    first.write_text('[{"id": 1}, {"id": ')
    with pytest.raises(UserError, match=r"a\.json: not valid JSON in value 1, at byte 12"):
        run_index(first, tmp_path / "out")


def test_what_no_tokenizer_and_no_file_name_can_hold_is_a_fault(tmp_path):
    rows = [
        {"id": "a \ud800 b", "image": "a.png", "conversations": turns("what ?", "it")},
        {"id": "pair", "conversations": turns("\U0001f600", "\ud83d\ude00")},
        {"id": "human", "conversations": turns("half \ud83d", "yes")},
        {"id": "gpt", "conversations": turns("hello", "a \udc00 circle")},
        {"id": "name", "image": "\ud800.png", "conversations": turns("what ?", "it")},
        {"id": "nul", "image": ["a.png", "a\0.png"], "conversations": turns("<image><image> what ?", "it")},
    ]
    write_json(tmp_path / "data.jsonl", rows, lines=True)
    write_images(tmp_path / "images", {"a.png": photo(1)})
    listed = run_index(tmp_path, tmp_path / "out", faulty_samples="leave_out")
    told = read_table(tmp_path / "out" / "left_out.csv", "faulty_samples")
    assert told[["sample", "reason"]].values.tolist() == [
        ["conversation:2", "not_unicode"],
        ["conversation:3", "not_unicode"],
        ["conversation:4", "not_unicode"],
        ["conversation:5", "image_name"],
    ]
    assert told.detail[1] == r"'\udc00' in a turn or an image's name is no character"
    assert told.detail[3] == r"NUL in ('a.png', 'a\x00.png')"
    assert read_table(listed, "conversations").id[0] == r"a \ud800 b"
    assert [sample.turns for sample in read_all(listed, tmp_path)] == [(("what ?", "it"),), (("😀", "😀"),)]


@pytest.mark.parametrize("content", ["", " \n", "[]", "[ ]\n"])
def test_an_empty_file_stops(tmp_path, content):
    (tmp_path / "data.json").write_text(content)
    with pytest.raises(UserError, match=r"data\.json: there is no conversation in it"):
        run_index(tmp_path, tmp_path / "out", faulty_samples="leave_out")


def test_conversations_without_any_image_are_indexed(tmp_path, caplog):
    write_json(tmp_path / "data.json", [{"id": "a", "conversations": turns("hello", "yes")}])
    with caplog.at_level(logging.INFO):
        listed = run_index(tmp_path, tmp_path / "out")
    assert "0 images to be checked, 0 of them are already" in caplog.text
    assert read_all(listed, tmp_path) == [Sample("conversation:0", (), (("hello", "yes"),))]


def test_a_copy_in_another_process_reads_the_same(tmp_path):
    rows = [{"id": str(n), "conversations": turns(f"question {n}", "yes")} for n in range(50)]
    write_json(tmp_path / "data.json", rows)
    conversations = Conversations(run_index(tmp_path, tmp_path / "out"), tmp_path / "data.json")
    assert len(pickle.dumps(conversations)) < 1000  # places of files, no data
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.map(conversations.sample, range(50)) == [conversations.sample(n) for n in range(50)]


def test_a_file_that_changed_after_its_index_stops(tmp_path):
    file = write_json(tmp_path / "data.json", [{"id": "a", "conversations": turns("what ?", "yes")}])
    listed = run_index(tmp_path, tmp_path / "out")
    assert pyarrow.parquet.read_schema(listed).metadata[b"json_sha256"].decode() == sha256_file(file)
    conversations = Conversations(listed, file)
    file.write_text(file.read_text().replace("human", "robot"))
    with pytest.raises(UserError, match=r"data\.json: changed since .*index\.parquet was made"):
        Conversations(listed, file)
    with pytest.raises(UserError, match=r"sample conversation:0: .*data\.json changed while it was read \(turns"):
        conversations.sample(0)
