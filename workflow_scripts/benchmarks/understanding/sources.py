"""The files that benchmarks come in: Parquet of the hub with images inside, tables with images in base64, JSON beside
a folder of images. Images stay where they are until they are opened."""

import base64
import functools
import hashlib
import json
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from workflow_scripts.errors import UserError


@dataclass(frozen=True)
class StoredImage:
    """An encoded image: a file of its own, or a cell of a Parquet file, or bytes. `key` is equal for equal images."""

    key: str
    file: Path
    cell: tuple[int, str, int] | None = None  # row, column, place in a list of images
    inline: bytes | None = field(default=None, repr=False)

    def data(self) -> bytes:
        """The encoded bytes. Raises UserError where the file is gone."""
        if self.inline is not None:
            return self.inline
        if self.cell is None:
            if not self.file.is_file():
                raise UserError(f"{self.file}: no such image")
            return self.file.read_bytes()
        row, column, place = self.cell
        return _images_of(_cell(str(self.file), row, column))[place]


def parquet_rows(
    folder: Path, pattern: str, columns: Sequence[str], images: Sequence[str] = ("image",)
) -> Iterator[dict[str, Any]]:
    """Rows of all Parquet files of a folder whose names fit `pattern`, in the order of their names.

    An image column becomes a tuple of `StoredImage`, empty where there is none. Raises UserError naming the folder
    where no file fits, and a file where a column is missing.
    """
    import pyarrow.parquet

    files = sorted(folder.glob(pattern))
    if not files:
        raise UserError(f"{folder}: no file {pattern}")
    for file in files:
        with pyarrow.parquet.ParquetFile(file) as table:
            missing = [name for name in (*columns, *images) if name not in table.schema_arrow.names]
            if missing:
                raise UserError(f"{file}: no column {missing[0]!r}, it has {', '.join(table.schema_arrow.names)}")
            number = 0
            for batch in table.iter_batches(batch_size=64, columns=[*columns, *images]):
                for row in batch.to_pylist():
                    for column in images:
                        row[column] = tuple(
                            StoredImage(_digest(data), file, (number, column, place))
                            for place, data in enumerate(_images_of(row[column]))
                        )
                    yield row
                    number += 1


def tsv_rows(file: Path) -> Iterator[dict[str, Any]]:
    """Rows of a table of VLMEvalKit: an empty cell is None, `image` is a tuple of one `StoredImage`.

    An image is base64, or the `index` of the row that holds it. Raises UserError naming the row whose image is
    neither.
    """
    import pandas as pd

    table = pd.read_csv(file, sep="\t", dtype=str, keep_default_na=False)
    for name in ("index", "image", "question", "answer"):
        if name not in table:
            raise UserError(f"{file}: no column {name!r}, it has {', '.join(table.columns)}")
    encoded = dict(zip(table["index"], table["image"], strict=True))
    for row in table.to_dict("records"):
        text = row["image"]
        if len(text) <= 64:  # no picture is that small: it names another row
            text = encoded.get(text, "")
        try:
            data = base64.b64decode(text, validate=True)
        except ValueError:
            data = b""
        if not data:
            raise UserError(f"{file}: row {row['index']}: its image is neither base64 nor the index of another row")
        row = {name: value or None for name, value in row.items()}
        yield row | {"image": (StoredImage(_digest(data), file, inline=data),)}


def read_json(folder: Path, name: str) -> Any:
    """The JSON file of this name, anywhere in a folder. Raises UserError naming it."""
    file = one_file(folder, name)
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UserError(f"{file}: not JSON: {error}") from None


def one_file(folder: Path, name: str) -> Path:
    """The only file of this name in a folder or below. Raises UserError where there is none or more than one."""
    files = sorted(folder.rglob(name))
    if len(files) != 1:
        raise UserError(f"{folder}: {len(files)} files {name}, expected one")
    return files[0]


def image_file(folder: Path, name: str) -> tuple[StoredImage]:
    """An image beside the questions, by its name in `folder`. Raises UserError where there is none."""
    file = folder / name
    if not file.is_file():
        raise UserError(f"{file}: no such image")
    return (StoredImage(name, file),)


def _images_of(cell: Any) -> list[bytes]:
    """The encoded images in a cell: null, bytes, the hub's {bytes, path}, or a list of those."""
    cells = cell if isinstance(cell, list) else [cell]
    found = [item["bytes"] if isinstance(item, dict) else item for item in cells]
    return [data for data in found if data]


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


_READING = threading.Lock()  # so that threads do not read the same row group several times over


@functools.lru_cache(maxsize=4)
def _row_group(file: str, group: int, column: str) -> list[Any]:
    import pyarrow.parquet

    with pyarrow.parquet.ParquetFile(file) as table:
        return table.read_row_group(group, columns=[column]).column(column).to_pylist()


@functools.lru_cache(maxsize=64)
def _group_starts(file: str) -> list[int]:
    import pyarrow.parquet

    metadata = pyarrow.parquet.read_metadata(file)
    starts = [0]
    for group in range(metadata.num_row_groups):
        starts.append(starts[-1] + metadata.row_group(group).num_rows)
    return starts


def _cell(file: str, row: int, column: str) -> Any:
    starts = _group_starts(file)
    group = next(g for g in range(len(starts) - 1) if row < starts[g + 1])
    with _READING:
        return _row_group(file, group, column)[row - starts[group]]
