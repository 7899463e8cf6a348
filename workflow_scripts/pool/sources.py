"""What the sources of a pool hold: files of images, members of plain tars, rows of Parquet files."""

import itertools
import os
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from workflow_scripts.errors import UserError
from workflow_scripts.images import SUFFIXES, member_path
from workflow_scripts.pool import parquet
from workflow_scripts.records import write_table
from workflow_scripts.workers import Map

CHUNK = 1000  # images that a worker takes at once, and what a killed run loses at most of each worker's work
MAX_BYTES = 2**30  # of one image

Row = dict[str, Any]  # of table `pool_files`
_COMPRESSED = (".gz", ".tgz", ".bz2", ".tbz", ".tbz2", ".xz", ".txz", ".zst", ".zip", ".rar", ".7z")
_COMPRESSED_MAGIC = (b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd", b"PK\x03\x04")
_UNPACK = "compressed: unpack it, or pack it as a plain .tar, which is read in place"


class Listing(NamedTuple):
    """Files of table `pool_files` in their order, the images that they name, and why the first archive gave none."""

    chunks: list[Path]
    num_images: int
    complaint: str | None


def list_source(name: str, root: Path, folder: Path, map_: Map) -> Listing:
    """Write what a source holds to files of at most CHUNK rows below `folder`: archives by path, then files by path.

    Raises UserError where there is no image, with the reason where one is known (links alone, compressed archives).
    """
    place = f"pool.sources.{name}.path"
    if not root.exists():
        raise UserError(f"{place}: no such file or folder {root}")
    archives: list[Path] = []
    parts = [_write(_files(root, archives), folder / "files")]
    tasks = [(path, folder / f"archive-{number:06d}") for number, path in enumerate(archives)]
    parts = [*map_(_list_archive, tasks), *parts]
    whole = Listing(
        list(itertools.chain.from_iterable(part.chunks for part in parts)),
        sum(part.num_images for part in parts),
        next((part.complaint for part in parts if part.complaint), None),
    )
    if not whole.num_images:
        raise UserError(f"{place}: no image in {root}" + (f": {whole.complaint}" if whole.complaint else ""))
    return whole


def _files(root: Path, archives: list[Path]) -> Iterator[Row]:
    """Rows of the loose files; `archives` takes up what is to be looked into."""
    for path in _walk(root):
        suffix = path.suffix.lower()
        if suffix == ".tar" or (suffix == ".parquet" and not path.with_suffix(".tar").exists()):
            archives.append(path)
        elif suffix in _COMPRESSED:
            yield _left_out(path, "unread_archive", f"{path.name} is {_UNPACK}")
        elif suffix in SUFFIXES:
            try:
                str(path).encode()
                found = path.stat()
                yield _candidate(str(path), found, found.st_size)
            except (OSError, UnicodeEncodeError) as error:  # a link to nowhere, no permission, a name in no encoding
                yield _left_out(_printable(path), "unreadable", _printable(error))


def _walk(path: Path, above: tuple[tuple[int, int], ...] = ()) -> Iterator[Path]:
    """The files below a folder by path, links followed but for those that lead back up; a file itself."""
    if not path.is_dir():
        yield path
        return
    found = path.stat()
    here = (found.st_dev, found.st_ino)
    if here not in above:
        for name in sorted(entry.name for entry in os.scandir(path)):
            yield from _walk(path / name, (*above, here))


def _list_archive(task: tuple[Path, Path]) -> Listing:
    path, prefix = task
    return _write(_parquet_rows(path) if path.suffix.lower() == ".parquet" else _tar_rows(path), prefix)


def _parquet_rows(path: Path) -> Iterator[Row]:
    try:
        failed, found = parquet.failures(path), path.stat()
        for row in parquet.list_rows(path):
            key = row.rsplit("/", 1)[-1]
            yield _left_out(row, "not_downloaded", failed[key]) if key in failed else _candidate(row, found)
    except (UserError, pa.ArrowException) as error:
        yield _left_out(path, "unread_archive", f"{path.name}: {error}")


def _tar_rows(path: Path) -> Iterator[Row]:
    """Members in their order. img2dataset writes a Parquet file beside each tar: what failed there is left out."""
    listed = path.with_suffix(".parquet")
    failed = parquet.failures(listed) if listed.is_file() else {}
    for key, detail in failed.items():
        yield _left_out(f"{listed}/{key}", "not_downloaded", detail)
    with path.open("rb") as file:
        if file.read(6).startswith(_COMPRESSED_MAGIC):
            yield _left_out(path, "unread_archive", f"{path.name} is {_UNPACK}")
            return
    found = path.stat()
    try:
        with tarfile.open(path, "r:") as tar:
            while (member := tar.next()) is not None:
                tar.members = []  # it keeps every member otherwise
                name = member.name.rsplit("/", 1)[-1]
                if not member.isreg() or Path(name).suffix.lower() not in SUFFIXES or name.split(".")[0] in failed:
                    continue
                row = member_path(path, member.offset_data, member.size, _printable(member.name))
                if member.offset_data + member.size > found.st_size:
                    yield _left_out(row, "truncated", f"{path.name} ends within it")
                else:
                    yield _candidate(row, found, member.size)
            end = tar.offset
        with path.open("rb") as file:
            file.seek(end)
            if file.read(tarfile.BLOCKSIZE).strip(b"\0"):  # tarfile takes a broken header for the end
                raise tarfile.ReadError(f"no header of a member at byte {end}")
    except tarfile.ReadError as error:
        yield _left_out(path, "unread_archive", f"{path.name}: {error}; members before that are used")


def _candidate(path: str, file: os.stat_result, size: int = 0) -> Row:
    """An image to be looked at. `file` is about what holds it; `size` is its own bytes, 0 where unknown."""
    if size > MAX_BYTES:
        return _left_out(path, "too_large", f"{size} bytes, over {MAX_BYTES}")
    return {"path": path, "stamp": f"{file.st_size}-{file.st_mtime_ns}", "reason": None, "detail": None}


def _printable(name: Any) -> str:
    """A name whose bytes are no UTF-8 as text that a table can hold."""
    return str(name).encode(errors="replace").decode()


def _left_out(path: str | Path, reason: str, detail: str) -> Row:
    return {"path": str(path), "stamp": None, "reason": reason, "detail": detail}


def _write(rows: Iterable[Row], prefix: Path) -> Listing:
    chunks, num_images, complaint = [], 0, None
    rows = iter(rows)
    while chunk := list(itertools.islice(rows, CHUNK)):
        chunks.append(prefix.with_name(f"{prefix.name}-{len(chunks):06d}.parquet"))
        write_table(chunks[-1], chunk, "pool_files")
        num_images += sum(row["reason"] is None for row in chunk)
        complaint = complaint or next((row["detail"] for row in chunk if row["reason"] == "unread_archive"), None)
    return Listing(chunks, num_images, complaint)
