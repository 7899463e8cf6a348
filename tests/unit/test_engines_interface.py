"""Where images stand in a prompt."""

import pytest
from PIL import Image

from workflow_scripts.engines.interface import Request
from workflow_scripts.spec import Sampling

FIRST, SECOND = Image.new("RGB", (1, 1)), Image.new("RGB", (2, 2))


@pytest.mark.parametrize(
    ("text", "images", "expected"),
    [
        ("what is it", (FIRST,), [FIRST, "what is it"]),
        ("what is it", (FIRST, SECOND), [FIRST, SECOND, "what is it"]),
        ("<image>\nwhat is it\nA. one", (FIRST,), [FIRST, "what is it\nA. one"]),
        ("is <image> like <image>?", (FIRST, SECOND), ["is ", FIRST, " like ", SECOND, "?"]),
        ("look:\n<image><image>", (FIRST, SECOND), ["look:", FIRST, SECOND]),
        ("<image>\nlike\n<image>\nor not\n", (FIRST, SECOND), [FIRST, "like\n", SECOND, "\nor not"]),
        ("", (FIRST,), [FIRST]),
        ("a caption that says <image>", (), ["a caption that says <image>"]),
    ],
)
def test_images_stand_at_their_marks(text, images, expected):
    assert Request(0, text, 1, Sampling(), images=images).parts() == expected


def test_marks_and_images_must_agree():
    with pytest.raises(ValueError, match="zip"):
        Request(0, "<image> and <image>", 1, Sampling(), images=(FIRST,)).parts()
