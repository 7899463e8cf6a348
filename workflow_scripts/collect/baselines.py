"""Put the baselines' coverage and precision together.

    python -m workflow_scripts.collect.baselines --tables human/scores.csv template/scores.csv --out baselines.csv

Files in: one table `capeval` a baseline. Files out: --out (table `capeval`), in the order in which they are given.
They stay apart from the sweep's table, which the regression reads.
"""

import argparse
from pathlib import Path

import pandas as pd

from workflow_scripts.command import run
from workflow_scripts.files import write_run_record
from workflow_scripts.records import read_table, write_table


def main(argv: list[str] | None = None) -> None:
    """Write all tables as one."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--tables", required=True, nargs="+", type=Path)
    arguments.add_argument("--out", required=True, type=Path, help="table `capeval` to write (CSV)")
    args = arguments.parse_args(argv)
    table = pd.concat([read_table(path, "capeval") for path in args.tables], ignore_index=True)
    write_run_record(args.out, {}, rows=len(table))
    write_table(args.out, table, "capeval")


if __name__ == "__main__":
    run(main)
