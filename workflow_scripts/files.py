"""Whole-or-nothing files, fingerprints, and the run record beside every output."""

import datetime
import functools
import glob
import hashlib
import importlib.metadata
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from workflow_scripts.errors import UserError

_STARTED = time.monotonic()
_RECORDED_PACKAGES = (
    "torch",
    "transformers",
    "diffusers",
    "deepspeed",
    "vllm",
    "statsmodels",
    "pyarrow",
    "pandas",
)


def canonical_json(value: Any) -> str:
    """JSON with sorted keys and no spaces: equal values give equal text."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def sha256_file(path: str | Path) -> str:
    """Hex sha256 of a file's bytes."""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def fingerprint(*parts: Any) -> str:
    """16 hex digits that name the parts. A `Path` stands for its file's content, the rest for its JSON."""
    digest = hashlib.sha256()
    for part in parts:
        text = sha256_file(part) if isinstance(part, Path) else canonical_json(part)
        digest.update(text.encode() + b"\0")
    return digest.hexdigest()[:16]


@contextmanager
def atomic(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path in the same folder; on success it is synced to disk and renamed to `path`.

    The temporary name keeps the suffix, so that writers that look at it work. Nothing is left after an error.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.stem}.{os.getpid()}.tmp{path.suffix}")
    try:
        yield temporary
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


@contextmanager
def whole_folder(folder: Path) -> Iterator[Path]:
    """Yield an empty folder beside `folder`, which takes its place on success."""
    growing = folder.with_name(f".{folder.name}.tmp")
    shutil.rmtree(growing, ignore_errors=True)
    growing.mkdir(parents=True)
    yield growing
    shutil.rmtree(folder, ignore_errors=True)
    growing.rename(folder)


def remove_leftovers(path: Path) -> None:
    """Remove what killed processes left of their writing of `path` and of its run record. No other process may be at
    work on it."""
    for leftover in path.parent.glob(f".{glob.escape(path.stem)}.*.tmp*"):
        leftover.unlink(missing_ok=True)


def write_text(path: str | Path, text: str) -> None:
    """Write UTF-8 text whole or not at all."""
    with atomic(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: str | Path, value: Any) -> None:
    """Write indented JSON whole or not at all."""
    write_text(path, json.dumps(value, indent=1, ensure_ascii=False) + "\n")


def read_json(path: str | Path) -> Any:
    """The value in a JSON file. Raises UserError naming the file where it is absent or broken."""
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"{path}: no such file") from None
    except ValueError as error:
        raise UserError(f"{path}: not valid JSON ({error})") from None


def read_jsonl(path: str | Path) -> list[Any]:
    """One value a line; blank lines are passed over. Raises UserError naming the file and the line."""
    values = []
    try:
        lines = Path(path).read_text(encoding="utf-8").split("\n")
    except FileNotFoundError:
        raise UserError(f"{path}: no such file") from None
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                values.append(json.loads(line))
            except ValueError as error:
                raise UserError(f"{path}:{number}: not valid JSON ({error})") from None
    return values


def write_jsonl(path: str | Path, values: list[Any]) -> None:
    """One compact JSON value a line, whole or not at all."""
    write_text(path, "".join(json.dumps(value, ensure_ascii=False) + "\n" for value in values))


@functools.cache
def code_version() -> str:
    """The commit of the checkout that runs, with `+changes` where files differ from it; `unknown` outside git."""
    root = Path(__file__).resolve().parent.parent
    command = ["git", "-C", str(root), "describe", "--always", "--dirty=+changes", "--abbrev=12"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def _package_versions() -> dict[str, str]:
    found = {}
    for name in _RECORDED_PACKAGES:
        for distribution in importlib.metadata.Distribution.discover(name=name):
            found[name] = distribution.version
    return found


def run_record_path(output: str | Path) -> Path:
    """Where the run record of an output lies: `<output>.run.json`."""
    return Path(f"{output}.run.json")


def write_run_record(output: str | Path, spec: dict[str, Any], **facts: Any) -> None:
    """Write `<output>.run.json`: the spec really used, what ran it, and any counts worth keeping.

    Call it right before `output` itself is written, so that an output never stands without its record.
    """
    record = {
        "spec": spec,
        "spec_fingerprint": fingerprint(spec),
        "code": code_version(),
        "packages": _package_versions(),
        "finished": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "seconds": round(time.monotonic() - _STARTED, 1),
        **facts,
    }
    write_json(run_record_path(output), record)


def read_run_record(output: str | Path) -> dict[str, Any]:
    """The run record of an output. Raises UserError where it is absent."""
    return read_json(run_record_path(output))
