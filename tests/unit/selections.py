"""A selection of images for tests, as `captions.select` makes it."""

import json
from pathlib import Path

from workflow_scripts.captions.selection import MADE_FROM
from workflow_scripts.files import fingerprint
from workflow_scripts.records import write_table


def save_selection(path: Path, captions: Path, faults: dict[str, str] | None = None) -> Path:
    """The table `selection` that leaves out the images `faults` (their ids, each with its fault)."""
    rows = [{"image_id": image, "captioner": "late", "fault": fault} for image, fault in (faults or {}).items()]
    write_table(path, rows, "selection", {MADE_FROM: json.dumps({"late": fingerprint(captions)})})
    return path
