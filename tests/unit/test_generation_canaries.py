"""Test pictures pass what sees them and stop what does not."""

import numpy as np
import pytest

from workflow_scripts.benchmarks.generation.canaries import CANARIES, CLOCK, SIGN, require, road, sign_and_clock
from workflow_scripts.benchmarks.generation.roles import MODELS, Detection
from workflow_scripts.errors import UserError

SEEN = [Detection("stop sign", 0.95, SIGN), Detection("clock", 0.9, CLOCK)]
MIRRORED = [Detection("stop sign", 0.95, CLOCK), Detection("clock", 0.9, SIGN)]
DEPTH = np.linspace(0, 1, 50)[:, None] * np.ones(40)

GOOD = {
    ("geneval", "instances"): [SEEN, [*SEEN, Detection("elephant", 0.2, SIGN)]],
    ("geneval", "colors"): [["red"]],
    ("dpg_bench", "answers"): [["yes", "yes", "yes", "no", "no"], ["yes", "yes", "yes", "nothing", "No"]],
    ("t2i_compbench", "attributes"): [[0.9, 0.8, 0.1]],
    ("t2i_compbench", "objects"): [SEEN, [SEEN[0], Detection("wall clock", 0.7, CLOCK)]],
    ("t2i_compbench", "depth"): [DEPTH, 1000 * DEPTH - 3],
    ("t2i_compbench", "similarity"): [[0.31, 0.25, 0.2, 0.1, -0.1, 0.2]],
}
BAD = {
    ("geneval", "instances"): [[], SEEN[:1], MIRRORED, [*SEEN, Detection("elephant", 0.8, SIGN)]],
    ("geneval", "colors"): [["blue"], []],
    ("dpg_bench", "answers"): [["yes"] * 5, ["no"] * 5, ["Yes"] * 3 + ["no"] * 2],
    ("t2i_compbench", "attributes"): [[0.5, 0.5, 0.5], [0.9, 0.9, 0.9], [float("nan"), 0.9, 0.1]],
    ("t2i_compbench", "objects"): [[], SEEN[1:], MIRRORED],
    ("t2i_compbench", "depth"): [DEPTH[::-1], 0 * DEPTH, np.nan * DEPTH, DEPTH.T],
    ("t2i_compbench", "similarity"): [
        [0.3, 0.31, 0.1, 0.1, 0.1, 0.32],
        [0.3, 0.1, 0.2, 0.1, 0.1, 0.1],
        [0.2] * 6,
        [0.3, float("nan"), *[0.1] * 4],
        [0.3, 0.3, float("nan"), *[0.1] * 3],
    ],
}


def _cases(outputs):
    return [(*place, output) for place, some in outputs.items() for output in some]


def test_every_role_has_a_canary():
    roles = {(benchmark, role) for benchmark, some in MODELS.items() for role in some}
    assert (
        {(benchmark, role) for benchmark, some in CANARIES.items() for role in some} == roles == set(GOOD) == set(BAD)
    )


@pytest.mark.parametrize(("benchmark", "role", "output"), _cases(GOOD))
def test_what_sees_the_picture_passes(benchmark, role, output):
    require(benchmark, role, "a model", output)


@pytest.mark.parametrize(("benchmark", "role", "output"), _cases(BAD))
def test_what_does_not_see_the_picture_stops(benchmark, role, output):
    with pytest.raises(UserError, match=f"{benchmark}: the model a model for {role} does not see"):
        require(benchmark, role, "a model", output)


def test_answers_are_as_many_as_questions():
    for benchmark, role in (("dpg_bench", "answers"), ("t2i_compbench", "attributes"), ("t2i_compbench", "similarity")):
        assert len(CANARIES[benchmark][role].asked) == len(GOOD[benchmark, role][0])


def test_the_things_lie_where_the_boxes_say():
    pixels = np.asarray(sign_and_clock()).astype(int)
    red = (pixels[..., 0] > 150) & (pixels[..., 1] < 60)
    rows, columns = np.nonzero(red)
    assert np.abs(np.array([columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]) - SIGN).max() <= 2
    dark = pixels.sum(axis=2) < 30
    rows, columns = np.nonzero(dark)
    assert np.abs(np.array([columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]) - CLOCK).max() <= 2


def test_the_road_narrows_with_distance():
    pixels = np.asarray(road()).astype(int)
    widths = [(np.abs(row - (90, 90, 95)).sum(axis=1) == 0).sum() for row in pixels]
    assert widths[100] == 0 < widths[220] < widths[350] < widths[500]
