"""Bring a captioner's caption jobs together: one manifest of its shards, one row of statistics.

    python -m workflow_scripts.captions.collect --spec '{"captioner": "late", "leave_out": ["empty", "cut"]}' \\
        --jobs results/captions/late/jobs/*.json --out results/captions/late/captions.json \\
        --statistics results/captions/late/statistics.csv

Files in: the jobs' manifests and the shards that they list. Files out: --out {"fingerprint", "leave_out", "shards":
[{"path" (relative to it), "rows", "sha256"}]} and --statistics (table `caption_statistics`). `leave_out` are the
faults that keep a caption out of training; whoever reads captions through the manifest sees the others as sound.
"""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from workflow_scripts.captions.degenerate import repetition
from workflow_scripts.captions.read import pass_over_faults, shard_paths
from workflow_scripts.command import load_spec, parser, run
from workflow_scripts.errors import UserError
from workflow_scripts.files import read_json, sha256_file, write_json, write_run_record
from workflow_scripts.plan import CollectCaptionsJob
from workflow_scripts.records import read_table, write_table


def main(argv: list[str] | None = None) -> None:
    """Write the manifest and the statistics of one captioner."""
    arguments = parser(__doc__)
    arguments.add_argument("--jobs", type=Path, nargs="+", required=True, help="manifests of the caption jobs")
    arguments.add_argument("--out", type=Path, required=True, help="manifest of all shards")
    arguments.add_argument("--statistics", type=Path, required=True, help="CSV file, one row")
    args = arguments.parse_args(argv)
    job = load_spec(args.spec, CollectCaptionsJob)
    manifest = {**join_jobs(args.jobs, args.out.parent), "leave_out": job.leave_out}
    paths = [args.out.parent / shard["path"] for shard in manifest["shards"]]
    shards = (pass_over_faults(read_table(path, "captions"), job.leave_out) for path in paths)
    statistics = caption_statistics(job.captioner, shards)
    if not statistics["num_usable"]:
        raise UserError(f"captioner {job.captioner}: none of its {statistics['num_images']} captions is usable")
    settings = job.model_dump(mode="json")
    write_run_record(args.statistics, settings, **statistics)
    write_table(args.statistics, [statistics], "caption_statistics")
    write_run_record(args.out, settings, **statistics)
    write_json(args.out, manifest)


def join_jobs(jobs: list[Path], folder: Path) -> dict[str, Any]:
    """One manifest, its paths relative to `folder`, of all the jobs' shards by name.

    Raises UserError where jobs were made from different things, a shard stands twice, or a file has changed.
    """
    listed, made_from = {}, {}
    for job in jobs:
        manifest = read_json(job)
        made_from[manifest["fingerprint"]] = job
        for path, shard in zip(shard_paths(job), manifest["shards"], strict=True):
            relative = os.path.relpath(path, folder)
            if relative in listed:
                raise UserError(f"{job}: shard {path} belongs to another job too")
            if sha256_file(path) != shard["sha256"]:
                raise UserError(f"{job}: shard {path} has changed since; delete it and run its job again")
            listed[relative] = {**shard, "path": relative}
    if len(made_from) > 1:
        made = ", ".join(f"{job} from {name}" for name, job in made_from.items())
        raise UserError(f"the caption jobs were made from different settings or pools: {made}")
    return {"fingerprint": next(iter(made_from)), "shards": [listed[path] for path in sorted(listed)]}


def caption_statistics(captioner: str, shards: Iterable[pd.DataFrame]) -> dict[str, Any]:
    """One row of table `caption_statistics` over all shards; words are split at spaces and counted in usable captions.

    `repetition` is the mean share of a caption's windows of four words that stood in it before (Welleck et al.
    2020, seq-rep-4): about 0 in sound text, towards 1 in endless repetition.
    """
    counts = dict.fromkeys(("num_images", "num_usable", "num_errors", "num_empty", "num_cut"), 0)
    words, tokens, repetitions, distinct = [], [], [], set()
    for shard in shards:
        usable = shard[shard["error"].isna()]
        counts["num_images"] += len(shard)
        counts["num_usable"] += len(usable)
        counts["num_errors"] += int((shard["error"].notna() & ~shard["error"].isin(["empty", "cut"])).sum())
        counts["num_empty"] += int((shard["error"] == "empty").sum())
        counts["num_cut"] += int((shard["finish_reason"] == "length").sum())
        tokens.append(usable["num_tokens"].dropna().to_numpy(float))
        for caption in usable["caption"]:
            split = caption.lower().split()
            words.append(len(split))
            distinct.update(split)
            repetitions.append(repetition(split))
    tokens = np.concatenate(tokens) if tokens else np.empty(0)
    return {
        "captioner": captioner,
        **counts,
        "words_mean": float(np.mean(words)) if words else None,
        "words_p50": float(np.quantile(words, 0.5)) if words else None,
        "words_p95": float(np.quantile(words, 0.95)) if words else None,
        "tokens_mean": float(tokens.mean()) if tokens.size else None,
        "distinct_words": len(distinct),
        "repetition": float(np.mean(repetitions)) if repetitions else None,
    }


if __name__ == "__main__":
    run(main)
