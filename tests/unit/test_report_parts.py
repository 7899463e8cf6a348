"""Numbers and pictures of the report."""

import base64
import io

import numpy as np
import pytest
from PIL import Image

from workflow_scripts.errors import UserError
from workflow_scripts.report.gather import _headed
from workflow_scripts.report.images import picture
from workflow_scripts.report.text import bounds, count, duration, fixed, p_value, percent, signed, size

NAN = float("nan")


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (fixed(61.25), "61.2"),
        (fixed(-0.5), "−0.5"),
        (fixed(NAN), "–"),
        (fixed(None), "–"),
        (signed(0.2153), "+0.215"),
        (signed(-0.0349), "−0.035"),
        (signed(NAN), "–"),
        (bounds((-0.101, 0.531)), "[−0.101, +0.531]"),
        (bounds((59.1, 63.04), 1, False), "[59.1, 63.0]"),
        (bounds((NAN, 1.0)), "–"),
        (bounds((None, None)), "–"),
        (p_value(0.0261), "0.026"),
        (p_value(0.0009), "<0.001"),
        (p_value(NAN), "–"),
        (count(14965), "14,965"),
        (count(NAN), "–"),
        (percent(0.9456, 0), "95 %"),
        (percent(0.012), "1.2 %"),
        (duration(8.44), "8.4 s"),
        (duration(200), "3 min 20 s"),
        (duration(7510), "2 h 05 min"),
        (duration(NAN), "–"),
        (size(734.5e6), "734.5 MB"),
        (size(96.2e9), "96.2 GB"),
        (size(NAN), "–"),
    ],
)
def test_numbers(written, expected):
    assert written == expected


def test_summary_lines_keep_names_and_intervals_whole():
    head, rest = _headed("U: coverage -0.08 [-0.15, -0.00] (qwen3-vl-8b), n = 10")
    assert head == "U"
    assert rest == "Coverage −0.08 [−0.15,\u00a0−0.00] (qwen3-vl-8b), n = 10"


def decoded(shown: dict) -> Image.Image:
    return Image.open(io.BytesIO(base64.b64decode(shown["uri"].split(",")[1])))


def test_tiny_pictures_are_kept_exactly(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (32, 32, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "a.png")
    shown = picture(tmp_path / "a.png", 480)
    assert shown["pixel_art"] and (shown["width"], shown["height"]) == (32, 32)
    np.testing.assert_array_equal(np.asarray(decoded(shown)), pixels)


def test_large_pictures_are_scaled_down(tmp_path):
    y, x = np.mgrid[:1000, :2000]
    pixels = np.stack([x % 256, y % 256, (x + y) % 256], axis=2).astype(np.uint8)
    Image.fromarray(pixels).save(tmp_path / "a.png")
    shown = picture(tmp_path / "a.png", 480)
    assert decoded(shown).size == (shown["width"], shown["height"]) == (480, 240)
    assert not shown["pixel_art"] and len(shown["uri"]) < 100_000


def test_transparency_is_white_and_rotation_is_applied(tmp_path):
    Image.new("RGBA", (100, 100), (255, 0, 0, 0)).save(tmp_path / "a.png")
    assert decoded(picture(tmp_path / "a.png", 80)).getpixel((10, 10)) == (255, 255, 255)
    exif = Image.Exif()
    exif[0x0112] = 6  # lies on its side
    Image.new("RGB", (200, 100)).save(tmp_path / "b.jpg", exif=exif)
    shown = picture(tmp_path / "b.jpg", 480)
    assert (shown["width"], shown["height"]) == (100, 200)


def test_broken_picture_is_named(tmp_path):
    (tmp_path / "a.png").write_bytes(b"not a picture")
    with pytest.raises(UserError, match=r"a\.png: cannot be shown in the report"):
        picture(tmp_path / "a.png", 480)
