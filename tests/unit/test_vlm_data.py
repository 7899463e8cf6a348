"""Samples and their order: what is left out is counted, and what a caption says moves nothing."""

import hashlib
from collections import Counter
from pathlib import Path

import pandas as pd
import pytest
from PIL import Image

from workflow_scripts.errors import UserError
from workflow_scripts.vlm.data import (
    HeldSamples,
    Sample,
    Samples,
    caption_samples,
    in_order,
    question_samples,
)


def make_pool(folder: Path, count: int) -> pd.DataFrame:
    """A pool of `count` tiny pictures."""
    rows = []
    for index in range(count):
        path = folder / f"{index}.png"
        Image.new("RGB", (2, 2), (index, 0, 0)).save(path)
        rows.append(
            {"index": index, "image_id": f"id{index}", "source": "s", "path": str(path), "width": 2, "height": 2}
        )
    return pd.DataFrame(rows)


def captions_of(texts: list[str | None], errors: dict[int, str] | None = None) -> pd.DataFrame:
    """A table `captions` of the images id0, id1, ..."""
    errors = errors or {}
    return pd.DataFrame(
        [
            {"image_id": f"id{i}", "caption": text, "num_tokens": 1, "finish_reason": "stop", "num_attempts": 1,
             "error": errors.get(i)}
            for i, text in enumerate(texts)
        ]
    )  # fmt: skip


def words(texts: list[str]) -> list[int]:
    return [len(text.split()) for text in texts]


def test_unusable_captions_are_left_out_and_counted(tmp_path):
    pool = make_pool(tmp_path, 5)
    captions = captions_of(["topleft red circle", "  ", "a b c d e", None, "on black"], {3: "timeout", 4: "cut"})
    samples, left_out = caption_samples(pool, captions.sample(frac=1, random_state=0), "describe", words, 4)
    assert samples == [Sample("caption:id0", (tmp_path / "0.png",), (("describe", "topleft red circle"),))]
    assert left_out == Counter(empty=1, too_long=1, error=2)


def test_captions_must_fit_the_pool(tmp_path):
    pool = make_pool(tmp_path, 3)
    with pytest.raises(UserError, match="1 images of the pool have no caption, first id2"):
        caption_samples(pool, captions_of(["x", "y"]), "describe", words, 4)
    twice = pd.concat([captions_of(["x", "y", "z"]), captions_of(["x"])])
    with pytest.raises(UserError, match="1 images of the pool have several captions, first id0"):
        caption_samples(pool, twice, "describe", words, 4)
    with pytest.raises(UserError, match="none of 3 is usable"):
        caption_samples(pool, captions_of(["", "", ""]), "describe", words, 4)


def test_every_captioner_sees_the_same_images_in_the_same_order(tmp_path):
    pool = make_pool(tmp_path, 40)
    fixed = [Sample(f"conversation:{i}", (), (("q", "a"),)) for i in range(20)]

    def order(captions: pd.DataFrame, seed: int = 0) -> list[str]:
        captioned, _ = caption_samples(pool, captions, "describe", words, 9)
        sources = (captioned, question_samples(captioned, 0), fixed)
        ordered = in_order(Samples(*map(HeldSamples, sources)), seed, 250)
        assert [sample.key for sample in ordered] == ordered.keys()
        return ordered.keys()

    short = order(captions_of(["topleft red circle on black"] * 40))
    long = order(captions_of([f"bottomright large {c} cross" for c in ("red", "cyan") * 20]))
    assert short == long
    assert short != order(captions_of(["topleft red circle on black"] * 40), seed=1)
    # Each of the first two passes over 40 + 40 + 20 samples holds each sample once, in another order.
    assert set(Counter(short[:100]).values()) == set(Counter(short[100:200]).values()) == {1}
    assert short[:100] != short[100:200]
    # A caption that fails takes its own samples away and moves no other relative to the rest.
    failed = order(captions_of(["topleft red circle on black"] * 40, {7: "timeout"}))
    gone = {"caption:id7", "questions:id7"}
    assert failed[:98] == [key for key in short[:100] if key not in gone]


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
    pool = make_pool(tmp_path, 2)
    captioned, _ = caption_samples(pool, captions_of(["topleft large red circle on gray", "nothing"]), "?", words, 9)
    (asked,) = question_samples(captioned, 0)  # the second caption answers no question
    assert (asked.key, asked.images) == ("questions:id0", (tmp_path / "0.png",))
    assert 1 <= len(asked.turns) <= 3
    assert {answer for _, answer in asked.turns} <= {"large", "red", "circle", "gray", "topleft", "1", "yes", "no"}
    assert question_samples(captioned, 0) == question_samples(captioned, 0)
