"""The shipped text-to-image bases: small, sound, and short of the new words."""

import random

import numpy as np
import pytest

from workflow_scripts.blocks.build_t2i_bases import hide_new, share_right
from workflow_scripts.blocks.world import NEW_WORDS, describe, detect, facts, sample_scene, say
from workflow_scripts.spec import Source
from workflow_scripts.t2i.families import FAMILIES, Family

MAX_TEXT_TOKENS = {"sd3": 1, "qwen-image": 64}


@pytest.fixture(scope="module", params=list(FAMILIES))
def family(request, root) -> Family:
    folder = root / "resources" / "blocks" / request.param
    return FAMILIES[request.param].load(Source(path=folder), MAX_TEXT_TOKENS[request.param])


def test_bases_are_small(root):
    files = [p for name in FAMILIES for p in (root / "resources" / "blocks" / name).rglob("*") if p.is_file()]
    assert sum(path.stat().st_size for path in files) <= 4.7e6


def test_bases_know_the_old_words(family):
    assert share_right(family, "old") > 0.88


def test_bases_know_the_new_words_far_less(family):
    """The encoders know them, the transformer never read them: captions have something to teach."""
    rng = random.Random(0)
    asked = [describe(sample_scene(rng, split="test")) for _ in range(80)]
    made = family.make([say(d) for d in asked], list(range(80)), 32, 12, 1.0)
    right: dict[bool, list[bool]] = {False: [], True: []}
    for description, image in zip(asked, made, strict=True):
        shown = facts(detect(np.asarray(image)))
        for fact in facts(description):
            if fact[1] in ("color", "shape"):
                right[fact[2] in NEW_WORDS].append(fact in shown)
    assert np.mean(right[False]) - np.mean(right[True]) > 0.25


def test_base_captions_say_no_new_word():
    rng = random.Random(0)
    captions = [say(hide_new(describe(sample_scene(rng)))) for _ in range(200)]
    assert not NEW_WORDS & set(" ".join(captions).split())
    assert "large" in " ".join(captions)
