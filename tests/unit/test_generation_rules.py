"""The generation benchmarks' rules against values known in closed form; the authors' own figures are in
tests/golden/test_generation.py."""

import numpy as np
import pytest
from PIL import Image

from workflow_scripts.benchmarks.generation import compbench_attributes as attributes
from workflow_scripts.benchmarks.generation import compbench_numeracy as numeracy
from workflow_scripts.benchmarks.generation import compbench_scorer, geneval
from workflow_scripts.benchmarks.generation import compbench_spatial as spatial
from workflow_scripts.benchmarks.generation.base import MODES, Prompt
from workflow_scripts.benchmarks.generation.boxes import iou
from workflow_scripts.benchmarks.generation.dpg_bench import (
    MissingParent,
    Question,
    category_scores,
    credited,
    read_questions,
    score_item,
    tiled,
)
from workflow_scripts.benchmarks.generation.roles import Detection
from workflow_scripts.errors import UserError


@pytest.fixture
def prompt():
    return Prompt("item7", "a text", "dpg")


# GenEval


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ((0, 0, 100, 100), (40, 0, 140, 100), set()),
        ((0, 0, 100, 100), (41, 0, 141, 100), {"left of"}),
        ((0, 0, 100, 100), (100, 100, 200, 200), {"above", "left of"}),
        ((0, 0, 100, 100), (300, 200, 400, 300), {"left of"}),
        ((100, 100, 200, 200), (0, 0, 100, 100), {"below", "right of"}),
        ((5, 5, 9, 9), (5, 5, 9, 9), set()),
    ],
)
def test_geneval_relations(a, b, expected):
    assert geneval.relations(a, b) == expected


def test_overlap_with_and_without_the_last_pixel():
    assert iou((0, 0, 9, 9), (5, 0, 14, 9), border=1) == pytest.approx(1 / 3)
    assert iou((0, 0, 10, 10), (5, 0, 15, 10)) == pytest.approx(1 / 3)
    assert iou((0, 0, 0, 0), (0, 0, 0, 0)) == 0


def _cow(score=0.9, box=(0, 0, 10, 10), label="cow"):
    return Detection(label, score, box)


def test_geneval_keeps_confident_detections_best_first():
    cows = [_cow(0.3), _cow(0.31), _cow(0.95), *(_cow(0.5) for _ in range(20))]
    kept = geneval.keep(cows, "colors")["cow"]
    assert len(kept) == 16 and kept[0].score == 0.95
    assert [cow.score for cow in geneval.keep(cows, "counting")["cow"]] == [0.95]


def test_geneval_colours_only_the_first_objects():
    row = {"include": [{"class": "cow", "count": 1, "color": "red"}]}
    first, second = _cow(0.9), _cow(0.8)
    kept = geneval.keep([second, first], "colors")
    assert geneval.to_color(row, kept) == [first]
    assert geneval.judge(row, kept, {first: "red"}) == (True, "")
    assert geneval.judge(row, kept, {first: "blue"}) == (False, "cow blue, expected red")
    row["include"][0]["count"] = 3
    assert geneval.to_color(row, kept) == []
    assert geneval.judge(row, kept, {}) == (False, "2 cow, expected 3")


def test_geneval_position_and_exclusion():
    row = {"include": [{"class": "cow", "count": 1}, {"class": "cup", "count": 1, "position": ["left of", 0]}]}
    cow, cup = _cow(box=(200, 0, 300, 100)), _cow(box=(0, 0, 100, 100), label="cup")
    assert geneval.judge(row, {"cow": [cow], "cup": [cup]}, {}) == (True, "")
    assert geneval.judge(row, {"cow": [cup], "cup": [cow]}, {}) == (False, "cup not left of its target")
    assert geneval.judge(row, {"cup": [cup]}, {})[1] == "0 cow, expected 1; nothing for cup to be left of"
    row = {"include": [{"class": "cow", "count": 2}], "exclude": [{"class": "cow", "count": 3}]}
    assert geneval.judge(row, {"cow": [cow] * 2}, {})[0]
    assert geneval.judge(row, {"cow": [cow] * 3}, {}) == (False, "3 cow, expected fewer than 3")


