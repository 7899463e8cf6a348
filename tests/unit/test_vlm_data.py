"""Samples and their order: what is left out is counted, and what a caption says moves nothing."""

import hashlib
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
import torch
from PIL import Image

from benchmarks.caption_reading import HeldSamples
from workflow_scripts.captions.read import FINGERPRINT
from workflow_scripts.errors import UserError
from workflow_scripts.files import sha256_file, write_json
from workflow_scripts.records import read_table, write_table
from workflow_scripts.vlm.data import (
    CaptionSamples,
    Ordered,
    QuestionSamples,
    Sample,
    Samples,
    in_order,
)


def make_pool(folder: Path, count: int) -> Path:
    """A pool of `count` tiny pictures, id0, id1, ...: images.parquet."""
    rows = []
    for index in range(count):
        path = folder / f"{index}.png"
        Image.new("RGB", (2, 2), (index, 0, 0)).save(path)
        rows.append({"index": index, "image_id": f"id{index}", "source": "s", "path": str(path), "width": 2,
                     "height": 2, "notes": None})  # fmt: skip
    write_table(folder / "images.parquet", rows, "images")
    return folder / "images.parquet"


def save_captions(folder: Path, texts: dict[str, str | None], shard_size: int = 7, row_group: int = 3) -> Path:
    """captions.json of these captions by image, in shards and row groups of odd sizes."""
    rows = [
        {"image_id": image, "caption": text, "num_tokens": 1, "finish_reason": "stop", "num_attempts": 1, "error": None}
        for image, text in texts.items()
    ]
    shards = []
    for start in range(0, len(rows), shard_size):
        path = folder / f"{start:05d}.parquet"
        write_table(path, rows[start : start + shard_size], "captions", {FINGERPRINT: "f"}, row_group)
        shards.append({"path": path.name, "rows": len(rows[start : start + shard_size]), "sha256": sha256_file(path)})
    write_json(folder / "captions.json", {"fingerprint": "f", "leave_out": [], "shards": shards})
    return folder / "captions.json"


def said(count: int) -> dict[str, str]:
    return {f"id{i}": f"caption {i}" for i in range(count)}


def test_captions_of_images_that_are_not_left_out_are_read_from_their_shards(tmp_path):
    pool = make_pool(tmp_path, 20)
    shuffled = dict(random.Random(0).sample(list(said(20).items()), 20))
    captions = save_captions(tmp_path / "captions", {**shuffled, "elsewhere": "x"})
    source = CaptionSamples(pool, captions, {"id3", "id4", "id19"}, "describe")
    kept = [i for i in range(20) if i not in (3, 4, 19)]
    assert [source.sample(n) for n in range(len(source))] == [
        Sample(f"caption:id{i}", (tmp_path / f"{i}.png",), (("describe", f"caption {i}"),)) for i in kept
    ]
    assert [source.key(n) for n in range(len(source))] == [f"caption:id{i}" for i in kept]


@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
def test_workers_read_what_the_main_process_reads(tmp_path, method):
    source = CaptionSamples(make_pool(tmp_path, 20), save_captions(tmp_path / "captions", said(20)), set(), "describe")
    ordered = in_order(Samples(source), 0, 40)
    here = list(ordered)  # the shards are open when the workers start
    loader = torch.utils.data.DataLoader(ordered, 5, num_workers=2, collate_fn=list, multiprocessing_context=method)
    assert [sample for batch in loader for sample in batch] == here


def test_image_marks_in_a_caption_are_no_images(tmp_path):
    captions = save_captions(tmp_path / "captions", {"id0": " <image>\na circle"})
    (sample,) = Samples(CaptionSamples(make_pool(tmp_path, 1), captions, set(), "describe"))
    assert sample.turns == (("describe", "a circle"),)


