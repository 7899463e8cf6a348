"""Read a captioner's captions through their manifest."""

from collections import Counter
from pathlib import Path
from typing import get_args

import pandas as pd
import pyarrow.parquet

from workflow_scripts.errors import UserError
from workflow_scripts.files import read_json
from workflow_scripts.records import read_table
from workflow_scripts.spec import CaptionFault

FAULTS = get_args(CaptionFault)
FINGERPRINT = "capsweep_fingerprint"  # key in a shard's Parquet metadata


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


def read_captions(captions_json: str | Path) -> pd.DataFrame:
    """All rows of table `captions` in the pool's order, failed ones too: `error` is null for a caption to train on."""
    leave_out = read_json(captions_json)["leave_out"]
    shards = [read_table(path, "captions") for path in shard_paths(Path(captions_json))]
    return pass_over_faults(pd.concat(shards, ignore_index=True), leave_out)


def pass_over_faults(captions: pd.DataFrame, leave_out: list[str]) -> pd.DataFrame:
    """Table `captions` in which the faults of `spec.CaptionFault` that are not in `leave_out` are no errors. All other
    errors stay, and so do those of captions without text."""
    forgiven = captions["caption"].notna() & captions["error"].isin(set(FAULTS) - set(leave_out))
    return captions.assign(error=captions["error"].mask(forgiven))


def count_faults(captions: pd.DataFrame) -> Counter:
    """Rows of table `captions` by fault: one of `spec.CaptionFault`, `failed` for every other error."""
    errors = captions["error"].dropna()
    return Counter(errors.where(errors.isin(FAULTS), "failed"))
