"""The images that conversations name: where they lie, and whether each of them decodes."""

import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from workflow_scripts import zips
from workflow_scripts.errors import UserError
from workflow_scripts.images import SUFFIXES, BadImage, container, measure, member_path, read_bytes
from workflow_scripts.partial import Journal
from workflow_scripts.progress import Progress, log
from workflow_scripts.workers import workers

CHUNK = 500  # images that a worker takes at once, and what a killed run loses at most of each worker's work


class ImageFiles:
    """Images by the names that the rows of a JSON file have for them, in a folder or a zip (or nowhere)."""

    def __init__(self, file: Path, images: Path | None) -> None:
        self._file, self._root = file, images
        self._names = self._paths = None
        if images is not None and images.is_file():
            self._names, self._paths = _members(images)

    def paths(self, names: pa.Array) -> pa.Array:
        """Paths that `images.read_rgb` reads. What a zip does not hold becomes a path that does not exist. Raises
        UserError where there are names, but no place for images."""
        if self._root is None:
            if len(names):
                raise UserError(
                    f"{self._file}: image {names[0]} is named, but there is neither images/ nor images.zip beside it: "
                    "set `images` to their folder or zip"
                )
            return names
        below = pc.binary_join_element_wise(str(self._root), names, "/")
        if self._names is None:
            return below
        return pc.coalesce(self._paths.take(pc.index_in(names, value_set=self._names)), below)


def _members(archive: Path) -> tuple[pa.Array, pa.Array]:
    """Names and paths of a zip's members."""
    try:
        members = list(zips.list_members(archive))
    except zipfile.BadZipFile as error:
        raise UserError(f"images: {archive} is no whole zip ({error})") from None
    names = pa.array([member.name for member in members], pa.string())
    return names, pa.array([member_path(archive, start, length, name) for name, start, length in members], pa.string())


def check_all(paths: pa.Array, folder: Path, threads: int) -> pa.Table:
    """Table `image_checks` of those that are missing or do not decode. `paths` are distinct.

    What is found waits in `folder`, where a later run looks first: an image is decoded again only if its file (size,
    time of change) is another one.
    """
    journal = Journal(folder, "image_checks", CHUNK)
    known = _latest(journal.read())
    row = pc.index_in(paths, value_set=known["path"])
    asked = pa.table({"path": paths, **{name: known[name].take(row) for name in ("stamp", "reason", "detail")}})
    asked = asked.take(_order_on_disk(paths)).combine_chunks()
    log.info("%d images to be checked, %d of them are already", len(asked), len(row) - row.null_count)
    progress = Progress(len(asked), "images")
    parts = [asked.slice(start, CHUNK) for start in range(0, len(asked), CHUNK)]
    with workers(threads) as map_:
        for part, rows in zip(parts, map_(_check_part, parts), strict=True):
            for one in rows:
                journal.append(one)
            progress.skip(len(part) - len(rows))
            progress.update(len(rows))
    journal.flush()
    found = _latest(journal.read())
    return found.filter(pc.and_(found["reason"].is_valid(), pc.is_in(found["path"], value_set=paths)))


def _latest(rows: pa.Table) -> pa.Table:
    """The last row of each path."""
    numbered = rows.append_column("row", pa.array(range(len(rows)), pa.int64()))
    last = numbered.group_by("path").aggregate([("row", "max")])["row_max"]
    return rows.take(last.sort()).combine_chunks()


def _order_on_disk(paths: pa.Array) -> pa.Array:
    """Row numbers by path, members of an archive by where they begin: neighbours on disk are read one after another."""
    found = pc.extract_regex(paths, r"#(?P<start>\d+)\+\d+/")
    start = pc.struct_field(found, "start").cast(pa.int64())
    table = pa.table({"start": start, "path": paths})
    return pc.sort_indices(table, sort_keys=[("start", "ascending"), ("path", "ascending")])


def _check_part(asked: pa.Table) -> list[dict[str, Any]]:
    """Rows of table `image_checks` for what was not found out yet or has changed since."""
    return list(_checked(asked))


def _checked(asked: pa.Table) -> Iterator[dict[str, Any]]:
    stamps: dict[Path, str | None] = {}
    for known in asked.to_pylist():
        path = known["path"]
        file = container(path)
        stamp = stamps[file] if file in stamps else stamps.setdefault(file, _stamp(file))
        if stamp is None or stamp != known["stamp"]:
            reason, detail = _fault(path)
            yield {"path": path, "stamp": stamp, "reason": reason, "detail": detail}


def _stamp(file: Path) -> str | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return f"{found.st_size}-{found.st_mtime_ns}"


def _fault(path: str) -> tuple[str | None, str | None]:
    """Why an image cannot be used, as a reason that can be counted and more."""
    try:
        measure(read_bytes(path))
    except BadImage as error:
        return error.reason, error.detail
    except (FileNotFoundError, NotADirectoryError):
        return "missing", _hint(path)
    except OSError as error:
        return "unreadable", str(error)
    return None, None


def _hint(path: str) -> str | None:
    """OCR-VQA's download keeps the suffixes of its sources, its lists say .jpg throughout."""
    others = [Path(path).with_suffix(suffix) for suffix in SUFFIXES]
    found = [other.name for other in others if other.is_file()] if Path(path).parent.is_dir() else []
    return f"but there is {', '.join(found)}" if found else None
