"""Which images of the pool a pipeline is not trained on: table `selection`, as training and collecting read it."""

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet

from workflow_scripts.errors import UserError
from workflow_scripts.files import atomic, fingerprint
from workflow_scripts.records import read_table

TOO_LONG = "too_long"  # the one fault that holds for some pipelines only
MADE_FROM = "capsweep_captions"  # key in Parquet metadata: fingerprints of the manifests of captions


def read_selection(path: Path, captions: Path) -> set[str]:
    """The images that are left out. Raises UserError where the selection does not know these captions."""
    made_from = json.loads(pyarrow.parquet.read_schema(path).metadata[MADE_FROM.encode()])
    if fingerprint(captions) not in made_from.values():
        raise UserError(
            f"{path}: selected from other captions than {captions} (by {', '.join(made_from)}); repeat your snakemake "
            "command with --forcerun select_images settle_selection"
        )
    return left_out(path)


def left_out(path: Path) -> set[str]:
    """The images of a table `selection`."""
    return set(read_table(path, "selection")["image_id"])


def keep_selection(path: Path, out: Path) -> None:
    """Keep the selection beside a model that was trained by it: the sweep's own changes with its captioners."""
    with atomic(out) as temporary:
        shutil.copyfile(path, temporary)


def selection_facts(images: set[str], num_images: int) -> dict[str, Any]:
    """What a run record says of a selection: of the `num_images` first images of the pool, how many are left out, and
    a fingerprint of their ids."""
    return {"num_images": num_images, "num_left_out": len(images), "left_out_fingerprint": fingerprint(sorted(images))}