# DPG-Bench


def _questions(parents):
    return [Question(number, tuple(ids), f"{number}?", "entity - whole") for number, ids in parents.items()]


FOUR = _questions({1: [0], 2: [1], 3: [1, 4], 4: [0]})


def _answers(letters):
    return {number: {"Y": "yes", "N": "no"}[letter] for number, letter in enumerate(letters, 1)}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("tiles", "expected"), [(["NYYY"] * 4, 0.25), (["YYYN", "YYYY", "NYYY", "YNNY"], 0.5625), (["YYYY"], 1.0)]
)
def test_dpg_questions_whose_parents_count_0_count_0(prompt, mode, tiles, expected):
    scores = score_item(prompt, FOUR, [_answers(letters) for letters in tiles], mode)
    assert np.mean([picture.score for picture in scores]) == expected


def test_dpg_child_before_its_chain_keeps_its_point_officially():
    chain = _questions({1: [0], 2: [3], 3: [4], 4: [0]})
    assert sum(credited(chain, _answers("YYYN"), "official").values()) / 4 == 0.5
    assert sum(credited(chain, _answers("YYYN"), "fixed").values()) / 4 == 0.25


def test_dpg_only_yes_counts():
    assert credited(_questions({1: [0], 2: [0]}), {1: "Yes", 2: "yes"}, "fixed") == {1: 0, 2: 1}


def test_dpg_missing_parent_is_named(prompt):
    orphan = _questions({2: [1], 3: [0]})
    for mode in MODES:
        with pytest.raises(MissingParent, match="question 2 depends on question 1, which is missing"):
            credited(orphan, {2: "yes", 3: "yes"}, mode)
    answers = [{2: "yes", 3: "yes"}] * 4
    dropped = score_item(prompt, orphan, answers, "official")
    assert [(picture.index, picture.score) for picture in dropped] == [(n, None) for n in range(4)]
    assert dropped[0].reason == "question 2 depends on question 1, which is missing"
    with pytest.raises(UserError, match="item 'item7': question 2 depends on question 1"):
        score_item(prompt, orphan, answers, "fixed")
    assert score_item(prompt, [], answers, "official")[0].score is None


def test_dpg_official_does_not_see_a_missing_parent_behind_one_that_counts_0():
    questions = _questions({2: [3, 1], 3: [0]})
    assert credited(questions, {3: "no", 2: "yes"}, "official") == {2: 0, 3: 0}
    with pytest.raises(MissingParent):
        credited(questions, {3: "no", 2: "yes"}, "fixed")


HEADER = "item_id,text,keywords,proposition_id,dependency,category_broad,category_detailed,tuple,"


def _table(folder, *rows):
    path = folder / "dpg_bench.csv"
    lines = [HEADER + "question_natural_language"] + [
        f"{i},t,k,{q},{d},b,c,attribute - color (x),{i} {q}?" for i, q, d in rows
    ]
    path.write_text("\n".join(lines) + "\n")
    return path


def test_dpg_questions_are_read(tmp_path, caplog):
    path = _table(tmp_path, ("a", 1, 0), ("a", 2, '"1, 3"'), ("a", 3, 0), ("b", 1, 0), ("a", 4, 0))
    fixed = read_questions(path, "fixed")
    assert [(question.id, question.parents) for question in fixed["a"]] == [
        (1, (0,)),
        (2, (1, 3)),
        (3, (0,)),
        (4, (0,)),
    ]
    assert (fixed["b"][0].category, fixed["b"][0].broad_category) == ("attribute - color", "attribute")
    assert not caplog.messages
    official = read_questions(path, "official")
    assert [question.id for question in official["a"]] == [4]
    assert "does not read question 1 of a" in caplog.messages[0]
    assert "drops the questions of a before row 6" in caplog.messages[1]


