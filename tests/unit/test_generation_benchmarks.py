"""The generation benchmarks' prompts, official layouts and figures."""

import json
from collections import Counter

import numpy as np
import pytest

from workflow_scripts.benchmarks.generation import BENCHMARKS, dpg_bench, geneval, t2i_compbench
from workflow_scripts.benchmarks.generation.base import PictureScore, Prompt, read_prompts, score
from workflow_scripts.benchmarks.generation.roles import MODELS
from workflow_scripts.errors import UserError


@pytest.mark.parametrize(("name", "count"), [("geneval", 553), ("dpg_bench", 1065), ("t2i_compbench", 2400)])
def test_real_prompt_files_are_whole(shared_path, name, count):
    benchmark = BENCHMARKS[name]
    prompts = read_prompts(benchmark, shared_path / "data" / name)
    assert len(prompts) == count == benchmark.num_prompts
    assert Counter(prompt.category for prompt in prompts) == benchmark.categories
    assert all(prompt.text == prompt.text.strip() for prompt in prompts)


def test_real_complex_prompts_have_their_kinds(shared_path):
    prompts = read_prompts(t2i_compbench.BENCHMARK, shared_path / "data" / "t2i_compbench")
    kinds = Counter(prompt.facts for prompt in prompts if prompt.category == "complex")
    assert kinds == {"spatial": 58, "action": 212, "spatialaction": 30}


def test_real_geneval_rows_use_what_the_rules_know(shared_path):
    folder = shared_path / "data" / "geneval"
    names = geneval.read_object_names(folder)
    assert (len(names), names[0], names[-1]) == (80, "person", "toothbrush")
    for prompt in read_prompts(geneval.BENCHMARK, folder):
        for clause in prompt.facts["include"] + prompt.facts.get("exclude", []):
            assert clause["class"] in names
            assert clause.get("color", "red") in geneval.COLORS
            assert clause.get("position", ["above", 0])[0] in geneval.RELATIONS


def _layout(name, prompts, images_per_prompt):
    return [str(file.path) for file in BENCHMARKS[name].files(prompts, images_per_prompt)]


def test_official_layouts():
    clauses = {"tag": "colors", "include": [{"class": "cow", "count": 1, "color": "red"}], "prompt": "a red cow"}
    prompts = [Prompt("00000", "a red cow", "colors", clauses), Prompt("00001", "a cow", "colors", clauses)]
    assert _layout("geneval", prompts, 2) == [
        "00000/samples/00000.png", "00000/samples/00001.png", "00001/samples/00000.png", "00001/samples/00001.png",
    ]  # fmt: skip
    ((path, text),) = geneval.notes(prompts[1]).items()
    assert (str(path), json.loads(text)) == ("00001/metadata.jsonl", clauses)
    grid = dpg_bench.files([Prompt("COCO7", "text", "dpg")], 4)
    assert [(str(file.path), file.indexes) for file in grid] == [("COCO7.png", (0, 1, 2, 3))]
    prompts = [Prompt("color_000", "a cow", "color"), Prompt("color_001", "a red cow.", "color")]
    assert _layout("t2i_compbench", [*prompts, Prompt("shape_000", "a box", "shape")], 2) == [
        "color/samples/a cow_000000.png", "color/samples/a cow_000001.png", "color/samples/a red cow._000002.png",
        "color/samples/a red cow._000003.png", "shape/samples/a box_000000.png", "shape/samples/a box_000001.png",
    ]  # fmt: skip


def test_real_prompts_are_file_names(shared_path):
    prompts = read_prompts(t2i_compbench.BENCHMARK, shared_path / "data" / "t2i_compbench")
    files = t2i_compbench.files(prompts, 10)
    assert len({file.path for file in files}) == 24_000
    assert max(len(file.path.name.encode()) for file in files) < 255


def test_layouts_refuse_what_cannot_be_laid_out():
    with pytest.raises(UserError, match="5 pictures a prompt, but the official layout has 4 tiles"):
        dpg_bench.files([Prompt("1", "text", "dpg")], 5)
    with pytest.raises(UserError, match=r"prompt color_000 has a character .*: 'black/white'"):
        t2i_compbench.files([Prompt("color_000", "black/white", "color")], 1)


def test_broken_prompt_files_are_named(tmp_path):
    (tmp_path / "evaluation_metadata.jsonl").write_text('{"tag": "colors", "prompt": "a cow"}\n')
    with pytest.raises(UserError, match=r"evaluation_metadata.jsonl: line 1 has no include"):
        read_prompts(geneval.BENCHMARK, tmp_path)
    with pytest.raises(UserError, match=f"{tmp_path}: no prompts of DPG-Bench"):
        read_prompts(dpg_bench.BENCHMARK, tmp_path)
    with pytest.raises(UserError, match=r"complex_val_spatialaction.txt: cannot be read"):
        read_prompts(t2i_compbench.BENCHMARK, tmp_path)
    (tmp_path / "evaluation_metadata.jsonl").write_text('{"tag": "colours", "prompt": "a cow", "include": []}\n')
    with pytest.raises(UserError, match=r"prompt '00000' is of 'colours', which is none of single_object"):
        read_prompts(geneval.BENCHMARK, tmp_path)


