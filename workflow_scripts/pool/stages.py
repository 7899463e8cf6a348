"""The long work behind a pool, in chunks whose results are files: hash everything, decode the sample.

A result is named by the content of its chunk: paths, sizes and times of change, or paths and hashes. So a later run
keeps what still holds and does the rest.
"""

import logging
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from workflow_scripts.files import fingerprint
from workflow_scripts.pool.check import check_chunk, hash_chunk
from workflow_scripts.pool.sources import CHUNK, list_source
from workflow_scripts.progress import Progress
from workflow_scripts.records import SCHEMAS, write_table
from workflow_scripts.workers import Map

log = logging.getLogger("capsweep")


class Stages:
    """`partial` holds unfinished work, `packed` gets the tars of images out of Parquet files."""

    def __init__(self, partial: Path, packed: Path, map_: Map) -> None:
        self._partial, self._packed, self._map = partial, packed, map_

    def hash_all(self, sources: dict[str, Path]) -> tuple[pa.Table, np.ndarray]:
        """Table `pool_hashes` of all that the sources hold, one after another, and the number of each row's source."""
        listing = self._partial / "listing"
        shutil.rmtree(listing, ignore_errors=True)  # files may have come and gone since an earlier run
        listed = [list_source(name, path, listing / name, self._map).chunks for name, path in sources.items()]
        chunks = [chunk for paths in listed for chunk in paths]
        found = self._complete(hash_chunk, chunks, "hashed").combine_chunks()
        pa.default_memory_pool().release_unused()  # of the chunks, before the table is sorted
        lengths = [sum(map(_num_rows, paths)) for paths in listed]
        return found, np.repeat(np.arange(len(lengths)), lengths)

    def first_sound(self, found: pa.Table, queues: list[np.ndarray], quotas: list[int]) -> tuple[np.ndarray, pa.Table]:
        """Decode images of each queue (numbers of rows of `found`) until its quota is filled or nothing is left: the
        rows that were decoded, and table `pool_checks` about them."""
        checked, checks = [np.zeros(0, int)], [SCHEMAS["pool_checks"].empty_table()]
        queues, wanted = list(queues), list(quotas)
        while True:
            batches = [queue[:number] for queue, number in zip(queues, wanted, strict=True)]
            queues = [queue[number:] for queue, number in zip(queues, wanted, strict=True)]
            rows = np.sort(np.concatenate(batches))  # files are read in their order on disk
            if not len(rows):
                return np.concatenate(checked), pa.concat_tables(checks).combine_chunks()
            chunks = [self._asked(found.take(rows[start : start + CHUNK])) for start in range(0, len(rows), CHUNK)]
            done = self._complete(check_chunk, chunks, "checked")
            broken = rows[done["reason"].is_valid()]
            wanted = [int(np.isin(batch, broken).sum()) for batch in batches]
            checked.append(rows)
            checks.append(done)

    def _asked(self, part: pa.Table) -> Path:
        """A chunk of the sample as a file, for a worker."""
        path = self._partial / "sampled" / f"{fingerprint(part.to_pylist())}.parquet"
        if not path.is_file():
            write_table(path, part, "pool_hashes")
        return path

    def _complete(self, work: Callable[[tuple], int], chunks: list[Path], name: str) -> pa.Table:
        """The rows of all chunks, after work on those whose result is not there yet."""
        names = [fingerprint(chunk) for chunk in chunks]
        results = [self._partial / name / f"{chunk}.parquet" for chunk in names]
        pending = {
            result: (chunk, result, self._packed / f"{name}.tar")
            for chunk, result, name in zip(chunks, results, names, strict=True)
            if not result.is_file()
        }
        total = sum(map(_num_rows, chunks))
        num_pending = sum(_num_rows(chunk) for chunk, *_ in pending.values())
        log.info("%d images to be %s, %d of them are already", total, name, total - num_pending)
        progress = Progress(total, "images", total - num_pending)
        for number in self._map(work, pending.values()):
            progress.update(number)
        return pa.concat_tables(map(pyarrow.parquet.read_table, results))


def _num_rows(path: Path) -> int:
    return pyarrow.parquet.read_metadata(path).num_rows
