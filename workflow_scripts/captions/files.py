"""Read captions from files of any common shape into (key of the image, caption, place in the file)."""

import csv
import json
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workflow_scripts.errors import UserError, nearest

_SPACE = re.compile(r"\s*")


@dataclass(frozen=True)
class CaptionRow:
    """One caption of a file. `key` is what the file calls the image, `place` names the row in messages."""

    key: str
    caption: str
    place: str


class _Repeating(dict):
    """A JSON object in which a key stands twice; `pairs` has all of them."""

    pairs: list[tuple[str, Any]]


def read_caption_file(path: Path, image_key: str, caption_key: str) -> list[CaptionRow]:
    """Every caption of a file, in its order; a null caption is the empty text.

    By suffix: .csv and .tsv (first line: column names), .parquet, and for .json, .jsonl and .ndjson a list of
    objects, objects one after another (one a line or spread over lines), or one {image: caption} map. Raises
    UserError naming file and row for anything else: broken text, a key that no row or not every row has, an image
    that is neither text nor a whole number, a caption that is not text.
    """
    suffix = path.suffix.lower()
    if suffix not in READERS:
        raise UserError(f"{path}: unknown kind of file {suffix!r}, expected one of {', '.join(READERS)}")
    if not path.is_file():
        raise UserError(f"{path}: no such file")
    try:
        rows = list(READERS[suffix](path, image_key, caption_key))
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not UTF-8 text ({error})") from None
    if not rows:
        raise UserError(f"{path}: holds no captions")
    return [_checked(path, *row) for row in rows]


Row = tuple[str, Any, Any]  # place, image, caption


def _read_csv(path: Path, image_key: str, caption_key: str) -> Iterator[Row]:
    csv.field_size_limit(sys.maxsize)
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.DictReader(file, delimiter="\t" if path.suffix.lower() == ".tsv" else ",")
        _require_columns(path, reader.fieldnames or [], image_key, caption_key)
        for row in reader:
            if row[image_key] is None or row[caption_key] is None:
                raise UserError(f"{path}:{reader.line_num}: a row with fewer cells than the first line has columns")
            yield f"line {reader.line_num}", row[image_key], row[caption_key]


def _read_parquet(path: Path, image_key: str, caption_key: str) -> Iterator[Row]:
    import pyarrow
    import pyarrow.parquet

    try:
        _require_columns(path, pyarrow.parquet.read_schema(path).names, image_key, caption_key)
        table = pyarrow.parquet.read_table(path, columns=[image_key, caption_key])
    except pyarrow.ArrowInvalid as error:
        raise UserError(f"{path}: not a Parquet file: {error}") from None
    pairs = zip(table[image_key].to_pylist(), table[caption_key].to_pylist(), strict=True)
    for number, (image, caption) in enumerate(pairs, 1):
        yield f"row {number}", image, caption


def _require_columns(path: Path, columns: list[str], image_key: str, caption_key: str) -> None:
    for key in (image_key, caption_key):
        if key not in columns:
            raise UserError(f"{path}: no column {key!r}{_hint(key, columns)}")


def _read_json(path: Path, image_key: str, caption_key: str) -> Iterator[Row]:
    values = _json_values(path)
    if len(values) == 1 and isinstance(values[0], dict) and not {image_key, caption_key} <= values[0].keys():
        whole = values[0]
        for image, caption in whole.pairs if isinstance(whole, _Repeating) else whole.items():
            yield f"key {image!r}", image, caption
        return
    rows = values[0] if len(values) == 1 and isinstance(values[0], list) else values
    lacking: list[tuple[int, str]] = []
    for number, row in enumerate(rows, 1):
        if not isinstance(row, dict):
            expected = f"an object with {image_key!r} and {caption_key!r}"
            raise UserError(f"{path}: row {number} is {_kind(row)}, expected {expected}")
        if isinstance(row, _Repeating):
            raise UserError(f"{path}: row {number} has a key twice")
        lacking += [(number, key) for key in (image_key, caption_key) if key not in row]
    if lacking:
        number, key = lacking[0]
        count = len({number for number, _ in lacking})
        raise UserError(
            f"{path}: {count} of {len(rows)} rows lack a key; the first is row {number} without {key!r}"
            f"{_hint(key, list(rows[number - 1]))}"
        )
    for number, row in enumerate(rows, 1):
        yield f"row {number}", row[image_key], row[caption_key]


def _json_values(path: Path) -> list[Any]:
    """All JSON values of a file, one after another."""
    text = path.read_text(encoding="utf-8-sig")
    decoder = json.JSONDecoder(object_pairs_hook=_object)
    values, position = [], _SPACE.match(text, 0).end()
    while position < len(text):
        try:
            value, position = decoder.raw_decode(text, position)
        except json.JSONDecodeError as error:
            raise UserError(f"{path}:{error.lineno}: not valid JSON ({error.msg})") from None
        values.append(value)
        position = _SPACE.match(text, position).end()
    return values


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        found = _Repeating(found)
        found.pairs = pairs
    return found


READERS: dict[str, Callable[[Path, str, str], Iterator[Row]]] = {
    ".csv": _read_csv,
    ".tsv": _read_csv,
    ".json": _read_json,
    ".jsonl": _read_json,
    ".ndjson": _read_json,
    ".parquet": _read_parquet,
}


def _checked(path: Path, place: str, image: Any, caption: Any) -> CaptionRow:
    if not isinstance(image, str | int) or isinstance(image, bool) or image == "":
        raise UserError(f"{path}: {place} names its image with {_kind(image)}, expected text or a whole number")
    if caption is not None and not isinstance(caption, str):
        raise UserError(f"{path}: the caption in {place} (image {image}) is {_kind(caption)}, expected text")
    return CaptionRow(str(image), caption or "", place)


def _kind(value: Any) -> str:
    kinds = {
        dict: "an object",
        list: "a list",
        str: "text",
        bool: "true or false",
        int: "a number",
        float: f"the fraction {value}",
        type(None): "null",
    }
    return "empty text" if value == "" else kinds.get(type(value), f"a {type(value).__name__}")


def _hint(key: str, choices: list[str]) -> str:
    guess = nearest(key, choices)
    return f", did you mean {guess!r}?" if guess else f", there are {', '.join(map(repr, choices)) or 'none'}"
