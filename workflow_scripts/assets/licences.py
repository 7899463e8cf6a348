"""List what a sweep uses of others, and under which licences.

    python -m workflow_scripts.assets.licences --spec '{"rows": [{"asset": "Qwen/Qwen3-4B", ...}]}' \\
        --out results/licences.csv

Files out: --out (table `licences`).
"""

import logging
from pathlib import Path

from workflow_scripts.command import load_spec, parser, run
from workflow_scripts.files import write_run_record
from workflow_scripts.plan import LicencesJob
from workflow_scripts.records import write_table

log = logging.getLogger("capsweep")


def main(argv: list[str] | None = None) -> None:
    """Write the table."""
    arguments = parser(__doc__)
    arguments.add_argument("--out", type=Path, required=True, help="licences.csv")
    args = arguments.parse_args(argv)
    job = load_spec(args.spec, LicencesJob)
    for row in job.rows:
        if row["licence"] == "unstated":
            log.warning("%s: its licence is not stated in the config", row["asset"])
    write_run_record(args.out, job.model_dump(mode="json"))
    write_table(args.out, job.rows, "licences")


if __name__ == "__main__":
    run(main)
