"""Ask Snakemake what it would do, and read the answer."""

import collections
import csv
import subprocess
import sys
from pathlib import Path

FINAL = {
    *("collect_sweep", "regress", "plot", "write_report"),
    *("plot_captions", "measure_reliability", "diagnose_captions", "compare_selections"),
}
SELECTION = {"select_images", "settle_selection"}  # depend on every captioner, and train none again


def snakemake(checkout: Path, *arguments: str, check: bool = True) -> str:
    """Run Snakemake in a checkout; what it prints on standard output (on both, where `check` is off)."""
    command = [sys.executable, "-m", "snakemake", *arguments]
    done = subprocess.run(command, cwd=checkout, capture_output=True, text=True, check=False)
    assert not check or done.returncode == 0, done.stderr[-3000:]
    return done.stdout if check else done.stdout + done.stderr


def job_counts(checkout: Path, *arguments: str) -> dict[str, int]:
    """Jobs a rule that a dry run plans; empty where nothing is to be done."""
    text = snakemake(checkout, *arguments, "--dry-run", "--quiet", "rules", check=False)
    if "Nothing to be done" in text:
        return {}
    assert "Job stats:" in text, text[-3000:]
    lines = text.split("Job stats:")[1].strip().splitlines()[2:]
    counts = {}
    for line in lines:
        if line.startswith("total"):
            return counts
        rule, count = line.split()
        counts[rule] = int(count)
    raise AssertionError(text[-3000:])


def outputs(checkout: Path, *arguments: str) -> dict[str, dict[str, str]]:
    """Every output file of the DAG: its rule and what would happen to it (`update pending`, `no update`)."""
    lines = snakemake(checkout, *arguments, "--summary").splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("output_file"))
    rows = csv.DictReader(lines[start:], delimiter="\t")
    return {row["output_file"]: row for row in rows}


def pending(checkout: Path, *arguments: str) -> dict[str, list[str]]:
    """The output files that would be made anew, by rule."""
    found = collections.defaultdict(list)
    for path, row in outputs(checkout, *arguments).items():
        if row["plan"] == "update pending":
            found[row["rule"]].append(path)
    return dict(found)
