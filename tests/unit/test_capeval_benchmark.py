import json

import pytest

from workflow_scripts.capeval.benchmark import DIMENSIONS, read_benchmark, split_tags
from workflow_scripts.errors import UserError


def write_benchmark(folder, rows, table):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "checklist.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    (folder / "images.csv").write_text(table, encoding="utf-8")
    return folder


def row(name, suffix=".png", **lists):
    items = {d: [{"Tags": tags, "Question": q} for tags, q in lists.get(d, [])] for d in DIMENSIONS}
    return {"id": name, "img_path": name + suffix} | {f"{d}_checklist": items[d] for d in DIMENSIONS}


def test_items_are_numbered_through_the_dimensions_in_their_order(tmp_path):
    rows = [
        row("AB1", world_knowledge=[("w", "q4")], instance=[("i", "q1"), ("i", "q2")], text=[("t", "q3"), ("t", "q1")]),
        row("C2", human=[("h", "q1")]),
    ]
    benchmark = read_benchmark(
        write_benchmark(tmp_path, rows, "img_path,subcategory\nC2.png,Food\nAB1.png,Tech\nX.png,Y\n")
    )
    assert benchmark.items.to_numpy().tolist() == [
        ["AB1.png", 0, "instance", "i", "q1"],
        ["AB1.png", 1, "instance", "i", "q2"],
        ["AB1.png", 2, "text", "t", "q3"],
        ["AB1.png", 3, "text", "t", "q1"],  # stands twice in this image and counts twice
        ["AB1.png", 4, "world_knowledge", "w", "q4"],
        ["C2.png", 0, "human", "h", "q1"],
    ]
    assert benchmark.images.to_dict("index") == {
        "AB1.png": {"domain": "AB", "subcategory": "Tech"}, "C2.png": {"domain": "C", "subcategory": "Food"}
    }  # fmt: skip
    assert [picture.path for picture in benchmark.pictures()] == [
        str(tmp_path / "image" / n) for n in ("AB1.png", "C2.png")
    ]


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ("object", ["object"]),
        ("a,b; c|d", ["a", "b", "c", "d"]),
        ("一，二、三；四｜五", ["一", "二", "三", "四", "五"]),
        ("two words, two words,", ["two words"]),
        ("", []),
    ],
)
def test_tags(tags, expected):
    assert split_tags(tags) == expected


GOOD, TABLE = row("A1", instance=[("t", "q")]), "img_path,subcategory\nA1.png,Food\n"


@pytest.mark.parametrize(
    ("rows", "table", "message"),
    [
        ([GOOD, GOOD], TABLE, r"checklist.jsonl:2: img_path is A1.png again"),
        ([{**GOOD, "img_path": ""}], TABLE, r"checklist.jsonl:1: img_path is missing"),
        ([{**GOOD, "id": "12"}], TABLE, r":1: id '12' does not start with the letters of a domain"),
        ([GOOD], TABLE.replace("A1", "A11"), r"images.csv: no image A1.png, did you mean A11.png\?"),
        ([GOOD], TABLE.replace("subc", "c"), r"images.csv: no column 'subcategory'"),
        ([{k: v for k, v in GOOD.items() if k != "ui_checklist"}], TABLE, r":1: lacks list 'ui_checklist'"),
        ([{**GOOD, "sound_checklist": []}], TABLE, r":1: has an unknown list 'sound_checklist'"),
        ([{**GOOD, "text_checklist": [{"Tags": "t"}]}], TABLE, r":1: an item is not {'Tags', 'Question'}"),
        ([{**GOOD, "text_checklist": ["t"]}], TABLE, r":1: an item is not {'Tags', 'Question'}"),
        ([row("A1")], TABLE, "holds no checklist item"),
    ],
)
def test_faults_of_the_files_are_named(tmp_path, rows, table, message):
    with pytest.raises(UserError, match=message):
        read_benchmark(write_benchmark(tmp_path, rows, table))


@pytest.fixture(scope="module")
def real(shared_path):
    return read_benchmark(shared_path / "data" / "capeval")


def test_totals_of_the_real_benchmark(real):
    items = real.items.join(real.images, on="image_id")
    assert len(real.images) == 300 and len(items) == 14965
    per_dimension = items["dimension"].value_counts()
    assert [per_dimension[d] for d in DIMENSIONS] == [2681, 3660, 2632, 2074, 1800, 783, 584, 751]
    assert items["domain"].value_counts().to_dict() == {"SO": 7039, "PA": 3164, "TI": 2146, "DK": 2616}
    assert real.images["domain"].value_counts().to_dict() == {"SO": 148, "PA": 60, "TI": 40, "DK": 52}
    assert real.images["subcategory"].nunique() == 23
    assert items.duplicated(["image_id", "question"]).sum() == 55
    assert not items.duplicated(["image_id", "item_index"]).any()


def test_absent_pictures_of_the_real_benchmark_are_named(real):
    with pytest.raises(UserError, match=r"3 of 300 images are absent: DK024.jpg, SO019.jpg, SO121.png$"):
        real.require_pictures()
