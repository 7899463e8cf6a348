"""A captioner's captions of CAPEval's images as a submission file, which `capeval.submit` and others read.

    python -m workflow_scripts.capeval.export --captions results/capeval/late/captions.parquet --out late.json

Files in: --captions (table `captions`). Files out: --out, a JSON list of {"image_id", "caption"}. Images without a
caption are left out, and named.
"""

import argparse
import logging
from pathlib import Path

from workflow_scripts.command import run
from workflow_scripts.files import write_json
from workflow_scripts.records import read_table

log = logging.getLogger("capsweep")


def main(argv: list[str] | None = None) -> None:
    """Write the submission."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--captions", type=Path, required=True, help="captions of the benchmark's images")
    arguments.add_argument("--out", type=Path, required=True, help="JSON file")
    args = arguments.parse_args(argv)
    table = read_table(args.captions, "captions")
    absent = table.loc[table["caption"].isna(), "image_id"]
    if len(absent):
        log.warning("%d of %d images have no caption and are left out: %s", len(absent), len(table), ", ".join(absent))
    rows = table.loc[table["caption"].notna(), ["image_id", "caption"]]
    write_json(args.out, rows.to_dict("records"))


if __name__ == "__main__":
    run(main)
