"""Bring a captioner's caption jobs together: one manifest of its shards.

    python -m workflow_scripts.captions.collect --spec '{"captioner": "late", "leave_out": ["empty", "cut"]}' \\
        --jobs results/captions/late/jobs/*.json --out results/captions/late/captions.json

Files in: the jobs' manifests and the shards that they list. File out: --out {"fingerprint", "leave_out", "shards":
[{"path" (relative to it), "rows", "sha256"}]}. `leave_out` are the faults that keep a caption out of training; whoever
reads captions through the manifest sees the others as sound.
"""

import os
from collections import Counter
from pathlib import Path
from typing import Any

from workflow_scripts.captions.read import shard_paths, training_faults
from workflow_scripts.command import load_spec, parser, run
from workflow_scripts.errors import UserError
from workflow_scripts.files import read_json, sha256_file, write_json, write_run_record
from workflow_scripts.plan import CollectCaptionsJob
from workflow_scripts.records import read_table


def main(argv: list[str] | None = None) -> None:
    """Write the manifest of one captioner."""
    arguments = parser(__doc__)
    arguments.add_argument("--jobs", type=Path, nargs="+", required=True, help="manifests of the caption jobs")
    arguments.add_argument("--out", type=Path, required=True, help="manifest of all shards")
    args = arguments.parse_args(argv)
    job = load_spec(args.spec, CollectCaptionsJob)
    manifest = {**join_jobs(args.jobs, args.out.parent), "leave_out": job.leave_out}
    paths = [args.out.parent / shard["path"] for shard in manifest["shards"]]
    counts = Counter()
    for path in paths:
        faults = training_faults(read_table(path, "captions"), job.leave_out)
        counts += Counter(num_images=len(faults), num_usable=int(faults.isna().sum()))
    if not counts["num_usable"]:
        raise UserError(f"captioner {job.captioner}: none of its {counts['num_images']} captions is usable")
    write_run_record(args.out, job.model_dump(mode="json"), **counts)
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


if __name__ == "__main__":
    run(main)
