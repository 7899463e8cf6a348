"""Long work in chunks that survive the process: a killed job costs at most the chunk that it was at."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet

from workflow_scripts.progress import Progress
from workflow_scripts.records import SCHEMAS, write_table


class Journal:
    """Finished rows of one table, in the order in which they finished, in files of `size` rows under `folder`.

    `folder` must be named by the fingerprint of all that decides the rows, and belong to one process at a time.
    """

    def __init__(self, folder: Path, table: str, size: int) -> None:
        self._folder, self._table, self._size = folder, table, size
        self._waiting: list[dict[str, Any]] = []
        for leftover in folder.glob(".*.tmp*"):  # of a killed process
            leftover.unlink()

    def read(self) -> pa.Table:
        """The rows on disk."""
        schema = SCHEMAS[self._table]
        return pa.concat_tables([schema.empty_table(), *(pyarrow.parquet.read_table(path) for path in self._files())])

    def append(self, row: dict[str, Any]) -> None:
        """Keep a row; every `size` rows go to disk."""
        self._waiting.append(row)
        if len(self._waiting) >= self._size:
            self.flush()

    def flush(self) -> None:
        """Put the waiting rows on disk."""
        if self._waiting:
            last = max((int(path.stem) for path in self._files()), default=-1)
            write_table(self._folder / f"{last + 1:07d}.parquet", self._waiting, self._table)
            self._waiting = []

    def remove(self) -> None:
        """Delete the rows, once the whole table is safe."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def _files(self) -> list[Path]:
        return sorted(self._folder.glob("[0-9]*.parquet"))


class Chunks:
    """The finished chunks of one table of `num_rows` rows, as `<folder>/<name>-<first row>.parquet`.

    `folder` must be named by the fingerprint of all that decides the rows. `table` is the name of the schema.
    """

    def __init__(self, folder: Path, name: str, num_rows: int, size: int, table: str) -> None:
        self._folder, self._name, self._table = folder, name, table
        self._ranges = [range(first, min(first + size, num_rows)) for first in range(0, num_rows, size)]

    def num_done(self) -> int:
        """Rows that are already on disk."""
        return sum(len(rows) for rows in self._ranges if self._path(rows).is_file())

    def complete(self, work: Callable[[range], list[dict[str, Any]]], progress: Progress) -> pa.Table:
        """Call `work` for the row numbers of every chunk that is not there yet; the whole table in row order."""
        for rows in self._ranges:
            if not self._path(rows).is_file():
                write_table(self._path(rows), work(rows), self._table)
                progress.update(len(rows))
        return pa.concat_tables(
            [pyarrow.parquet.read_table(self._path(rows)) for rows in self._ranges]
        ).combine_chunks()

    def remove(self) -> None:
        """Delete the chunks, once the whole table is safe."""
        for path in [
            *self._folder.glob(f"{self._name}-*.parquet"),
            *self._folder.glob(f".{self._name}-*.parquet"),
        ]:
            path.unlink(missing_ok=True)

    def _path(self, rows: range) -> Path:
        return self._folder / f"{self._name}-{rows.start:07d}.parquet"
