"""Bring a captioner's caption jobs together: one manifest of its shards, one row of statistics.

    python -m workflow_scripts.captions.collect --captioner late --jobs results/captions/late/jobs/*.json \\
        --out results/captions/late/captions.json --statistics results/captions/late/statistics.csv

Files in: the jobs' manifests and the shards that they list. Files out: --out {"fingerprint", "shards": [{"path"
(relative to it), "rows", "sha256"}]} and --statistics (table `caption_statistics`).
"""

import argparse
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from workflow_scripts.captions.read import shard_paths
from workflow_scripts.command import run
from workflow_scripts.errors import UserError
from workflow_scripts.files import read_json, sha256_file, write_json, write_run_record
from workflow_scripts.records import read_table, write_table

WINDOW = 4  # words


def main(argv: list[str] | None = None) -> None:
    """Write the manifest and the statistics of one captioner."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--jobs", type=Path, nargs="+", required=True, help="manifests of the caption jobs")
    arguments.add_argument("--captioner", required=True, help="name of the captioner")
    arguments.add_argument("--out", type=Path, required=True, help="manifest of all shards")
    arguments.add_argument("--statistics", type=Path, required=True, help="CSV file, one row")
    args = arguments.parse_args(argv)
    manifest = join_jobs(args.jobs, args.out.parent)
    paths = [args.out.parent / shard["path"] for shard in manifest["shards"]]
    statistics = caption_statistics(args.captioner, (read_table(path, "captions") for path in paths))
    if not statistics["num_usable"]:
        raise UserError(f"captioner {args.captioner}: none of its {statistics['num_images']} captions is usable")
    settings = {"captioner": args.captioner, "jobs": [str(path) for path in args.jobs]}
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
        counts["num_errors"] += len(shard) - len(usable)
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


def repetition(words: list[str]) -> float:
    """The share of windows of four words that stood in the text before, 0-1; 0 where there is no window."""
    windows = [tuple(words[start : start + WINDOW]) for start in range(len(words) - WINDOW + 1)]
    return 1 - len(set(windows)) / len(windows) if windows else 0.0


if __name__ == "__main__":
    run(main)
