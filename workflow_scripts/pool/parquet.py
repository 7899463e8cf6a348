"""Parquet files as sources: images' bytes in a column, and img2dataset's list of what it fetched."""

import functools
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet

from workflow_scripts.errors import UserError
from workflow_scripts.images import member_path, place_of

_BATCH = 32  # rows decoded at once


def list_rows(path: Path) -> Iterator[str]:
    """The paths of a file's images, in their order: `<file>#<row group>+<row>/<name>`.

    `name` is what the data set calls the image (Hugging Face's `path`, img2dataset's `key`), else the row's number.
    Raises UserError where no column holds images.
    """
    with pyarrow.parquet.ParquetFile(path) as file:
        column = image_column(file.schema_arrow)
        image = file.schema_arrow.field(column).type
        if pa.types.is_struct(image) and image.get_field_index("path") >= 0:
            named = f"{column}.path"
        else:
            named = "key" if "key" in file.schema_arrow.names else None
        first = 0
        for group in range(file.num_row_groups):
            length = file.metadata.row_group(group).num_rows
            names = [None] * length
            if named:
                values = file.read_row_group(group, columns=[named]).column(0).to_pylist()
                names = [value["path"] if isinstance(value, dict) else value for value in values]
            for row, name in enumerate(names):
                yield member_path(path, group, row, name or f"{first + row:07d}")
            first += length


def image_column(schema: pa.Schema) -> str:
    """The column that holds images as bytes or as {bytes, path}. Raises UserError where there is none, or several."""
    found = [field.name for field in schema if _holds_bytes(field.type)]
    if len(found) == 1 or "image" in found:
        return found[0] if len(found) == 1 else "image"
    if found:
        raise UserError(f"several columns hold bytes ({', '.join(found)}): call the one with the images `image`")
    links = [name for name in schema.names if "url" in name.lower()]
    if links:
        columns = f"{links[0]!r}" if len(links) == 1 else f"one of {', '.join(map(repr, links))}"
        raise UserError(
            "it has links and no images: fetch them first with img2dataset (--input_format parquet --url_col "
            f"{columns} --output_format webdataset), then give the folder of its tars"
        )
    raise UserError(f"no column holds images as bytes; its columns are {', '.join(schema.names)}")


def _holds_bytes(kind: pa.DataType) -> bool:
    if pa.types.is_struct(kind):
        index = kind.get_field_index("bytes")
        return index >= 0 and _holds_bytes(kind.field(index).type)
    return pa.types.is_binary(kind) or pa.types.is_large_binary(kind)


def read_row(path: str) -> bytes:
    """The bytes of an image that `list_rows` names; fastest in their order."""
    place = place_of(path)
    assert place is not None
    rows = _rows(place.archive, place.start)
    if place.length < rows.first:
        _rows.cache_clear()
        rows = _rows(place.archive, place.start)
    return rows.get(place.length) or b""


@functools.lru_cache(maxsize=1)
def _rows(path: Path, group: int) -> "_Rows":
    return _Rows(path, group)


class _Rows:
    """The images of one row group, read onwards a few rows at a time: a row group can be larger than memory."""

    def __init__(self, path: Path, group: int) -> None:
        file = pyarrow.parquet.ParquetFile(path)
        column = image_column(file.schema_arrow)
        nested = pa.types.is_struct(file.schema_arrow.field(column).type)
        self._batches = file.iter_batches(_BATCH, [group], [f"{column}.bytes" if nested else column])
        self._nested = nested
        self.first, self._images = 0, []

    def get(self, row: int) -> bytes | None:
        while row >= self.first + len(self._images):
            self.first += len(self._images)
            column = next(self._batches).column(0)
            self._images = (column.field("bytes") if self._nested else column).to_pylist()
        return self._images[row - self.first]


def failures(path: Path) -> dict[str, str]:
    """What img2dataset could not fetch, by key: `status: message (url)`. Empty where the file has no such columns."""
    with pyarrow.parquet.ParquetFile(path) as file:
        if not {"key", "status"} <= set(file.schema_arrow.names):
            return {}
        columns = [name for name in ("key", "status", "error_message", "url") if name in file.schema_arrow.names]
        rows = file.read(columns).to_pylist()
    return {
        row["key"]: f"{row['status']}: {row.get('error_message')} ({row.get('url')})"
        for row in rows
        if row["status"] != "success"
    }