def test_dpg_broken_questions_are_named(tmp_path):
    with pytest.raises(UserError, match=r"row 3: proposition_id '2', dependency 'x': not whole numbers"):
        read_questions(_table(tmp_path, ("a", 1, 0), ("a", 2, "x")), "official")
    with pytest.raises(UserError, match=r"row 3: a has a question 1 already"):
        read_questions(_table(tmp_path, ("a", 1, 0), ("a", 1, 0)), "fixed")
    (tmp_path / "dpg_bench.csv").write_text("item_id,tuple\n")
    with pytest.raises(UserError, match="no column dependency, proposition_id, question_natural_language"):
        read_questions(tmp_path / "dpg_bench.csv", "fixed")


def test_dpg_categories_take_the_last_tile_officially(prompt):
    answers = [_answers("YYYY"), _answers("YYYY"), _answers("YYYY"), _answers("NNYY")]
    pictures = score_item(prompt, FOUR, answers, "fixed")
    both = [category_scores({"item7": FOUR}, {"item7": answers}, pictures, mode) for mode in MODES]
    assert both == [
        {"entity": (0.5, 4), "entity - whole": (0.5, 4)}, {"entity": (14 / 16, 16), "entity - whole": (14 / 16, 16)},
    ]  # fmt: skip


def test_dpg_tiles_stand_row_by_row():
    grid = tiled([Image.new("RGB", (2, 2), color) for color in ("red", "lime", "blue", "white")])
    corners = [grid.getpixel(place) for place in ((0, 0), (3, 0), (0, 3), (3, 3))]
    assert corners == [(255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 255)]


# T2I-CompBench++


@pytest.mark.parametrize(
    ("phrase", "a", "b", "official", "fixed"),
    [
        ("on the left of", (0, 0, 100, 100), (50, 0, 150, 100), 0.3, 0.3),
        ("near", (0, 0, 10, 10), (300, 300, 310, 310), 0.5, 0.5),
        ("near", (0, 0, 10, 10), (300, 100, 310, 110), 1.0, 1.0),
        ("on the top of", (0, 0, 100, 100), (0, 150, 100, 250), 1.0, 1.0),
        ("on top of", (0, 0, 100, 100), (0, 150, 100, 250), 0.0, 1.0),
        ("on the right of", (0, 0, 100, 100), (0, 150, 100, 250), 0.0, 0.0),
        ("on the bottom of", (0, 150, 100, 250), (0, 0, 100, 100), 1.0, 1.0),
        ("beneath", (0, 150, 100, 250), (0, 0, 100, 100), 0.0, 0.0),
    ],
)
def test_compbench_2d_positions(phrase, a, b, official, fixed):
    for mode, expected in (("official", official), ("fixed", fixed)):
        relation = spatial.relation_2d(f"a cup {phrase} a table", mode)
        assert spatial.position_2d(relation, a, b) == pytest.approx(expected)


def test_compbench_real_complex_prompts_that_say_on_top_of(shared_path):
    lines = [
        (shared_path / "data" / "t2i_compbench" / f"complex_val_{kind}.txt").read_text().splitlines()
        for kind in ("spatial", "spatialaction")
    ]
    missed = [
        text for text in (*lines[0], *lines[1]) if "on top of" in text and not spatial.relation_2d(text, "official")
    ]
    assert len(missed) == 33


def test_compbench_2d_scores():
    left, right = Detection("cow", 0.8, (0, 0, 100, 100)), Detection("cup", 0.6, (200, 0, 300, 100))
    text, objects = "a cow on the left of a cup", ("cow", "cup")
    assert spatial.score_2d(text, objects, [left, right], "official") == pytest.approx(0.2 + 0.15 + 0.5)
    mirrored = [Detection("cow", 0.8, right.box), Detection("cup", 0.6, left.box)]
    assert spatial.score_2d(text, objects, mirrored, "official") == 0.0  # 0.35 is below one half
    assert spatial.score_2d(text, objects, [left], "official") == 0.0
    assert spatial.score_2d(text, None, [left, right], "official") == 0.0


