"""Sample the image pool from folders of images, tars and Parquet files.

    python -m workflow_scripts.pool.build --out results/pool/images.parquet --left-out results/pool/left_out.csv \\
        --spec '{"sources": {"coco": {"path": "data/coco", "count": 118287}}, "size": 1000, "seed": 0}' --threads 8

Files in: all images below each source's folder, loose, in plain tars (webdataset, img2dataset, SA-1B) or in Parquet
files with their bytes. Files out: --left-out (table `left_out`: what the sources hold and the pool cannot have, and
why), then --out (table `images`) after its run record, which counts by source. Images in tars are addressed in place
(workflow_scripts/images.py). Only those in Parquet files, which cannot be read one by one, are copied, into tars in
the folder packed/ beside --out. Unfinished work waits in .partial/<fingerprint>/ beside --out.

An image is its bytes: two files with the same bytes are one image. Which images are drawn, and their order, follow
from sha256(seed, image id) alone, so moving or renaming files changes nothing. The order is random, so the first n
rows are a random subset of n images.
"""

import logging
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from workflow_scripts.command import load_spec, parser, run
from workflow_scripts.errors import UserError
from workflow_scripts.files import fingerprint, write_run_record
from workflow_scripts.images import container
from workflow_scripts.plan import PoolJob
from workflow_scripts.pool.choose import seeded_order, share_out
from workflow_scripts.pool.stages import Stages
from workflow_scripts.pool.workers import workers
from workflow_scripts.records import write_table

log = logging.getLogger("capsweep")

Facts = dict[str, Any]


def main(argv: list[str] | None = None) -> None:
    """Sample the pool and write it."""
    arguments = parser(__doc__)
    arguments.add_argument("--out", type=Path, required=True, help="Parquet file of the pool")
    arguments.add_argument("--left-out", type=Path, required=True, help="CSV of what could not be used")
    arguments.add_argument("--threads", type=int, default=1, help="processes that read images")
    args = arguments.parse_args(argv)
    job = load_spec(args.spec, PoolJob)
    partial = args.out.parent / ".partial" / fingerprint(job.model_dump(mode="json"))
    packed = args.out.parent / "packed"
    with workers(args.threads) as map_:
        images, left_out, facts = build_pool(job, Stages(partial, packed, map_))
    for name, counts in facts.items():
        log.info("pool.sources.%s: %s", name, describe(counts))
    write_table(args.left_out, left_out, "left_out")
    write_run_record(args.out, job.model_dump(mode="json"), sources=facts)
    write_table(args.out, images, "images")
    shutil.rmtree(partial)
    used = {container(path) for path in images["path"].to_pylist()}
    for stale in set(packed.glob("*.tar")) - used:  # of the table that was just replaced
        stale.unlink()


def build_pool(job: PoolJob, stages: Stages) -> tuple[pa.Table, pa.Table, dict[str, Facts]]:
    """The tables `images` in the pool's order and `left_out` in the sources', and counts by source.

    The bytes of all images are hashed, those of the sample are decoded; one that does not decode is left out and the
    next in the order takes its place. Raises UserError where a source has too few usable images.
    """
    names = list(job.sources)
    quotas = share_out(job.size, {name: source.count for name, source in job.sources.items()})
    found, source_of = stages.hash_all({name: source.path for name, source in job.sources.items()})
    usable = np.flatnonzero(found["reason"].is_null())
    ids = (image_id.as_py() for image_id in found["image_id"].take(usable))
    order, copies, originals = (usable[positions] for positions in seeded_order(ids, job.seed))
    queues = [order[source_of[order] == number] for number in range(len(names))]
    checked, checks = stages.first_sound(found, queues, [quotas[name] for name in names])
    sound = checks["reason"].is_null().to_numpy()

    place = np.empty(len(found), int)
    place[order] = np.arange(len(order))
    in_order = np.flatnonzero(sound)[np.argsort(place[checked[sound]])]
    rows, drawn = checked[in_order], checks.take(in_order)
    images = pa.table(
        {
            "index": np.arange(len(rows)),
            "image_id": found["image_id"].take(rows),
            "source": pa.array(names).take(pa.array(source_of[rows])),
            "path": pc.coalesce(drawn["packed"], found["path"].take(rows)),
            **{column: drawn[column] for column in ("width", "height", "notes")},
        }
    )
    left_out = _left_out(found, (copies, originals), (checked[~sound], checks.filter(~sound)), names, source_of)
    facts = _facts(quotas, np.bincount(source_of, minlength=len(names)), images, left_out)
    if len(images) < job.size:
        lines = [f"\n  pool.sources.{name}: {describe(counts)}" for name, counts in facts.items()]
        raise UserError(f"pool.size: {job.size} images asked, {len(images)} usable ones found" + "".join(lines))
    return images, left_out, facts


def describe(counts: Facts) -> str:
    """One source's counts in a line."""
    parts = [f"{counts['files']} files", *(f"{number} {reason}" for reason, number in counts["left_out"].items())]
    parts += [f"{counts['asked']} asked", f"{counts['sampled']} sampled"]
    notes = ", ".join(f"{number} {note}" for note, number in counts["notes"].items())
    return ", ".join(parts) + (f" (of these {notes})" if notes else "")


def _left_out(
    found: pa.Table,
    duplicates: tuple[np.ndarray, np.ndarray],
    broken: tuple[np.ndarray, pa.Table],
    names: list[str],
    source_of: np.ndarray,
) -> pa.Table:
    """Table `left_out`: what did not read, further copies of an image, and what did not decode."""
    unread = np.flatnonzero(found["reason"].is_valid())
    copies, originals = duplicates
    rows = np.concatenate([unread, copies, broken[0]])
    same_as = pc.binary_join_element_wise("same bytes as", found["path"].take(originals), " ")
    reasons = [found["reason"].take(unread), pa.repeat("duplicate", len(copies)), broken[1]["reason"]]
    details = [found["detail"].take(unread), same_as, broken[1]["detail"]]
    table = pa.table(
        {
            "source": pa.array(names).take(pa.array(source_of[rows])),
            "path": found["path"].take(rows),
            "reason": _joined(reasons),
            "detail": _joined(details),
        }
    )
    return table.take(np.argsort(rows))


def _joined(parts: list[pa.Array | pa.ChunkedArray]) -> pa.ChunkedArray:
    chunks = [chunk for part in parts for chunk in (part.chunks if isinstance(part, pa.ChunkedArray) else [part])]
    return pa.chunked_array(chunks, pa.string())


def _facts(quotas: dict[str, int], num_files: np.ndarray, images: pa.Table, left_out: pa.Table) -> dict[str, Facts]:
    """For each source: files, images asked and sampled, what is left out by reason, and the sample's notes."""
    facts = {}
    for (name, asked), files in zip(quotas.items(), num_files.tolist(), strict=True):
        drawn = images.filter(pc.equal(images["source"], name))
        lost = left_out.filter(pc.equal(left_out["source"], name))
        notes = Counter(note for value in drawn["notes"].drop_null().to_pylist() for note in value.split(","))
        facts[name] = {
            "files": files,
            "left_out": dict(sorted(Counter(lost["reason"].to_pylist()).items())),
            "asked": asked,
            "sampled": len(drawn),
            "notes": dict(sorted(notes.items())),
        }
    return facts


if __name__ == "__main__":
    run(main)
