"""The blocks world: pictures, captions and dialled descriptions against an independent count of facts."""

import random
from itertools import product

import numpy as np
import pytest

from workflow_scripts.blocks import world
from workflow_scripts.blocks.world import (
    BACKGROUNDS,
    BRIGHTNESS,
    CELLS,
    COLORS,
    NEW_WORDS,
    SHAPES,
    SIZES,
    Block,
    Description,
    Scene,
    describe,
    detect,
    dial,
    facts,
    held_out,
    parse,
    render,
    sample_scene,
    say,
    tell,
)


def scenes(count: int, seed: int = 0, **how) -> list[Scene]:
    rng = random.Random(seed)
    return [sample_scene(rng, **how) for _ in range(count)]


def test_detector_reads_thousands_of_pictures():
    rng = random.Random("brightness")
    for scene in scenes(3000):
        assert detect(render(scene, rng)) == describe(scene)


class _Constant(random.Random):
    def uniform(self, a, b):
        return self.value


@pytest.mark.parametrize("brightness", BRIGHTNESS)
def test_detector_reads_every_block_at_both_ends_of_brightness(brightness):
    rng = _Constant()
    rng.value = brightness
    for size, color, shape, background in product(SIZES, COLORS, SHAPES, BACKGROUNDS):
        scene = Scene(background, (Block(2, size, color, shape),))
        assert detect(render(scene, rng)) == describe(scene)


def test_detector_reads_noisy_pictures():
    """Generated pictures are never clean: nothing is misread at a noise of 12 grey levels."""
    noise, rng = np.random.default_rng(0), random.Random(1)
    read = 0
    for scene in scenes(300):
        noisy = render(scene, rng) + noise.normal(0, 12, (32, 32, 3))
        read += detect(np.clip(noisy, 0, 255).astype(np.uint8)) == describe(scene)
    assert read >= 297


def test_detector_refuses_other_pictures():
    with pytest.raises(ValueError, match=r"uint8 \(32, 32, 3\), got float64"):
        detect(np.zeros((32, 32, 3)))
    with pytest.raises(ValueError, match=r"\(64, 64, 3\)"):
        detect(np.zeros((64, 64, 3), np.uint8))


def test_captions_are_read_back():
    for scene in scenes(2000):
        full = describe(scene)
        assert parse(say(full)) == full
        assert facts(parse(tell(full))) == facts(full)
        rng = random.Random(say(full))
        worse = dial(full, 0.4, 0.3, rng)
        assert parse(say(worse)) == worse
        assert facts(parse(tell(worse))) == facts(worse)


def test_a_caption_by_hand():
    scene = Scene("black", (Block(0, "large", "red", "circle"), Block(3, "small", "blue", "square")))
    assert say(describe(scene)) == "topleft large red circle bottomright small blue square on black"
    assert parse("Well: TOPLEFT, a red thing; red or blue?") == Description(None, ((0, {"color": "red"}),))
    assert parse("red circle") == Description(None, ())
    assert facts(parse("topleft red on gray")) == {
        (0, "object", "present"),
        (0, "color", "red"),
        (-1, "background", "gray"),
    }


def test_words_of_a_scene():
    old = {value for scene in scenes(500, words="old") for _, _, value in facts(describe(scene))}
    new = {value for scene in scenes(500) for _, _, value in facts(describe(scene))}
    assert not old & NEW_WORDS and new >= NEW_WORDS
    with pytest.raises(ValueError, match="'recent'"):
        sample_scene(random.Random(0), words="recent")


def test_splits_are_disjoint_and_a_fifth_is_held_out():
    train = {say(describe(s)) for s in scenes(3000, split="train", counts=(1, 2))}
    test = {say(describe(s)) for s in scenes(3000, split="test", counts=(1, 2))}
    assert not train & test
    share = np.mean([held_out(scene) for scene in scenes(4000, counts=(3, 4))])
    assert abs(share - 0.2) < 0.025  # 4 standard errors


def test_dial_at_zero_changes_nothing_and_is_reproducible():
    for scene in scenes(300):
        full = describe(scene)
        assert dial(full, 0, 0, random.Random(5)) == full
        image_id = say(full)
        assert dial(full, 0.5, 0.5, random.Random(image_id)) == dial(full, 0.5, 0.5, random.Random(image_id))


@pytest.mark.parametrize(("drop", "falsify"), [(0.0, 0.3), (0.3, 0.0), (0.3, 0.15), (0.6, 0.3), (1.0, 0.0)])
def test_dial_realises_its_probabilities(drop, falsify):
    """Expected shares in closed form: an attribute is mentioned with (1 - drop / 2)(1 - drop), the background with
    1 - drop, and what is mentioned is wrong with `falsify`; an empty cell is filled with falsify / 2."""
    mentioned = wrong = attributes = backgrounds = background_kept = empty = invented = 0
    rng = random.Random(11)
    for scene in scenes(4000):
        full = describe(scene)
        worse = dial(full, drop, falsify, rng)
        truth, said = dict(full.objects), dict(worse.objects)
        attributes += 3 * len(truth)
        backgrounds += 1
        background_kept += worse.background is not None
        empty += len(CELLS) - len(truth)
        invented += len(set(said) - set(truth))
        for cell in set(truth) & set(said):
            mentioned += len(said[cell])
            wrong += sum(truth[cell][name] != value for name, value in said[cell].items())
    assert mentioned / attributes == pytest.approx((1 - drop / 2) * (1 - drop), abs=0.015)
    assert background_kept / backgrounds == pytest.approx(1 - drop, abs=0.03)
    assert invented / empty == pytest.approx(falsify / 2, abs=0.02)
    if mentioned:
        assert wrong / mentioned == pytest.approx(falsify, abs=0.015)


def test_world_needs_no_torch(root):
    """The command that makes a world starts at once."""
    import subprocess
    import sys

    code = "import sys, workflow_scripts.blocks.make_world; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_vocabulary_has_every_word_once():
    assert len(set(world.VOCABULARY)) == len(world.VOCABULARY)
    assert {*CELLS, *COLORS, *SHAPES, *SIZES, *BACKGROUNDS} <= set(world.VOCABULARY)
