"""The files of a blocks world against the shapes of the real assets, and against the pictures themselves."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from workflow_scripts.blocks.make_world import main, sha256_tree
from workflow_scripts.blocks.prompts import COMPBENCH_CATEGORIES, GENERATION_BENCHMARKS, GENEVAL_TAGS
from workflow_scripts.blocks.scoring import score_picture
from workflow_scripts.blocks.understanding import UNDERSTANDING_BENCHMARKS
from workflow_scripts.blocks.world import CELLS, NEW_WORDS, VOCABULARY, detect, facts, parse, say
from workflow_scripts.errors import UserError
from workflow_scripts.files import read_json, read_jsonl

SPEC = {
    "seed": 3,
    "pool_images": 120,
    "capeval_images": 24,
    "align_conversations": 40,
    "instruct_conversations": 60,
    "understanding_questions": 30,
    "generation_prompts": 24,
}


def make(folder: Path, **changes) -> Path:
    spec = json.dumps({**SPEC, **changes})
    main(["--spec", spec, "--out", str(folder / "world"), "--manifest", str(folder / "world.json")])
    return folder / "world"


@pytest.fixture(scope="module")
def world(tmp_path_factory) -> Path:
    return make(tmp_path_factory.mktemp("made"))


def seen(path: Path):
    return detect(np.asarray(Image.open(path)))


def test_same_spec_same_bytes_another_seed_others(world, tmp_path):
    manifest = read_json(world.with_name("world.json"))
    assert manifest["sha256"] == sha256_tree(make(tmp_path))[1] == sha256_tree(world)[1]
    assert manifest["num_files"] == len([path for path in world.rglob("*") if path.is_file()])
    assert sha256_tree(make(tmp_path, seed=4))[1] != manifest["sha256"]


def test_size_of_one_part_leaves_the_others_scenes(world, tmp_path):
    larger = make(tmp_path, pool_images=150)
    for place in ("pool/images/000007.png", "capeval/image/TW002.png"):
        assert facts(seen(world / place)) == facts(seen(larger / place))


def test_train_and_test_pictures_do_not_coincide(world):
    train = [p for part in ("pool", "align", "instruct") for p in (world / part / "images").iterdir()]
    test = [*(world / "capeval/image").iterdir(), *world.glob("understanding/*/images/*.png")]
    assert len(train) == 220 and len(test) == 24 + 30 * len(UNDERSTANDING_BENCHMARKS)
    assert len({path.read_bytes() for path in train + test}) == len(train) + len(test)
    assert not {say(seen(path)) for path in train} & {say(seen(path)) for path in test}


@pytest.mark.parametrize("name", ["checklist.jsonl", "gt_caption.jsonl"])
def test_capeval_rows_have_the_real_keys_and_types(world, shared_path, name):
    real = read_jsonl(shared_path / "data/capeval" / name)[0]
    for row in read_jsonl(world / "capeval" / name):
        assert list(row) == list(real)
        assert [type(value) for value in row.values()] == [type(value) for value in real.values()]
        for key in row:
            if key.endswith("_checklist"):
                assert all(list(item) == ["Tags", "Question"] for item in row[key])
                assert all(item["Question"].startswith("Does the caption ") for item in row[key])


def test_capeval_table_has_the_real_columns_and_joins(world, shared_path):
    with (shared_path / "data/capeval/images.csv").open(newline="") as file:
        real = next(csv.reader(file))
    with (world / "capeval/images.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == real
    checklists = read_jsonl(world / "capeval/checklist.jsonl")
    assert [row["img_path"] for row in rows] == [row["img_path"] for row in checklists]
    assert {row["img_path"] for row in rows} == {path.name for path in (world / "capeval/image").iterdir()}
    for row in rows:
        assert row["img_path"].startswith(row["category_abbr"]) and row["category_abbr"].isalpha()


def test_capeval_human_captions_are_complete_and_items_count_the_facts(world):
    checklists = {row["img_path"]: row for row in read_jsonl(world / "capeval/checklist.jsonl")}
    for row in read_jsonl(world / "capeval/gt_caption.jsonl"):
        truth = facts(seen(world / "capeval/image" / row["img_path"]))
        assert facts(parse(row["gt_caption"])) == truth
        items = [
            item for key, part in checklists[row["img_path"]].items() if key.endswith("checklist") for item in part
        ]
        assert len(items) == len(truth)


@pytest.mark.parametrize(("part", "count"), [("align", 40), ("instruct", 60)])
def test_conversations_have_llavas_shape_and_old_words_only(world, part, count):
    rows = read_json(world / part / "data.json")
    assert len(rows) == count
    for row in rows:
        assert list(row) == ["id", "image", "conversations"]
        assert (world / part / "images" / row["image"]).is_file()
        turns = row["conversations"]
        assert [turn["from"] for turn in turns] == ["human", "gpt"] * (len(turns) // 2)
        assert turns[0]["value"].startswith("<image>\n")
        assert sum(turn["value"].count("<image>") for turn in turns) == 1
        words = {word for turn in turns for word in turn["value"].split()}
        assert words <= set(VOCABULARY) and not words & NEW_WORDS
    lengths = {len(row["conversations"]) for row in rows}
    assert lengths == ({2} if part == "align" else {2, 8})


@pytest.mark.parametrize("benchmark", UNDERSTANDING_BENCHMARKS)
def test_questions_are_true_of_their_pictures(world, benchmark):
    folder = world / "understanding" / benchmark
    rows = read_jsonl(folder / "questions.jsonl")
    assert len(rows) == 30 and len({row["id"] for row in rows}) == 30
    for row in rows:
        assert list(row) == ["id", "image", "question", "options", "answer", "kind", "group"]
        picture = seen(folder / "images" / row["image"])
        objects = dict(picture.objects)
        words = row["question"].split()
        if row["kind"] in ("color", "shape", "size"):
            assert row["answer"] == objects[CELLS.index(words[2])][words[1]]
        elif row["kind"] == "background":
            assert row["answer"] == picture.background
        elif row["kind"] == "count":
            assert row["answer"] == str(len(objects))
        elif row["kind"] in ("existence", "position"):
            found = [CELLS[cell] for cell, values in objects.items() if values["shape"] == words[-1]]
            assert row["answer"] == (found[0] if row["kind"] == "position" else "yes" if found else "no")
        if row["options"] is not None:
            assert row["answer"] in row["options"] and len(set(row["options"])) == len(row["options"])


def test_benchmarks_have_their_forms(world):
    rows = {name: read_jsonl(world / f"understanding/{name}/questions.jsonl") for name in UNDERSTANDING_BENCHMARKS}
    assert [row["answer"] for row in rows["blocks_pope"]].count("yes") == 15
    assert {len(row["options"]) for row in rows["blocks_choice"]} == {2, 4}
    pairs = rows["blocks_pairs"]
    for first, second in zip(pairs[::2], pairs[1::2], strict=True):
        assert first["group"] == second["group"] and first["question"] == second["question"]
        assert first["answer"] != second["answer"] and first["options"] == second["options"]
        places = [world / "understanding/blocks_pairs/images" / row["image"] for row in (first, second)]
        assert len(facts(seen(places[0])) ^ facts(seen(places[1]))) == 2  # one fact differs


@pytest.mark.parametrize("benchmark", GENERATION_BENCHMARKS)
def test_prompts_use_the_worlds_words_and_the_perfect_picture_gets_full_marks(world, benchmark):
    rows = read_jsonl(world / "generation" / benchmark / "prompts.jsonl")
    assert len(rows) == len({row["prompt"] for row in rows}) == 24
    for row in rows:
        assert set(row["prompt"].split()) <= set(VOCABULARY)
        asked = parse(row["prompt"])
        painted = [(cell, {"color": "red", **values}) for cell, values in asked.objects]
        perfect = type(asked)(asked.background, tuple(painted))
        assert score_picture(benchmark, row, perfect)[0] == 1
        assert score_picture(benchmark, row, type(asked)(asked.background, ()))[0] < 0.2


def test_geneval_prompts_have_the_real_keys_and_tags(world, shared_path):
    real = read_jsonl(shared_path / "data/geneval/evaluation_metadata.jsonl")
    rows = read_jsonl(world / "generation/blocks_geneval/prompts.jsonl")
    assert {row["tag"] for row in rows} == {row["tag"] for row in real} == set(GENEVAL_TAGS)
    for tag in GENEVAL_TAGS:
        ours, theirs = (next(row for row in part if row["tag"] == tag) for part in (rows, real))
        assert set(ours) == set(theirs)
        assert [set(clause) for clause in ours["include"]] == [set(clause) for clause in theirs["include"]]
    compbench = read_jsonl(world / "generation/blocks_compbench/prompts.jsonl")
    assert {row["category"] for row in compbench} == set(COMPBENCH_CATEGORIES)


def test_an_unknown_key_is_an_error(tmp_path):
    with pytest.raises(UserError, match="pool_size"):
        make(tmp_path, pool_size=3)
