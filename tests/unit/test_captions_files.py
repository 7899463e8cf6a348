import json

import pyarrow as pa
import pyarrow.parquet
import pytest

from workflow_scripts.captions.files import read_caption_file
from workflow_scripts.errors import UserError

PAIRS = [("a.jpg", 'A "red" car,\nparked'), ("b/c.png", "NA"), ("7", "两只猫"), ("d.webp", "")]


def rows_of(path, image_key="image", caption_key="caption"):
    return [(row.key, row.caption) for row in read_caption_file(path, image_key, caption_key)]


def written(folder, name, content):
    path = folder / name
    if isinstance(content, str):
        path.write_text(content, encoding="utf-8")
    else:
        pyarrow.parquet.write_table(content, path)
    return path


OBJECTS = [{"image": image, "other": [1], "caption": caption} for image, caption in PAIRS]
CSV_ROWS = "\r\n".join(f'{i},x,"{c.replace(chr(34), chr(34) * 2)}"' for i, c in PAIRS)
SHAPES = {
    "rows.csv": "image,other,caption\r\n" + CSV_ROWS,
    "bom.csv": "\ufeffimage,other,caption\r\n" + CSV_ROWS,
    "list.json": json.dumps(OBJECTS, indent=2),
    "rows.jsonl": "\n".join(map(json.dumps, OBJECTS)) + "\n\n",
    "rows.json": "\n".join(map(json.dumps, OBJECTS)),
    "concatenated.json": "\n".join(json.dumps(row, indent=4) for row in OBJECTS),
    "joined.json": "".join(map(json.dumps, OBJECTS)),
    "map.json": json.dumps(dict(PAIRS)),
    "rows.parquet": pa.table({"image": [i for i, _ in PAIRS], "other": [1] * 4, "caption": [c for _, c in PAIRS]}),
}


@pytest.mark.parametrize("name", SHAPES)
def test_every_shape_gives_the_same_rows(tmp_path, name):
    assert rows_of(written(tmp_path, name, SHAPES[name])) == PAIRS


def test_tabs_numbers_and_nulls(tmp_path):
    assert rows_of(written(tmp_path, "t.tsv", "image\tcaption\n1\ta, b\n")) == [("1", "a, b")]
    table = pa.table({"id": [40468, 10822], "text": ["surfer", None]})
    assert rows_of(written(tmp_path, "t.parquet", table), "id", "text") == [("40468", "surfer"), ("10822", "")]
    assert rows_of(written(tmp_path, "one.json", '{"id": 3, "text": "one"}'), "id", "text") == [("3", "one")]


def test_a_map_with_a_key_twice_keeps_both_for_the_duplicate_check(tmp_path):
    path = written(tmp_path, "map.json", '{"a.jpg": "one", "a.jpg": "two"}')
    assert rows_of(path) == [("a.jpg", "one"), ("a.jpg", "two")]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.csv", "img,caption\na,b\n", r"x.csv: no column 'image', did you mean 'img'"),
        ("x.csv", "image,caption\na\n", r"x.csv:2: a row with fewer cells"),
        ("x.parquet", pa.table({"image_id": ["a"], "caption": ["b"]}), "no column 'image', did you mean 'image_id'"),
        ("x.parquet", pa.table({"image": [1.5], "caption": ["b"]}), "row 1 names its image with the fraction 1.5"),
        ("x.parquet", pa.table({"image": ["a"], "caption": [["b"]]}), r"the caption in row 1 \(image a\) is a list"),
        ("x.parquet", "no parquet", "not a Parquet file"),
        ("x.jsonl", '{"image": "a", "caption": "b"}\n{"image": "c"\n', r"x.jsonl:3: not valid JSON"),
        ("x.json", '[{"image": "a", "caption": "b"}, {"image_id": 3, "caption": "d"}]',
         r"1 of 2 rows lack a key; the first is row 2 without 'image', did you mean 'image_id'"),
        ("x.json", '[{"image": "a", "caption": "b"}, "c"]', "row 2 is text, expected an object"),
        ("x.json", '[{"image": "a", "caption": ["b"]}]', r"caption in row 1 \(image a\) is a list, expected text"),
        ("x.json", '{"a.jpg": {"text": "b"}}', r"caption in key 'a.jpg' \(image a.jpg\) is an object, expected text"),
        ("x.json", '[{"image": "a", "image": "b", "caption": "b"}]', "row 1 has a key twice"),
        ("x.json", '[{"image": true, "caption": "b"}]', "names its image with true or false"),
        ("x.json", '[{"image": "", "caption": "b"}]', "names its image with empty text"),
        ("x.json", "[]", "holds no captions"),
        ("x.json", "", "holds no captions"),
        ("x.txt", "a", "unknown kind of file '.txt', expected one of .csv"),
    ],
)  # fmt: skip
def test_faults_name_file_and_row(tmp_path, name, content, message):
    with pytest.raises(UserError, match=message):
        rows_of(written(tmp_path, name, content))


def test_bytes_that_are_no_text(tmp_path):
    (tmp_path / "x.csv").write_bytes(b"image,caption\n\xff\xfe,b\n")
    with pytest.raises(UserError, match=r"x.csv: not UTF-8 text"):
        rows_of(tmp_path / "x.csv")
    with pytest.raises(UserError, match="no such file"):
        rows_of(tmp_path / "y.csv")
