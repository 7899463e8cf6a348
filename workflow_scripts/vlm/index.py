"""List a data set of conversations once: the place of each, and every fault of its turns and images before training.

    python -m workflow_scripts.vlm.index --spec '{"data": {"path": "data/llava/mix665k"}, "images": "data"}' \\
        --out results/conversations/mix665k/index.parquet --threads 8

In: a JSON array or JSON lines in LLaVA's shape, read once from front to back, and its images in a folder or a zip
(workflow_scripts/vlm/conversations.py). Every image is decoded as a whole.
Out: left_out.csv beside --out (table `faulty_samples`), which stays whatever happens; then, unless there are faults and
`faulty_samples` is `error`, --out (table `conversations`) after its run record. A killed job goes on with the images
that are not checked yet, and one that stopped at faults decodes only files that changed.
"""

import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet

from workflow_scripts.command import load_spec, parser, run
from workflow_scripts.errors import UserError
from workflow_scripts.files import sha256_file, write_run_record
from workflow_scripts.json_values import scan
from workflow_scripts.plan import IndexJob
from workflow_scripts.progress import Progress, log
from workflow_scripts.records import SCHEMAS, write_table
from workflow_scripts.vlm.conversations import SHA256, BadConversation, find_images, find_json, read_row
from workflow_scripts.vlm.image_files import ImageFiles, check_all

_PART = 20_000  # rows that are Python's objects at once
_FAULT = pa.schema([("index", pa.int64()), *((name, pa.string()) for name in ("image", "reason", "detail"))])

Fault = dict[str, Any]  # of _FAULT


def main(argv: list[str] | None = None) -> None:
    """Index one data set."""
    arguments = parser(__doc__)
    arguments.add_argument("--out", type=Path, required=True, help="Parquet file of the index")
    arguments.add_argument("--threads", type=int, default=1, help="processes that decode images")
    args = arguments.parse_args(argv)
    job = load_spec(args.spec, IndexJob)
    file = find_json(job.data.path)
    images = find_images(file, job.images)
    log.info("conversations %s, images %s", file, images or "none")
    digest = sha256_file(file)  # first: what changes from now on, training will see
    rows, faults = read_conversations(file, images)
    if not len(rows):
        raise UserError(f"{file}: there is no conversation in it")
    partial = args.out.parent / ".partial"
    paths = pc.unique(pc.list_flatten(rows["images"]))
    rows, faults = with_faults(rows, faults, check_all(paths, partial, args.threads))
    reasons = rows["fault"].drop_null().to_pylist()
    listed = args.out.with_name("left_out.csv")
    write_table(listed, faults, "faulty_samples")
    if reasons:
        complain(job, file, len(rows), reasons, listed)
    write_run_record(
        args.out,
        job.model_dump(mode="json"),
        json=str(file),
        json_sha256=digest,
        num_conversations=len(rows),
        num_images=len(paths),
        num_left_out=dict(Counter(reasons)),
    )
    write_table(args.out, rows, "conversations", {SHA256: digest})
    shutil.rmtree(partial, ignore_errors=True)


def complain(job: IndexJob, file: Path, total: int, reasons: list[str], listed: Path) -> None:
    """Say how many conversations have which faults. Raises UserError where they are errors, or nothing is left."""
    counts = ", ".join(f"{number} {reason}" for reason, number in Counter(reasons).most_common())
    told = f"{file}: {len(reasons)} of {total} conversations are faulty ({counts}), listed in {listed}"
    if job.faulty_samples == "error":
        raise UserError(f"{told}. Mend them, or set faulty_samples: leave_out in the stages with these data")
    if len(reasons) == total:
        raise UserError(f"{told}: none is left")
    log.info("%s: left out", told)


def read_conversations(file: Path, images: Path | None) -> tuple[pa.Table, list[Fault]]:
    """Table `conversations`, and the faults of the text, which alone it has yet.

    Raises UserError for broken JSON, and where there are images but no place for them.
    """
    image_files = ImageFiles(file, images)
    parts, faults = [SCHEMAS["conversations"].empty_table()], []
    for part in _parts(file, faults):
        named = part["images"].combine_chunks()
        paths = pa.ListArray.from_arrays(named.offsets, image_files.paths(named.values))
        parts.append(_replaced(part, "images", paths))
    return pa.concat_tables(parts).combine_chunks(), faults


def _parts(file: Path, faults: list[Fault]) -> Iterator[pa.Table]:
    """Table `conversations` with images as they are named; the faults of its rows are added to `faults`."""
    part: list[dict[str, Any]] = []
    progress = Progress(file.stat().st_size // 10**6, "MB")
    for index, (row, offset, length) in enumerate(scan(file)):
        name = row.get("id") if isinstance(row, dict) else None
        one = {"index": index, "offset": offset, "length": length, "id": None if name is None else _storable(str(name))}
        try:
            part.append(one | {"images": read_row(row).images, "fault": None})
        except BadConversation as error:
            part.append(one | {"images": [], "fault": error.reason})
            faults.append({"index": index, "image": None, "reason": error.reason, "detail": error.detail})
        if len(part) == _PART:
            yield pa.Table.from_pylist(part, SCHEMAS["conversations"])
            part.clear()
            progress.update((offset + length) // 10**6 - progress.done)
    yield pa.Table.from_pylist(part, SCHEMAS["conversations"])


def _storable(text: str) -> str:
    """Lone surrogates, which no table holds, as `\\ud800`."""
    return text.encode(errors="backslashreplace").decode()


def with_faults(rows: pa.Table, faults: list[Fault], broken: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Table `conversations` with the faults of its images too, and table `faulty_samples`. `faults` are those of the
    text; `broken` is a table `image_checks`."""
    images = rows["images"].combine_chunks()
    which = pc.index_in(images.flatten(), value_set=broken["path"])
    found = broken.take(which.drop_null())
    owner = pc.list_parent_indices(images).filter(which.is_valid()).cast(pa.int64())  # a row's number is its index
    told = ("reason", "detail")
    listed = pa.concat_tables(
        [
            pa.Table.from_pylist(faults, _FAULT),
            pa.table({"index": owner, "image": found["path"], **{name: found[name] for name in told}}, _FAULT),
        ]
    ).sort_by("index")
    first = pc.index_in(rows["index"], value_set=listed["index"])  # of several faults, a sample is counted under one
    rows = _replaced(rows, "fault", listed["reason"].combine_chunks().take(first))
    index = listed["index"]
    about = {
        "sample": pc.binary_join_element_wise("conversation", index.cast(pa.string()), ":"),
        "id": rows["id"].take(index),
    }
    return rows, pa.table({**about, **{name: listed[name] for name in ("image", *told)}})


def _replaced(table: pa.Table, name: str, column: pa.Array | pa.ChunkedArray) -> pa.Table:
    return table.set_column(table.schema.get_field_index(name), name, column)


if __name__ == "__main__":
    run(main)
