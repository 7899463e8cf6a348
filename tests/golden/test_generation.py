"""Every rule of the generation benchmarks against the authors' programs on the same model outputs."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.golden import make_generation as made
from workflow_scripts.benchmarks.generation import (
    compbench_attributes,
    compbench_numeracy,
    compbench_scorer,
    compbench_spatial,
    dpg_bench,
    geneval,
)
from workflow_scripts.benchmarks.generation.base import Picture, Prompt, score
from workflow_scripts.benchmarks.generation.boxes import iou
from workflow_scripts.benchmarks.generation.compbench_parsing import plain_parser
from workflow_scripts.benchmarks.generation.roles import Detection

GOLDEN = json.loads((Path(__file__).parent / "generation.json").read_text())


def _detections(case: made.Case) -> list[Detection]:
    return [Detection(*found) for found in case.found]


def test_geneval_relations_and_overlaps():
    pairs = made.geneval_boxes()
    assert ["+".join(sorted(geneval.relations(a, b))) for a, b in pairs] == GOLDEN["relations"]
    assert [iou(a, b, border=1) for a, b in pairs] == pytest.approx(GOLDEN["iou"], rel=1e-12)


class ToldInstances:
    """Stands in for GenEval's two models: says of each picture what the golden case says."""

    def __init__(self) -> None:
        self.found: dict[int, list[Detection]] = {}
        self.color_of: dict[Detection, str] = {}

    def detect(self, pictures):
        return [self.found[picture.width] for picture in pictures]

    def colors(self, objects):
        return [self.color_of[thing] for _, thing in objects]


def test_geneval_pictures_and_headline():
    prompts, shown, told = [], [], ToldInstances()
    for number, case in enumerate(made.geneval()):
        (row, colors), detections = case.extra, _detections(case)
        prompts.append(Prompt(f"{number:05d}", row["prompt"], row["tag"], row))
        shown.append(Picture(prompts[-1], 0, Image.new("L", (number + 1, 1))))
        told.found[number + 1] = detections
        told.color_of |= dict(zip(detections, colors, strict=True))
    models = {"instances": told, "colors": told}
    pictures = geneval.scorer(Path(), prompts, models, "official")(shown)
    assert "".join(str(int(picture.score)) for picture in pictures) == GOLDEN["geneval_right"]
    assert all((picture.score == 1) == (picture.reason == "") for picture in pictures)
    headline = score(geneval.BENCHMARK, prompts, 1, pictures, "official", "made up", same_models=True)[0]
    assert headline["raw"] == pytest.approx(GOLDEN["geneval"], abs=5e-6)  # the authors print five decimals


def test_dpg_items_categories_and_headline(tmp_path, caplog):
    answers = made.dpg(tmp_path)
    questions = dpg_bench.read_questions(tmp_path / "dpg_bench.csv", "official")
    assert "does not read question 1 of item0" in caplog.text
    prompts = [Prompt(item, "a text", "dpg") for item in answers]
    pictures = [
        picture
        for prompt in prompts
        for picture in dpg_bench.score_item(prompt, questions[prompt.id], answers[prompt.id], "official")
    ]
    assert sorted({picture.prompt_id for picture in pictures if picture.score is None}) == GOLDEN["dpg_dropped"]
    headline = score(dpg_bench.BENCHMARK, prompts, 4, pictures, "official", "made up", same_models=True)[0]
    assert headline["score"] == pytest.approx(GOLDEN["dpg"], rel=1e-12)
    assert headline["num_unparsed"] == 4
    categories = dpg_bench.category_scores(questions, answers, pictures, "official")
    assert {name: 100 * share for name, (share, _) in categories.items()} == pytest.approx(GOLDEN["dpg_categories"])


def test_compbench_attributes():
    found = [compbench_attributes.score(probabilities, "official") for probabilities in made.blip()]
    assert found == GOLDEN["blip"]


@pytest.mark.parametrize("name", ["spatial", "complex_spatial"])
def test_compbench_2d(name):
    found = []
    for case in getattr(made, name)():
        parse = plain_parser(case.prompt)
        objects = parse.outer_nouns if name == "spatial" else parse.related
        found.append(compbench_spatial.score_2d(case.prompt, objects, _detections(case), "official"))
    assert found == pytest.approx(GOLDEN[name], rel=1e-12)
    assert len(set(found)) > 10


def test_compbench_3d():
    found = [
        compbench_spatial.score_3d(
            case.prompt, plain_parser(case.prompt).outer_nouns, _detections(case), case.extra, "official"
        )
        for case in made.spatial_3d()
    ]
    assert found == pytest.approx(GOLDEN["spatial_3d"], rel=1e-12)


def test_compbench_numeracy():
    cases = made.numeracy()
    plurals = compbench_numeracy.vocabulary(case.prompt for case in cases)
    found = [
        compbench_numeracy.score(compbench_numeracy.wanted(case.prompt, plurals), _detections(case), "official")
        for case in cases
    ]
    assert found == pytest.approx(GOLDEN["numeracy"], rel=1e-12)


def test_compbench_three_in_one():
    found = [compbench_scorer.three_in_one(*case) for case in made.complex_scores()]
    assert found == pytest.approx(GOLDEN["three_in_one"], rel=1e-12)
    assert np.ptp(found) > 0.5
