"""What a worker does with a chunk of images: hash them all and read their headers, decode those of the sample."""

import functools
import hashlib
import io
import tarfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet

from workflow_scripts.errors import UserError
from workflow_scripts.files import atomic
from workflow_scripts.images import BadImage, check_header, container, measure, member_path, read_bytes
from workflow_scripts.pool import parquet
from workflow_scripts.records import write_table

MIN_SIDE = 16  # px

Row = dict[str, Any]
Tar = tuple[tarfile.TarFile, Path]  # one being written, and what it will be called


def hash_chunk(task: tuple[Path, Path, Path]) -> int:
    """Read every image of a file `pool_files` and write a table `pool_hashes` with its rows; how many there are."""
    listed, out, _ = task
    rows = [_hashed(row) for row in pyarrow.parquet.read_table(listed).to_pylist()]
    write_table(out, rows, "pool_hashes")
    return len(rows)


def _hashed(row: Row) -> Row:
    kept = {key: row[key] for key in ("path", "reason", "detail")}
    if row["reason"]:
        return {**kept, "image_id": None}
    try:
        content = _read(row["path"])
        check_header(content, MIN_SIDE)
    except BadImage as error:
        return {**kept, "image_id": None, "reason": error.reason, "detail": error.detail}
    except OSError as error:
        return {**kept, "image_id": None, "reason": "unreadable", "detail": str(error)}
    return {**kept, "image_id": hashlib.sha256(content).hexdigest()}


def check_chunk(task: tuple[Path, Path, Path]) -> int:
    """Decode the images of a file `pool_hashes` and write a table `pool_checks` with its rows; how many there are.

    Sound images out of Parquet files are copied into the tar `packed`, where they can be read one by one. Raises
    UserError for a file that changed since it was hashed.
    """
    asked, out, packed = task
    with ExitStack() as stack:
        new_tar = functools.cache(lambda: stack.enter_context(_new_tar(packed)))  # only where one is needed
        rows = [_checked(row, new_tar) for row in pyarrow.parquet.read_table(asked).to_pylist()]
    write_table(out, rows, "pool_checks")
    return len(rows)


def _checked(row: Row, new_tar: Callable[[], Tar]) -> Row:
    path = row["path"]
    content = _read(path)
    if hashlib.sha256(content).hexdigest() != row["image_id"]:
        raise UserError(f"{path}: the file changed while the pool was built; start again")
    try:
        width, height, notes = measure(content)
    except BadImage as error:
        return {**dict.fromkeys(("packed", "width", "height", "notes")), "reason": error.reason, "detail": error.detail}
    packed = _pack(new_tar(), path.rsplit("/", 1)[-1], content) if _in_parquet(path) else None
    return {
        "packed": packed,
        "width": width,
        "height": height,
        "notes": ",".join(notes) or None,
        "reason": None,
        "detail": None,
    }


def _in_parquet(path: str) -> bool:
    return container(path).suffix.lower() == ".parquet"


def _read(path: str) -> bytes:
    return parquet.read_row(path) if _in_parquet(path) else read_bytes(path)


@contextmanager
def _new_tar(path: Path) -> Iterator[Tar]:
    with atomic(path) as temporary, tarfile.open(temporary, "w") as tar:
        yield tar, path


def _pack(target: Tar, name: str, content: bytes) -> str:
    """Add an image to a tar; its path there."""
    tar, path = target
    member = tarfile.TarInfo(name)
    member.size = len(content)
    tar.addfile(member, io.BytesIO(content))
    blocks = -(-len(content) // tarfile.BLOCKSIZE)
    return member_path(path, tar.offset - blocks * tarfile.BLOCKSIZE, len(content), name)