def test_compbench_2d_fixed_finds_objects_by_their_labels_parts():
    table, cup = (
        Detection("dining table", 1.0, (0, 150, 100, 250)),
        Detection("measuring cup, cup", 1.0, (0, 0, 100, 100)),
    )
    text = "a cup on the top of a table"
    assert spatial.score_2d(text, ("cup", "table"), [cup, table], "official") == 0.0
    assert spatial.score_2d(text, ("cup", "table"), [cup, table], "fixed") == 1.0


def test_compbench_two_persons_are_two_boxes_when_fixed():
    persons = [Detection("person", 1.0, (0, 0, 100, 100)), Detection("person", 1.0, (200, 0, 300, 100))]
    text, objects = "a boy on the left of a girl", ("boy", "girl")
    assert spatial.score_2d(text, objects, persons, "official") == pytest.approx(0.5)
    assert spatial.score_2d(text, objects, persons, "fixed") == pytest.approx(1.0)
    assert spatial.score_2d(text, objects, persons[:1], "fixed") == 0.0


def test_compbench_3d_positions():
    a, b = (0, 0, 100, 50), (0, 0, 100, 100)  # the upper half of B: half of it is shared
    depth = np.zeros((100, 100))
    depth[:50] = 1.0  # the upper half is nearer
    assert spatial.position_3d("front", a, b, depth, "fixed") == 1.0
    assert spatial.position_3d("behind", a, b, depth, "fixed") == 0.0
    assert spatial.position_3d("behind", b, a, depth, "fixed") == 1.0
    assert spatial.position_3d("front", a, b, depth.T, "official") == 0.0  # by half exactly: officially nothing
    wider = (0, 0, 100, 60)
    assert spatial.position_3d("front", wider, b, depth.T, "official") == 1.0  # x and y exchanged
    assert spatial.position_3d("front", wider, b, depth, "official") == 0.0
    narrow = (0, 0, 100, 25)
    assert [spatial.position_3d("front", narrow, b, d, m) for d, m in ((depth, "fixed"), (depth.T, "official"))] == [
        pytest.approx(0.5), pytest.approx(0.5),
    ]  # fmt: skip
    assert spatial.position_3d("front", (0, 0, 0, 0), b, depth, "fixed") == 0.0
    assert spatial.position_3d(None, a, b, depth, "fixed") == 0.0


def test_compbench_3d_objects():
    cars = [Detection(label, score, (0, 0, 9, 9)) for label, score in (("carrot", 0.9), ("car", 0.8), ("cow", 0.4))]
    depth = np.zeros((10, 10))
    assert spatial.score_3d("a car behind a cow", ("car", "cow"), cars, depth, "official") == pytest.approx(0.3)
    assert spatial.score_3d("a car behind a dog", ("car", "dog"), cars, depth, "official") == pytest.approx(0.225)
    assert spatial.score_3d("a car behind a dog", ("car", "dog"), cars, depth, "fixed") == pytest.approx(0.2)


def _things(**counts):
    boxes = [(200 * n, 0, 200 * n + 100, 100) for n in range(sum(counts.values()))]
    labels = [label.replace("_", " ") for label, count in counts.items() for _ in range(count)]
    return [Detection(label, 0.9, box) for label, box in zip(labels, boxes, strict=True)]


@pytest.mark.parametrize("mode", MODES)
def test_compbench_numeracy_gives_half_for_being_there_and_half_for_the_count(mode):
    objects = [("cow", 2), ("cup", 1)]
    assert numeracy.score(objects, _things(cow=2, cup=1), mode) == 1.0
    assert numeracy.score(objects, _things(cow=3, cup=1), mode) == 0.75
    assert numeracy.score(objects, _things(cow=3), mode) == 0.25
    assert numeracy.score(objects, [], mode) == 0.0


