"""Sample the image pool from folders of images.

    python -m workflow_scripts.pool.build --out results/pool/images.parquet \\
        --spec '{"sources": {"coco": {"path": "data/coco", "count": 118287}}, "size": 1000, "seed": 0}'

Files in: png, jpg, jpeg and webp files anywhere below each source's folder. Files out: --out (table `images`), and
its run record, which lists every file that could not be used and why.

An image is its bytes: two files with the same bytes are one image. Which images are drawn, and their order, follow
from sha256(seed, image id) alone, so moving or renaming files changes nothing. The order is random, so the first n
rows are a random subset of n images.
"""

import hashlib
import logging
import os
from pathlib import Path
from typing import Any

from PIL import Image

from workflow_scripts.command import load_spec, parser, run
from workflow_scripts.errors import NotInThisVersion, UserError
from workflow_scripts.files import sha256_file, write_run_record
from workflow_scripts.plan import PoolJob
from workflow_scripts.progress import Progress
from workflow_scripts.records import write_table

log = logging.getLogger("capsweep")

IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".webp")
ARCHIVE_SUFFIXES = (".tar", ".tgz", ".gz", ".zip", ".parquet")


def main(argv: list[str] | None = None) -> None:
    """Sample the pool and write it."""
    arguments = parser(__doc__)
    arguments.add_argument("--out", type=Path, required=True, help="Parquet file of the pool")
    args = arguments.parse_args(argv)
    job = load_spec(args.spec, PoolJob)
    rows, facts = build_pool(job)
    write_run_record(args.out, job.model_dump(mode="json"), **facts)
    write_table(args.out, rows, "images")
    log.info(
        "%s: %d images, %d duplicates and %d unreadable files left out",
        args.out,
        len(rows),
        len(facts["duplicates"]),
        len(facts["unreadable"]),
    )


def build_pool(job: PoolJob) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The pool's rows in their order, and the facts for the run record.

    `facts` holds `sources` (counts by source), `duplicates` [{path, same_as}] and `unreadable` [{path, reason}];
    only files that came up for the sample are tried. Raises UserError where a source has too few readable images.
    """
    files = {name: _image_files(name, source.path) for name, source in job.sources.items()}
    quotas = share_out(job.size, {name: source.count for name, source in job.sources.items()})
    progress = Progress(sum(map(len, files.values())), "files")
    first_path: dict[str, Path] = {}
    duplicates, unreadable, counts, rows = [], [], {}, []
    for name, paths in files.items():
        ids = []
        for path in paths:
            image_id = sha256_file(path)
            if image_id in first_path:
                duplicates.append({"path": str(path), "same_as": str(first_path[image_id])})
            else:
                first_path[image_id] = path
                ids.append(image_id)
            progress.update(1)
        sampled, broken = _first_readable(sorted(ids, key=lambda i: order_key(job.seed, i)), first_path, quotas[name])
        unreadable += broken
        counts[name] = {
            "files": len(paths),
            "duplicates": len(paths) - len(ids),
            "unreadable": len(broken),
            "asked": quotas[name],
            "sampled": len(sampled),
        }
        rows += [{**row, "source": name} for row in sampled]
    if any(count["sampled"] < count["asked"] for count in counts.values()):
        lines = [
            f"\n  pool.sources.{name}: " + ", ".join(f"{n} {what}" for what, n in count.items())
            for name, count in counts.items()
        ]
        raise UserError(f"pool.size: {job.size} images asked, {len(rows)} readable ones found" + "".join(lines))
    rows.sort(key=lambda row: order_key(job.seed, row["image_id"]))
    return (
        [{"index": index, **row} for index, row in enumerate(rows)],
        {"sources": counts, "duplicates": duplicates, "unreadable": unreadable},
    )


def order_key(seed: int, image_id: str) -> bytes:
    """Where an image stands in the seeded order."""
    return hashlib.sha256(f"{seed}:{image_id}".encode()).digest()


def share_out(size: int, counts: dict[str, int]) -> dict[str, int]:
    """`size` divided in proportion to `counts`, whole numbers by largest remainder (ties: the first name)."""
    total = sum(counts.values())
    shares = {name: size * count // total for name, count in counts.items()}
    by_remainder = sorted(counts, key=lambda name: -(size * counts[name] % total))
    for name in by_remainder[: size - sum(shares.values())]:
        shares[name] += 1
    return shares


def _image_files(name: str, folder: Path | None) -> list[Path]:
    """The image files below a source's folder, by path."""
    place = f"pool.sources.{name}.path"
    if folder is None or not folder.exists():
        raise UserError(f"{place}: no such folder {folder}")
    if folder.is_file():
        if folder.suffix.lower() in ARCHIVE_SUFFIXES:
            raise NotInThisVersion(f"{place}: {folder} is an archive, this version reads folders of images: unpack it")
        raise UserError(f"{place}: {folder} is a file, expected a folder of images")
    everything = [Path(parent, file) for parent, _, names in os.walk(folder, followlinks=True) for file in names]
    images = sorted(path for path in everything if path.suffix.lower() in IMAGE_SUFFIXES)
    archives = [path for path in everything if path.suffix.lower() in ARCHIVE_SUFFIXES]
    if archives and not images:
        raise NotInThisVersion(
            f"{place}: {folder} holds archives such as {archives[0].name}, this version reads folders of images: "
            "unpack them"
        )
    return images


def _first_readable(
    ids: list[str], paths: dict[str, Path], count: int
) -> tuple[list[dict[str, Any]], list[dict[str, str]]]:
    """Rows of the first `count` images that decode, and the files that did not."""
    rows, broken = [], []
    for image_id in ids:
        if len(rows) == count:
            break
        path = paths[image_id]
        try:
            with Image.open(path) as image:
                image.load()
                width, height = image.size
        except Exception as error:  # decoders raise whatever they like on broken bytes
            broken.append({"path": str(path), "reason": f"{type(error).__name__}: {error}"})
            continue
        rows.append({"image_id": image_id, "path": str(path), "width": width, "height": height})
    return rows, broken


if __name__ == "__main__":
    run(main)
