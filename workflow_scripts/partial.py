"""Long work in chunks that survive the process: a killed job costs at most the chunk that it was at."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet

from workflow_scripts.progress import Progress
from workflow_scripts.records import write_table


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