@pytest.mark.parametrize("mode", MODES)
def test_compbench_numeracy_counts_duplicates_once(mode):
    big = Detection("cow", 0.9, (0, 0, 99, 99))
    inside, moved = Detection("cow", 0.8, (0, 0, 49, 49)), Detection("cow", 0.7, (12, 0, 111, 99))
    assert numeracy.score([("cow", 1)], [big, inside], mode) == 1.0
    assert numeracy.score([("cow", 2)], [big, moved], mode) == 1.0  # 88 of 100 columns shared
    assert numeracy.score([("cow", 1)], [big, Detection("ox", 0.8, big.box)], mode) == 1.0


def test_compbench_numeracy_names():
    assert numeracy.score([("ship", 2), ("painting", 1)], _things(boat=2, picture=1), "official") == 1.0
    assert numeracy.score([("pen", 1)], _things(pencil=1), "official") == 1.0
    assert numeracy.score([("pen", 1)], _things(pencil=1), "fixed") == 0.0
    assert numeracy.score([("television", 1)], _things(tv=1), "official") == 0.0
    assert numeracy.score([("television", 1)], _things(tv=1), "fixed") == 1.0
    persons = [("man", 2), ("woman", 3)]
    assert numeracy.score(persons, _things(person=5), "official") == 0.5
    assert numeracy.score(persons, _things(person=5), "fixed") == 1.0
    with pytest.raises(ValueError, match="names no object"):
        numeracy.score([], [], "official")


def test_compbench_numeracy_reads_prompts():
    texts = ["three tomatoes and one knife", "two knives", "a mouse, two people and six butterflies", "four mice"]
    plurals = numeracy.vocabulary(texts)
    assert plurals == {
        "tomatoes": "tomato",
        "knives": "knife",
        "people": "person",
        "butterflies": "butterfly",
        "mice": "mouse",
    }
    assert [numeracy.wanted(text, plurals) for text in texts] == [
        [("tomato", 3), ("knife", 1)], [("knife", 2)], [("mouse", 1), ("person", 2), ("butterfly", 6)], [("mouse", 4)],
    ]  # fmt: skip
    assert numeracy.wanted("four mice shared a burger", plurals) == [("mouse", 4)]


def test_compbench_every_real_numeracy_prompt_wants_something(shared_path):
    texts = (shared_path / "data" / "t2i_compbench" / "numeracy_val.txt").read_text().splitlines()
    plurals = numeracy.vocabulary(texts)
    assert len(plurals) == 88 and all(numeracy.wanted(text, plurals) for text in texts)


def test_compbench_attribute_questions_and_products():
    chunks = ["a red cow", "the left", "The top", *(f"cup {n}" for n in range(9))]
    assert attributes.questions(chunks, "official") == ["a red cow?", "The top?", *(f"cup {n}?" for n in range(6))]
    assert attributes.questions(chunks, "fixed") == ["a red cow?", *(f"cup {n}?" for n in range(9))]
    assert attributes.score([0.123456, 0.5], "official") == 0.0617
    assert attributes.score([0.123456, 0.5], "fixed") == pytest.approx(0.061728)
    assert attributes.score([], "official") == 1.0
    with pytest.raises(UserError, match="without a noun chunk"):
        attributes.score([], "fixed")


def test_compbench_three_in_one():
    assert compbench_scorer.three_in_one("spatial", 0.2, 0.6, 0.3) == pytest.approx(0.4)
    assert compbench_scorer.three_in_one("action", 0.2, 0.6, 0.3) == pytest.approx(0.25)
    assert compbench_scorer.three_in_one("spatialaction", 0.2, 0.7, 0.3) == pytest.approx(0.4)
