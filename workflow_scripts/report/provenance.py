"""Where the numbers come from: code, packages, finish times, and what each stage cost."""

from collections import Counter
from pathlib import Path
from typing import Any

import pandas as pd

from workflow_scripts.errors import UserError
from workflow_scripts.files import read_json
from workflow_scripts.report.sweep import Sweep

Data = dict[str, Any]
# Rules and tables at the top, by the stage that their other files are named after.
STAGES = {
    "make_world": "world",
    "build_pool": "pool",
    "collect_sweep": "scores",
    "captioners": "scores",
    "read_published": "scores",
    "plot": "figures",
}
# Where run records lie. A sweep's folder may hold other sweeps' folders and a million pictures: no `**` here.
RECORDS = (
    "*",
    "world/*",
    "pool/*",
    "captions/*/*",
    "captions/*/jobs/*",
    "capeval/*/*",
    "understanding/*/seed-*/*/*",
    "generation/*/*",
    "generation/*/seed-*/*/*",
    "generation/*/seed-*/*/*/*",
    "scores/*",
    "figures/*",
)


def provenance(sweep: Sweep) -> Data:
    """Versions over all run records of the sweep, and costs by stage from Snakemake's benchmark files."""
    paths = sorted(path for place in RECORDS for path in sweep.results.glob(f"{place}.run.json"))
    records = {path: read_json(path) for path in paths if path.name != "report.html.run.json"}  # an earlier page's
    packages: dict[str, Counter] = {}
    for record in records.values():
        for package, version in record["packages"].items():
            packages.setdefault(package, Counter())[version] += 1
    finished = sorted(record["finished"] for record in records.values())
    return {
        "num_records": len(records),
        "code": Counter(record["code"] for record in records.values()).most_common(),
        "packages": {name: counts.most_common() for name, counts in sorted(packages.items())},
        "first": finished[0] if finished else None,
        "last": finished[-1] if finished else None,
        "stages": _stages(sweep.results, records),
        "licences": _by_licence(sweep.job.licences),
    }


def _stages(results: Path, records: dict[Path, Data]) -> list[Data]:
    """One row a stage: jobs, wall-clock seconds, CPU seconds, peak memory, last finish of its outputs."""
    costs = _costs(results / "logs")
    last: dict[str, str] = {}
    for path, record in records.items():
        name = _stage(path.relative_to(results))
        last[name] = max(last.get(name, ""), record["finished"])
    rows = []
    for name in sorted({*costs, *last}, key=lambda name: last.get(name, "9")):
        cost = costs.get(name)
        rows.append(
            {
                "name": name,
                "finished": last.get(name),
                "jobs": None if cost is None else len(cost),
                "wall": None if cost is None else cost["s"].sum(),
                "longest": None if cost is None else cost["s"].max(),
                "cpu": None if cost is None else cost["cpu_time"].sum(min_count=1),
                "memory": None if cost is None else cost["max_rss"].max() * 2**20,
            }
        )
    return rows


def _costs(logs: Path) -> dict[str, pd.DataFrame]:
    """Snakemake's benchmark rows by stage: `s` and `cpu_time` in seconds, `max_rss` in MiB (missing for short jobs)."""
    tables: dict[str, list[pd.DataFrame]] = {}
    for path in sorted(set(logs.rglob("*.tsv")) - {logs / "write_report.tsv"}):  # an earlier page's
        table = pd.read_csv(path, sep="\t", na_values=["-", "NA"])
        absent = [column for column in ("s", "max_rss", "cpu_time") if column not in table]
        if absent:
            raise UserError(f"{path}: no column {absent[0]!r}, so not a benchmark file of Snakemake")
        tables.setdefault(_stage(path.relative_to(logs)), []).append(table.astype({"s": float}))
    return {name: pd.concat(parts, ignore_index=True) for name, parts in tables.items()}


def _by_licence(licences: dict[str, str]) -> dict[str, list[str]]:
    """The models and data sets under each licence."""
    found: dict[str, list[str]] = {}
    for thing, licence in licences.items():
        found.setdefault(licence, []).append(thing)
    return found


def _stage(path: Path) -> str:
    """The stage of a record or benchmark file: its first folder, or by its name where it lies at the top."""
    name = path.parts[0] if len(path.parts) > 1 else path.name.split(".")[0]
    return "regress" if name.startswith("regression") else STAGES.get(name, name)
