"""Scores of generated pictures, by hand and against the official rules' goldens."""

import pytest

from workflow_scripts.blocks.prompts import side_of
from workflow_scripts.blocks.scoring import answer_dpg, score_picture
from workflow_scripts.blocks.world import parse
from workflow_scripts.errors import UserError

TWO = {"tag": "two_object", "include": [{"class": "circle", "count": 1}, {"class": "ring", "count": 1}]}
COUNTING = {
    "tag": "counting",
    "include": [{"class": "ring", "count": 2}],
    "exclude": [{"class": "ring", "count": 3}],
}
COLORS = {"tag": "colors", "include": [{"class": "ring", "count": 1, "color": "cyan"}]}
POSITION = {
    "tag": "position",
    "include": [{"class": "circle", "count": 1}, {"class": "ring", "count": 1, "position": ["right of", 0]}],
}


def full(*objects: str) -> str:
    """A caption with every attribute: colour and size do not matter where they are not named."""
    return " ".join(objects) + " on black"


@pytest.mark.parametrize(
    ("row", "picture", "score"),
    [
        (TWO, full("topleft small red circle", "bottomright small red ring"), 1),
        (TWO, full("topleft small red circle", "bottomright small red circle"), 0),
        (COUNTING, full("topleft small red ring", "topright small red ring"), 1),
        (COUNTING, full("topleft small red ring"), 0),
        (COUNTING, full("topleft small red ring", "topright small red ring", "bottomleft small red ring"), 0),
        (COLORS, full("topleft small cyan ring"), 1),
        (COLORS, full("topleft small red ring"), 0),
        # the first ring counts, as the best detection does
        (COLORS, full("topleft small red ring", "topright small cyan ring"), 0),
        (POSITION, full("topleft small red circle", "topright small red ring"), 1),
        (POSITION, full("topleft small red ring", "topright small red circle"), 0),
        (POSITION, full("topleft small red circle", "bottomright small red ring"), 0),
        (POSITION, full("topright small red ring"), 0),
    ],
)
def test_geneval(row, picture, score):
    found, reason = score_picture("blocks_geneval", row, parse(picture))
    assert found == score and bool(reason) == (score == 0)


def test_sides():
    assert side_of(0, 1) == "left of" and side_of(3, 2) == "right of"
    assert side_of(0, 2) == "above" and side_of(3, 1) == "below"
    assert side_of(0, 3) is None and side_of(2, 2) is None


# The questions of the official golden: dependencies {1: [0], 2: [1], 3: [1, 4], 4: [0]} need the parents first.
DPG = {
    "questions": [
        {"proposition_id": 1, "dependency": [0], "question_natural_language": "Is there a ring?"},
        {
            "proposition_id": 2,
            "dependency": [1],
            "question_natural_language": "Is there a ring in the topleft?",
        },
        {"proposition_id": 4, "dependency": [0], "question_natural_language": "Is the background gray?"},
        {
            "proposition_id": 3,
            "dependency": [1, 4],
            "question_natural_language": "Is the ring in the topleft red?",
        },
    ]
}


@pytest.mark.parametrize(
    ("picture", "score"),
    [
        ("topleft small red ring on gray", 1.0),
        ("topleft small blue ring on gray", 0.75),
        ("topleft small red ring on black", 0.5),  # 4 is no, so 3 counts no
        ("topleft small red circle on gray", 0.25),  # 1 is no: 2 and 3 fall with it, as in the golden
        ("topright small red ring on gray", 0.5),
    ],
)
def test_dpg_cascades(picture, score):
    assert score_picture("blocks_dpg", DPG, parse(picture))[0] == score


def test_dpg_refuses_other_questions():
    with pytest.raises(UserError, match="Is there a dog in the sky"):
        answer_dpg("Is there a dog in the sky or not?", parse("topleft red circle"))


def test_compbench_needs_every_phrase_in_one_object():
    row = {"category": "color", "chunks": ["red circle", "blue ring"]}
    right = parse("topleft small red circle topright small blue ring on black")
    swapped = parse("topleft small blue circle topright small red ring on black")
    assert score_picture("blocks_compbench", row, right)[0] == 1
    assert score_picture("blocks_compbench", row, swapped) == (0.0, "no red circle; no blue ring")


def test_an_unknown_benchmark_is_named():
    with pytest.raises(UserError, match="blocks_geneval"):
        score_picture("blocks_genevel", TWO, parse("topleft"))
