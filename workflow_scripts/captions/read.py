"""Read a captioner's captions through their manifest."""

import os
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet

from workflow_scripts.errors import UserError
from workflow_scripts.files import read_json
from workflow_scripts.spec import CaptionFault

FAULTS = get_args(CaptionFault)
FINGERPRINT = "capsweep_fingerprint"  # key in a shard's Parquet metadata
ROW_GROUP = 128  # rows of a shard that are decoded to read one: 0.2 ms for 130 words each


def shard_fingerprint(path: Path) -> str | None:
    """What a shard was made from; None where there is none."""
    if not path.is_file():
        return None
    return (pyarrow.parquet.read_schema(path).metadata or {}).get(FINGERPRINT.encode(), b"").decode()


def shard_paths(manifest: Path) -> list[Path]:
    """The shards of a manifest. Raises UserError for a shard that is absent or was made from something else."""
    listed = read_json(manifest)
    paths = [manifest.parent / shard["path"] for shard in listed["shards"]]
    for path in paths:
        found = shard_fingerprint(path)
        if found != listed["fingerprint"]:
            state = "is absent" if found is None else f"was made from {found or 'something unknown'}"
            raise UserError(f"{manifest}: shard {path} {state}, expected one made from {listed['fingerprint']}")
    return paths


class StoredCaptions(Sequence[tuple[str, str | None]]):
    """A captioner's captions on disk, in the order of their shards: indexing reads (image id, caption), faulty or not.

    Nothing but the shards' footers is held. A copy in another process opens the shards anew.
    """

    def __init__(self, manifest: Path) -> None:
        self._paths = shard_paths(manifest)
        rows = [pyarrow.parquet.read_metadata(path).num_rows for path in self._paths]
        self._starts = np.cumsum([0, *rows])
        self._forget()

    def __len__(self) -> int:
        return int(self._starts[-1])

    def __getitem__(self, row: int) -> tuple[str, str | None]:
        if not 0 <= row < len(self):
            raise IndexError(row)
        shard = bisect_right(self._starts, row) - 1
        file, starts = self._opened(shard)
        row -= int(self._starts[shard])
        group = bisect_right(starts, row) - 1
        columns = file.read_row_group(group, columns=["image_id", "caption"], use_threads=False)
        row -= int(starts[group])
        return columns["image_id"][row].as_py(), columns["caption"][row].as_py()

    def image_ids(self) -> pa.Array:
        """The image of every caption, in their order."""
        columns = [pyarrow.parquet.read_table(path, columns=["image_id"])["image_id"] for path in self._paths]
        return pa.concat_arrays([chunk for column in columns for chunk in column.chunks])

    def _opened(self, shard: int) -> tuple[pyarrow.parquet.ParquetFile, np.ndarray]:
        """A shard, and where its row groups start."""
        if self._process != os.getpid():
            self._forget()  # files that are open belong to the process that forked this one
        if shard not in self._files:
            file = pyarrow.parquet.ParquetFile(self._paths[shard])
            groups = [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)]
            self._files[shard] = file, np.cumsum([0, *groups])
        return self._files[shard]

    def _forget(self) -> None:
        self._process, self._files = os.getpid(), {}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_files": {}}


def captions_of(manifest: Path, image_ids: Sequence[str]) -> list[str | None]:
    """The captions of some images, faulty or not; shards are read one at a time, until all are found. Raises UserError
    for an image without one."""
    wanted, found = pa.array(image_ids, pa.string()), {}
    for path in shard_paths(manifest):
        if len(found) == len(wanted):
            break
        shard = pyarrow.parquet.read_table(path, columns=["image_id", "caption"])
        some = shard.filter(pa.compute.is_in(shard["image_id"], value_set=wanted))
        found |= dict(zip(some["image_id"].to_pylist(), some["caption"].to_pylist(), strict=True))
    missing = [image for image in image_ids if image not in found]
    if missing:
        raise UserError(f"{manifest}: {len(missing)} of {len(image_ids)} images have no caption, first {missing[0]}")
    return [found[image] for image in image_ids]


def training_faults(captions: pd.DataFrame, leave_out: Sequence[str]) -> pd.Series:
    """Why each row of table `captions` stays out of training: a fault of `spec.CaptionFault` that is in `leave_out`,
    `empty` wherever there is no word, `failed` for all other errors; null for a caption to train on."""
    errors = captions["error"]
    faults = errors.where(errors.isna() | errors.isin(FAULTS), "failed")
    faults = faults.mask(faults.isin(set(FAULTS) - set(leave_out)))
    blank = captions["caption"].fillna("").str.strip() == ""
    return faults.mask(blank & faults.isna(), "empty")


def count_faults(captions: pd.DataFrame) -> Counter:
    """Rows of table `captions` by fault: one of `spec.CaptionFault`, `failed` for every other error."""
    errors = captions["error"].dropna()
    return Counter(errors.where(errors.isin(FAULTS), "failed"))
