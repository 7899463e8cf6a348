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
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet

from workflow_scripts.command import load_spec, parser, run
from workflow_scripts.errors import UserError
from workflow_scripts.files import atomic, fingerprint, write_run_record
from workflow_scripts.images import container
from workflow_scripts.plan import PoolJob
from workflow_scripts.pool.choose import seeded_order, share_out
from workflow_scripts.pool.stages import Stages
from workflow_scripts.records import SCHEMAS, write_table
from workflow_scripts.workers import workers

log = logging.getLogger("capsweep")

Facts = dict[str, Any]
_PART = 50_000  # rows of the table that are in memory as a whole


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
    used = set()
    with atomic(args.out) as temporary, pyarrow.parquet.ParquetWriter(temporary, SCHEMAS["images"]) as writer:
        for part in images:
            writer.write_table(part)
            used |= {container(path).name for path in part["path"].to_pylist()}
    shutil.rmtree(partial)
    for tar in packed.glob("*.tar"):
        if tar.name not in used:  # of the table that was just replaced
            tar.unlink()


def build_pool(job: PoolJob, stages: Stages) -> tuple[Iterator[pa.Table], pa.Table, dict[str, Facts]]:
    """Table `images` in the pool's order, in parts; table `left_out` in the sources' order; counts by source.

    The bytes of all images are hashed, those of the sample are decoded; one that does not decode is left out and the
    next in the order takes its place. Raises UserError where a source has too few usable images.
    """
    names = list(job.sources)
    quotas = share_out(job.size, {name: source.count for name, source in job.sources.items()})
    found, source_of = stages.hash_all({name: source.path for name, source in job.sources.items()})
    usable = np.flatnonzero(found["reason"].is_null())
    order, copies, originals = (usable[positions] for positions in seeded_order(_ids(found), job.seed))
    queues = [order[source_of[order] == number] for number in range(len(names))]
    checked, checks = stages.first_sound(found, queues, [quotas[name] for name in names])
    sound = checks["reason"].is_null().to_numpy()
    left_out = _left_out(found, (copies, originals), (checked[~sound], checks.filter(~sound)), names, source_of)

    place = np.empty(len(found), int)
    place[order] = np.arange(len(order))
    in_order = np.flatnonzero(sound)[np.argsort(place[checked[sound]])]
    rows, drawn = checked[in_order], checks.take(in_order)
    facts = {
        name: {
            "files": int((source_of == number).sum()),
            "left_out": _counts(left_out.filter(pc.equal(left_out["source"], name))["reason"]),
            "asked": quotas[name],
            "sampled": int((source_of[rows] == number).sum()),
            "notes": _counts(drawn["notes"].filter(source_of[rows] == number)),
        }
        for number, name in enumerate(names)
    }
    if len(rows) < job.size:
        lines = [f"\n  pool.sources.{name}: {describe(counts)}" for name, counts in facts.items()]
        raise UserError(f"pool.size: {job.size} images asked, {len(rows)} usable ones found" + "".join(lines))
    return _images(found, rows, drawn, names, source_of), left_out, facts


def _ids(found: pa.Table) -> Iterator[str]:
    """The ids of the usable images, few at a time as Python's strings."""
    for start in range(0, len(found), _PART):
        yield from found["image_id"].slice(start, _PART).drop_null().to_pylist()


def _images(
    found: pa.Table, rows: np.ndarray, checks: pa.Table, names: list[str], source_of: np.ndarray
) -> Iterator[pa.Table]:
    """Table `images` of these rows of `found` in this order, in parts. `checks` is about the same rows."""
    for start in range(0, len(rows), _PART):
        part, check = rows[start : start + _PART], checks.slice(start, _PART)
        yield pa.table(
            {
                "index": np.arange(start, start + len(part)),
                "image_id": found["image_id"].take(part),
                "source": pa.array(names).take(pa.array(source_of[part])),
                "path": pc.coalesce(check["packed"], found["path"].take(part)),
                **{column: check[column] for column in ("width", "height", "notes")},
            }
        )


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


def _counts(values: pa.ChunkedArray) -> dict[str, int]:
    """How often each word occurs in cells of words joined by commas."""
    counts: Counter[str] = Counter()
    for cell in values.value_counts().to_pylist():
        for word in (cell["values"] or "").split(","):
            counts[word] += cell["counts"]
    return {word: number for word, number in sorted(counts.items()) if word}


if __name__ == "__main__":
    run(main)
