"""Caption a range of the pool's shards with one captioner.

    python -m workflow_scripts.captions.caption --spec '{"engine": {"engine": "exact", ...}, ...}' \\
        --pool results/pool/images.parquet --shards 0:12 --out-dir results/captions/perfect \\
        --out results/captions/perfect/jobs/00000.json --serving '{"threads": 4}'

Files in: --pool and the images that it names. Files out: --out-dir/<shard>.parquet (table `captions`), then the
manifest --out. A shard holds the rows of the pool from shard x shard_size on. It carries the fingerprint of the
settings, the pool and the model or file behind the captions: a later run keeps shards with the right one and
redoes the others; finished rows of unfinished shards wait in --out-dir/.partial/<fingerprint>/.
"""

import logging
import os
from collections import defaultdict
from pathlib import Path

import pyarrow.parquet

from workflow_scripts import engines
from workflow_scripts.captions.read import FINGERPRINT, ROW_GROUP, shard_fingerprint
from workflow_scripts.captions.work import Row, caption_pictures, count_rows, say_counts
from workflow_scripts.command import load_spec, parser, run
from workflow_scripts.engines.interface import Picture
from workflow_scripts.errors import UserError
from workflow_scripts.files import fingerprint, remove_leftovers, sha256_file, write_json, write_run_record
from workflow_scripts.plan import CaptionJob, ServingJob
from workflow_scripts.progress import Progress
from workflow_scripts.records import read_table, write_table

log = logging.getLogger("capsweep")


def main(argv: list[str] | None = None) -> None:
    """Caption the shards of one job."""
    arguments = parser(__doc__)
    arguments.add_argument("--serving", default="{}", help="how the engine runs, as JSON: GPUs, threads, an address")
    arguments.add_argument("--pool", type=Path, required=True, help="images.parquet")
    arguments.add_argument("--shards", required=True, help="FIRST:STOP, the shards from FIRST to before STOP")
    arguments.add_argument("--out-dir", type=Path, required=True, help="folder of the captioner's shards")
    arguments.add_argument("--out", type=Path, required=True, help="manifest of the job, written last")
    args = arguments.parse_args(argv)
    job, serving = load_spec(args.spec, CaptionJob), load_spec(args.serving, ServingJob)
    engines.check(job.engine, f"captioners.{args.out_dir.name}")
    images = read_table(args.pool, "images")
    pictures = [Picture(*names) for names in zip(images["image_id"], images["path"], strict=True)]
    settings = job.model_dump(mode="json")
    made_from = fingerprint(settings, args.pool, *engines.inputs(job.engine))
    shards = shard_rows(args.shards, len(pictures), job.shard_size)
    paths = {shard: args.out_dir / f"{shard:05d}.parquet" for shard in shards}
    for path in (args.out, *paths.values()):
        remove_leftovers(path)
    kept = {shard for shard, path in paths.items() if shard_fingerprint(path) == made_from}
    total, done = sum(map(len, shards.values())), sum(len(shards[shard]) for shard in kept)
    wanted = [number for shard, rows in shards.items() if shard not in kept for number in rows]
    open_shards: dict[int, dict[int, Row]] = defaultdict(dict)

    def finish(number: int, row: Row) -> None:
        shard = number // job.shard_size
        rows = open_shards[shard]
        rows[number] = row
        if len(rows) == len(shards[shard]):
            in_order = [rows[number] for number in shards[shard]]
            write_table(paths[shard], in_order, "captions", {FINGERPRINT: made_from}, ROW_GROUP)
            del open_shards[shard]

    folder = args.out_dir / ".partial" / made_from / args.shards.replace(":", "-")
    journal, facts = caption_pictures(job, serving, pictures, wanted, folder, Progress(total, "images", done), finish)
    counts = count_rows(pyarrow.parquet.read_table(list(paths.values())))
    log.info("%s: %s", args.out_dir.name, say_counts(counts))
    write_run_record(args.out, settings, **counts, **facts)
    listed = [
        {
            "path": os.path.relpath(path, args.out.parent),
            "rows": len(shards[shard]),
            "sha256": sha256_file(path),
        }
        for shard, path in paths.items()
    ]
    write_json(args.out, {"fingerprint": made_from, "shards": listed})
    journal.remove()


def shard_rows(text: str, num_images: int, shard_size: int | None) -> dict[int, range]:
    """The rows of the pool in each shard of `FIRST:STOP`. Raises UserError for shards that the pool does not have."""
    if shard_size is None:
        raise UserError("--spec: shard_size is null, which is for CAPEval's images; the pool is captioned in shards")
    num_shards = -(-num_images // shard_size)
    first, colon, stop = text.partition(":")
    if not (colon and first.isdecimal() and stop.isdecimal() and int(first) < int(stop) <= num_shards):
        raise UserError(f"--shards: {text!r} is no FIRST:STOP within the pool's {num_shards} shards (0:{num_shards})")
    starts = {shard: shard * shard_size for shard in range(int(first), int(stop))}
    return {shard: range(start, min(start + shard_size, num_images)) for shard, start in starts.items()}


if __name__ == "__main__":
    run(main)
