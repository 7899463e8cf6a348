"""Long work that survives its process: finished rows are on disk, but for the last few."""

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet

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
