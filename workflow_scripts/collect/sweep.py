"""Put all captioners' tables together.

    python -m workflow_scripts.collect.sweep --spec '{"captioners": [...]}' --capeval-tables a.csv b.csv \\
        --score-tables c.csv d.csv --capeval capeval.csv --scores scores.csv --captioners captioners.csv

Reads one table `capeval` and one table `scores` a captioner, in any order. Writes both tables of the sweep, and
captioners.csv with their families and labels. A captioner without one of them stops it, and so does one whose scores
are older than what they rest on, or of another config.
"""

from pathlib import Path

import pandas as pd

from workflow_scripts.command import load_spec, parser, run
from workflow_scripts.errors import UserError
from workflow_scripts.files import read_run_record, write_run_record
from workflow_scripts.plan import CollectJob
from workflow_scripts.records import read_table, write_table


def check_up_to_date(paths: list[Path], collected_as: dict[str, str]) -> None:
    """Compare each captioner's table `scores` with the config and with the files that it was collected from.

    Where an edit of the config remakes the selection of images, Snakemake (9) does not look at what else has changed
    for the models behind it, because they take it as `ancient`. Run again, it does. Raises UserError that names all.
    """
    faults = []
    for path in paths:
        record = read_run_record(path)
        spec = record["spec"]
        if record["spec_fingerprint"] != collected_as.get(spec["captioner"]):
            faults.append(f"{path}: collected from models of other settings than the config's")
        for file in (*spec["made_with"], *(subject["path"] for subject in spec["subjects"])):
            if not Path(file).is_file():
                faults.append(f"{path}: {file} is missing")
            elif Path(file).stat().st_mtime > path.stat().st_mtime:
                faults.append(f"{path}: older than {file}")
    if faults:
        raise UserError("some jobs are still to be done: repeat your snakemake command\n  " + "\n  ".join(faults))


def join(paths: list[Path], name: str, captioners: list[str]) -> pd.DataFrame:
    """The tables as one, in the captioners' order. Raises UserError naming captioners without or with two tables."""
    parts: dict[str, pd.DataFrame] = {}
    for path in paths:
        part = read_table(path, name)
        for captioner in part.captioner.unique():
            if captioner in parts:
                raise UserError(f"{path}: captioner {captioner!r} has two tables {name!r}")
            parts[captioner] = part[part.captioner == captioner]
    missing = [captioner for captioner in captioners if captioner not in parts]
    if missing:
        raise UserError(f"no table {name!r} for {', '.join(missing)}")
    return pd.concat([parts[captioner] for captioner in captioners], ignore_index=True)


def main(argv: list[str] | None = None) -> None:
    """Run the command."""
    arguments = parser(__doc__)
    arguments.add_argument("--capeval-tables", required=True, nargs="+", type=Path)
    arguments.add_argument("--score-tables", required=True, nargs="+", type=Path)
    for name in ("capeval", "scores", "captioners"):
        arguments.add_argument(f"--{name}", required=True, type=Path, help=f"table `{name}` to write (CSV)")
    args = arguments.parse_args(argv)
    job = load_spec(args.spec, CollectJob)
    check_up_to_date(args.score_tables, job.collected_as)
    names = [one["captioner"] for one in job.captioners]
    tables = {
        "capeval": join(args.capeval_tables, "capeval", names),
        "scores": join(args.score_tables, "scores", names),
        "captioners": job.captioners,
    }
    for name, table in tables.items():
        path = getattr(args, name)
        write_run_record(path, job.model_dump(mode="json"), rows=len(table))
        write_table(path, table, name)


if __name__ == "__main__":
    run(main)