PROMPTS = [Prompt(name, "text", category) for name, category in (("a", "color"), ("b", "color"), ("c", "shape"))]


def _pictures(values):
    places = [(prompt, index) for prompt in PROMPTS for index in range(2)]
    return [
        PictureScore(prompt.id, index, prompt.category, value)
        for (prompt, index), value in zip(places, values, strict=True)
    ]


def _rows(values, **changes):
    settings = {"images_per_prompt": 2, "mode": "official", "harness": "made up", "same_models": True} | changes
    return score(t2i_compbench.BENCHMARK, PROMPTS, pictures=_pictures(values), **settings)


def test_headline_is_the_plain_mean_of_categories_with_errors_clustered_by_prompt():
    rows = _rows([1.0, 0.5, 0.25, 0.25, 0.0, 0.8])
    assert [(row["variant"], row["metric"]) for row in rows] == [
        (None, "mean of eight categories"), ("color", "mean"), ("shape", "mean"),
    ]  # fmt: skip
    assert [row["raw"] for row in rows] == pytest.approx([(0.5 + 0.4) / 2, 0.5, 0.4])
    assert [row["score"] for row in rows] == pytest.approx([45, 50, 40])
    # prompts a and b lie 0.25 above and below the mean of their category; c is its category
    residuals = np.array([2 * 0.25 / 4, -2 * 0.25 / 4, 0.0])
    assert rows[0]["std_error"] == pytest.approx(100 * np.sqrt(3 / 2 * ((residuals / 2) ** 2).sum()))
    assert rows[1]["std_error"] == pytest.approx(100 * np.std([0.75, 0.25], ddof=1) / np.sqrt(2))
    assert rows[2]["std_error"] is None
    assert [row["num_items"] for row in rows] == [6, 4, 2]


def test_scores_of_a_part_are_not_comparable():
    assert not _rows([0.5] * 6)[0]["comparable"]
    prompts = [Prompt(str(n), "text", tag) for tag, count in geneval.BENCHMARK.categories.items() for n in range(count)]
    prompts = [Prompt(f"{number:05d}", "text", prompt.category) for number, prompt in enumerate(prompts)]
    for images, mode, same_models, comparable in (
        (4, "official", True, True),
        (3, "official", True, False),
        (4, "official", False, False),
        (4, "fixed", True, False),
    ):
        pictures = [PictureScore(p.id, index, p.category, 1.0) for p in prompts for index in range(images)]
        rows = score(geneval.BENCHMARK, prompts, images, pictures, mode, "made up", same_models)
        assert {row["comparable"] for row in rows} == {comparable}
        assert rows[0]["raw"] == 1 and rows[0]["harness"] == f"{mode} rules, made up"


def test_dropped_pictures_are_counted_and_left_out():
    rows = _rows([None, None, 0.25, 0.75, 1.0, 1.0])
    assert [(row["raw"], row["num_items"], row["num_unparsed"]) for row in rows] == [
        (0.75, 6, 2), (0.5, 4, 2), (1.0, 2, 0),
    ]  # fmt: skip
    with pytest.raises(UserError, match="no picture of category 'shape' has a score"):
        _rows([1.0, 1.0, 1.0, 1.0, None, None])


def test_missing_unknown_and_double_pictures_stop():
    pictures, settings = _pictures([0.5] * 6), (2, "official", "made up", True)

    def score_of(some):
        images_per_prompt, *others = settings
        return score(t2i_compbench.BENCHMARK, PROMPTS, images_per_prompt, some, *others)

    with pytest.raises(UserError, match="1 of 6 pictures have no score, the first is picture 1 of prompt 'c'"):
        score_of(pictures[:-1])
    with pytest.raises(UserError, match="picture 0 of prompt 'a' is scored 2 times"):
        score_of([*pictures, pictures[0]])
    with pytest.raises(UserError, match="picture 2 of prompt 'a' was not asked for"):
        score_of([*pictures, PictureScore("a", 2, "color", 1.0)])
    with pytest.raises(UserError, match="picture 1 of prompt 'c': its score is nan"):
        score_of([*pictures[:-1], PictureScore("c", 1, "shape", float("nan"))])
    with pytest.raises(UserError, match="picture 1 of prompt 'c' is of 'color', its prompt of 'shape'"):
        score_of([*pictures[:-1], PictureScore("c", 1, "color", 1.0)])


def test_the_authors_models_come_first():
    """But for UniDet: its authors ask two of its models, here one sees all."""
    assert set(MODELS) == set(BENCHMARKS)
    for role, ways in (item for roles in MODELS.values() for item in roles.items()):
        official = [bool(way.official) for way in ways.values()]
        assert official == [role != "objects"] + [False] * (len(ways) - 1)