def test_captions_must_fit_the_pool(tmp_path):
    pool = make_pool(tmp_path, 3)

    def source(texts: dict[str, str | None], left_out: set[str] = frozenset()) -> CaptionSamples:
        return CaptionSamples(pool, save_captions(tmp_path / "captions", texts), left_out, "describe")

    with pytest.raises(UserError, match="1 images of the pool have no caption, first id2"):
        source(said(2))
    with pytest.raises(UserError, match="none of 3 images is left to train on"):
        source(said(3), {"id0", "id1", "id2"})
    with pytest.raises(UserError, match="sample caption:id1: has no caption, and the selection does not leave it out"):
        source({**said(3), "id1": "  "}).sample(1)
    path = save_captions(tmp_path / "twice", said(3), shard_size=3)
    table = read_table(tmp_path / "twice" / "00000.parquet", "captions")
    write_table(tmp_path / "twice" / "00000.parquet", pd.concat([table, table[:1]]), "captions", {FINGERPRINT: "f"})
    with pytest.raises(UserError, match="1 images of the pool have several captions, first id0"):
        CaptionSamples(pool, path, set(), "describe")
    (tmp_path / "1.png").unlink()
    with pytest.raises(UserError, match=r"1 image files are missing, first .*1\.png"):
        source(said(3))


def test_every_captioner_sees_the_same_images_in_the_same_order(tmp_path):
    """Whatever their captions say and however long they are: one image is left out for all of them."""
    pool = make_pool(tmp_path, 40)
    fixed = HeldSamples([Sample(f"conversation:{i}", (), (("q", "a"),)) for i in range(20)])

    def order(name: str, caption: Callable[[int], str], seed: int = 0, left_out: set[str] = frozenset()) -> Ordered:
        texts = {f"id{i}": caption(i) for i in range(40)}
        captioned = CaptionSamples(pool, save_captions(tmp_path / name, texts), left_out, "describe")
        return in_order(Samples(captioned, QuestionSamples(captioned, 0), fixed), seed, 250)

    short = order("short", lambda i: "topleft red circle on black").keys()
    long = order("long", lambda i: f"bottomright large {('red', 'cyan')[i % 2]} cross " * (1 + i % 3)).keys()
    dull = order("dull", lambda i: "nothing that a question asks for")
    assert short == long == dull.keys() == [sample.key for sample in dull]
    assert short != order("seed", lambda i: "topleft red circle on black", seed=1).keys()
    # Each of the first two passes over 40 + 40 + 20 samples holds each sample once, in another order.
    assert set(Counter(short[:100]).values()) == set(Counter(short[100:200]).values()) == {1}
    assert short[:100] != short[100:200]
    # An image that is left out takes its own samples away and moves no other relative to the rest.
    less = order("less", lambda i: "topleft red circle on black", left_out={"id7"}).keys()
    gone = {"caption:id7", "questions:id7"}
    assert less[:98] == [key for key in short[:100] if key not in gone]


def test_the_order_is_that_of_a_sorted_list_of_hashes():
    """As it was before samples were read on demand, so that a stopped sweep can go on."""
    sources = [
        [Sample(f"{kind}:{i}", (), (("q", "a"),)) for i in range(n)] for kind, n in (("a", 50), ("b", 0), ("c", 77))
    ]
    held = [sample for source in sources for sample in source]

    def digest(number: int, sample: Sample) -> bytes:
        return hashlib.sha256(f"3:{number}:{sample.key}".encode()).digest()

    expected = [s for number in range(3) for s in sorted(held, key=lambda s: digest(number, s))][:300]
    samples = Samples(*map(HeldSamples, sources))
    assert list(samples) == held
    assert list(in_order(samples, 3, 300)) == expected


def test_questions_follow_from_the_caption(tmp_path):
    texts = {"id0": "topleft large red circle on gray", "id1": "nothing"}
    captioned = CaptionSamples(make_pool(tmp_path, 2), save_captions(tmp_path / "captions", texts), set(), "?")
    asked, dull = Samples(QuestionSamples(captioned, 0))
    assert (asked.key, asked.images) == ("questions:id0", (tmp_path / "0.png",))
    assert 1 <= len(asked.turns) <= 3
    assert {answer for _, answer in asked.turns} <= {"large", "red", "circle", "gray", "topleft", "1", "yes", "no"}
    assert Samples(QuestionSamples(captioned, 0))[0] == asked
    assert (dull.key, dull.turns) == ("questions:id1", (("?", "nothing"),)), "it answers none and is learnt again"
