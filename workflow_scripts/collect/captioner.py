"""Collect all benchmark scores of one captioner, and refuse results that another config made.

    python -m workflow_scripts.collect.captioner --spec '{"captioner": ..., "subjects": [...]}' --out scores/qwen.csv

Reads the score tables named in the spec and the run records beside them. Writes one table `scores`. What is missing
and what an edited config made is listed whole before it stops.
"""

from pathlib import Path

import pandas as pd

from workflow_scripts.command import load_spec, parser, run
from workflow_scripts.errors import UserError
from workflow_scripts.files import read_run_record, run_record_path, write_run_record
from workflow_scripts.plan import CollectCaptionerJob
from workflow_scripts.records import SCHEMAS, read_table, write_table


def check_records(job: CollectCaptionerJob) -> None:
    """Compare the spec that made each file with the config's. Raises UserError naming every file that differs.

    Cluster jobs read the config when they start: an edit while jobs wait would mix two sweeps.
    """
    expected = job.made_with | {subject.path: subject.fingerprint for subject in job.subjects}
    faults = []
    for path, fingerprint in expected.items():
        if not run_record_path(path).is_file():
            faults.append(f"{path}: no run record beside it")
        elif read_run_record(path)["spec_fingerprint"] != fingerprint:
            faults.append(f"{path}: made with other settings than the config's (see {run_record_path(path)})")
    if faults:
        raise UserError(f"captioner {job.captioner}: delete these files and run again\n  " + "\n  ".join(faults))


def collect(job: CollectCaptionerJob) -> pd.DataFrame:
    """The captioner's rows of table `scores`. Raises UserError naming every benchmark that is missing or null."""
    parts, missing = [], []
    for subject in job.subjects:
        part = read_table(subject.path, "benchmark_scores")
        found = part.dropna(subset=["score"]).benchmark.tolist()
        missing += [
            f"{subject.pipeline}, seed {subject.seed}: {name}" for name in subject.benchmarks if name not in found
        ]
        parts.append(
            part[part.benchmark.isin(subject.benchmarks)].assign(
                captioner=job.captioner,
                family=job.family,
                pipeline=subject.pipeline,
                objective=subject.objective,
                seed=subject.seed,
            )
        )
    if missing:
        raise UserError(f"captioner {job.captioner}: no score for\n  " + "\n  ".join(missing))
    return pd.concat(parts, ignore_index=True)[SCHEMAS["scores"].names]


def main(argv: list[str] | None = None) -> None:
    """Run the command."""
    arguments = parser(__doc__)
    arguments.add_argument("--out", required=True, type=Path, help="table `scores` of the captioner (CSV)")
    args = arguments.parse_args(argv)
    job = load_spec(args.spec, CollectCaptionerJob)
    check_records(job)
    scores = collect(job)
    write_run_record(args.out, job.model_dump(mode="json"), rows=len(scores))
    write_table(args.out, scores, "scores")


if __name__ == "__main__":
    run(main)
