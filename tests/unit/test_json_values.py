"""Large JSON files value by value: the same values as `json.loads`, wherever a chunk ends, and where they lie."""

import json
import random

import pytest

from workflow_scripts import json_values
from workflow_scripts.errors import UserError
from workflow_scripts.json_values import scan

ODD = 'aé漢😀"\\\n[]{},:'


def values(count):
    rng = random.Random(0)
    made = [{"id": i, "text": "".join(rng.choices(ODD, k=rng.randrange(20)))} for i in range(count)]
    return [*made, 12, 345, None, "x", [1, [2]]]


@pytest.mark.parametrize("chunk", [1, 2, 3, 7, 50, 2**20])
@pytest.mark.parametrize("shape", ["array", "indented array", "lines", "array behind a byte order mark"])
def test_values_and_their_bytes(tmp_path, monkeypatch, chunk, shape):
    monkeypatch.setattr(json_values, "_CHUNK", chunk)
    wanted = values(30)
    text = {
        "array": lambda: json.dumps(wanted, ensure_ascii=False),
        "indented array": lambda: "\n " + json.dumps(wanted, indent=1) + "\r\n\t",
        "lines": lambda: "\n\n".join(json.dumps(value, ensure_ascii=False) for value in wanted) + "\n",
        "array behind a byte order mark": lambda: "\ufeff" + json.dumps(wanted),
    }[shape]()
    path = tmp_path / "x.json"
    path.write_text(text, encoding="utf-8", newline="")
    found, content = list(scan(path)), path.read_bytes()
    assert [one.value for one in found] == wanted
    assert [json.loads(content[one.offset : one.offset + one.length]) for one in found] == wanted


@pytest.mark.parametrize("text", ["", " \n", "[]", " [ ] "])
def test_no_values(tmp_path, text):
    (tmp_path / "x.json").write_text(text)
    assert list(scan(tmp_path / "x.json")) == []


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'[{"a": 1}', "value 1, at byte 9: the file ends too early"),
        (b'[{"a": 1}, ', "value 1, at byte 11: Expecting value"),
        (b"[1, 2,]", "value 2, at byte 6: Expecting value"),
        ('["é" 2]'.encode(), "value 1, at byte 6: expected ',', found '2'"),
        (b"[1] [2]", "value 1, at byte 4: more after the end of the array"),
        (b'{"a": 1}\n{"a": ', "value 1, at byte 9: Expecting value"),
        (b'["a", "\xff"]', "not UTF-8 after byte"),
    ],
)
def test_broken_files_say_where(tmp_path, content, message):
    (tmp_path / "x.json").write_bytes(content)
    with pytest.raises(UserError, match=message) as caught:
        list(scan(tmp_path / "x.json"))
    assert str(tmp_path / "x.json") in str(caught.value)


def test_a_broken_value_is_not_looked_for_through_the_whole_file(tmp_path, monkeypatch):
    monkeypatch.setattr(json_values, "_CHUNK", 10)
    monkeypatch.setattr(json_values, "_LONGEST", 100)
    (tmp_path / "x.json").write_text("[" + '{"a": ]' + "1, " * 10_000)
    read = []
    more = json_values._Text._more
    monkeypatch.setattr(json_values._Text, "_more", lambda self: read.append(1) or more(self))
    with pytest.raises(UserError, match="value 0, at byte 1"):
        list(scan(tmp_path / "x.json"))
    assert len(read) < 20
