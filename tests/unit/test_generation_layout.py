"""Pictures in the authors' folders."""

import json

import pytest
from PIL import Image

from workflow_scripts.benchmarks.generation import BENCHMARKS
from workflow_scripts.benchmarks.generation.base import Prompt
from workflow_scripts.benchmarks.generation.layout import lay_out
from workflow_scripts.errors import UserError


def _pictures(folder, prompts, count):
    made = {}
    for number, prompt in enumerate(prompts):
        for index in range(count):
            made[prompt.id, index] = folder / f"{number}-{index}.png"
            Image.new("RGB", (4, 4), (number, index, 9)).save(made[prompt.id, index])
    return made


def _files(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_pictures_lie_as_the_authors_read_them(tmp_path):
    row = {"tag": "colors", "include": [], "prompt": "a cow"}
    prompts = [Prompt("00000", "a cow", "colors", row), Prompt("00001", "a cow", "colors", row)]
    pictures = _pictures(tmp_path, prompts, 2)
    lay_out(BENCHMARKS["geneval"], prompts, 2, pictures, tmp_path / "out")
    assert _files(tmp_path / "out") == [
        f"{prompt}/{name}"
        for prompt in ("00000", "00001")
        for name in ("metadata.jsonl", "samples/00000.png", "samples/00001.png")
    ]
    assert json.loads((tmp_path / "out/00001/metadata.jsonl").read_text()) == row
    laid = tmp_path / "out/00001/samples/00000.png"
    assert laid.read_bytes() == pictures["00001", 0].read_bytes()
    assert laid.stat().st_ino == pictures["00001", 0].stat().st_ino  # the same file under a second name
    lay_out(BENCHMARKS["geneval"], prompts, 2, pictures, tmp_path / "out")  # again


def test_dpg_pictures_are_tiles(tmp_path):
    prompts = [Prompt("COCO1", "a cow", "dpg")]
    lay_out(BENCHMARKS["dpg_bench"], prompts, 4, _pictures(tmp_path, prompts, 4), tmp_path / "out")
    assert _files(tmp_path / "out") == ["COCO1.png"]
    with Image.open(tmp_path / "out/COCO1.png") as grid:
        assert grid.size == (8, 8)
        assert [grid.getpixel(place)[1] for place in ((0, 0), (7, 0), (0, 7), (7, 7))] == [0, 1, 2, 3]


def test_a_missing_picture_stops_before_anything_is_written(tmp_path):
    prompts = [Prompt("color_000", "a cow", "color"), Prompt("color_001", "a cup", "color")]
    pictures = _pictures(tmp_path, prompts, 1)
    pictures["color_001", 0].unlink()
    with pytest.raises(UserError, match="picture 0 of prompt 'color_001' is missing"):
        lay_out(BENCHMARKS["t2i_compbench"], prompts, 1, pictures, tmp_path / "out")
    assert not (tmp_path / "out").exists()
