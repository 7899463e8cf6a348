"""Fetch weights, a data set or benchmark files from the hub into a folder, and check every file.

    python -m workflow_scripts.assets.fetch --spec '{"hub": "google/siglip-so400m-patch14-384"}' \\
        --folder assets/google--siglip-so400m-patch14-384 --out assets/google--siglip-so400m-patch14-384.json

Files in: --lock, where the repository's commit and checksums stand. Files out: --folder, which then holds the wanted
files of one commit and nothing else, and the manifest --out, written last: hub, kind, revision (the commit), licence,
and size and sha256 of every file. A killed run goes on with the files that it has not finished. Where all files are in
the folder already and the lock has their checksums, no network is needed.
"""

import hashlib
import logging
import re
import shutil
from pathlib import Path
from typing import Any

from workflow_scripts.assets import hub
from workflow_scripts.assets.contents import Choice, choose
from workflow_scripts.assets.lockfile import FileFacts, Locked, read_lock
from workflow_scripts.command import load_spec, parser, run
from workflow_scripts.errors import UserError
from workflow_scripts.files import sha256_file, write_json, write_run_record
from workflow_scripts.plan import FetchJob

log = logging.getLogger("capsweep")


def main(argv: list[str] | None = None) -> None:
    """Fetch one repository."""
    arguments = parser(__doc__)
    arguments.add_argument("--lock", type=Path, default=Path("assets.lock.yaml"), help="pinned commits and checksums")
    arguments.add_argument("--used-by", default="", help="keys of the config that use it, for messages")
    arguments.add_argument("--licence", default="unstated", help="licence of the files, for the manifest")
    arguments.add_argument("--folder", type=Path, required=True, help="folder of the files")
    arguments.add_argument("--out", type=Path, required=True, help="manifest, written last")
    args = arguments.parse_args(argv)
    job = load_spec(args.spec, FetchJob)
    try:
        snapshot = pinned(job, args.lock)
        files = fetch(job, snapshot, args.folder)
    except UserError as error:
        paths = " or ".join(f"{key}.path" for key in args.used_by.split()) or "`path`"
        raise UserError(
            f"{error}\n  to fetch it, where there is a network: snakemake {args.out}"
            f"\n  to use a folder of yours in its place, in the config: {paths}"
        ) from None
    write_run_record(args.out, job.model_dump(mode="json"), num_files=len(files))
    facts = {"hub": job.hub, "kind": job.kind, "revision": snapshot.commit, "licence": args.licence}
    write_json(args.out, {**facts, "files": files})


def pinned(job: FetchJob, lock: Path) -> Locked:
    """The commit to fetch and its files: from the lock, or as the hub resolves the revision now, with a warning.

    Raises UserError where the lock has another commit than the job, or code is to come from another one.
    """
    if job.commit:
        locked = read_lock(lock).get(job.hub)
        if locked is None or locked.commit != job.commit:
            raise UserError(f"{job.hub}: {lock} does not pin it to {job.commit}, it was edited meanwhile")
    else:
        locked = hub.resolve(job.hub, job.kind, job.revision)
        if not re.fullmatch("[0-9a-f]{40}", job.revision):
            log.warning(
                "%s: NOT PINNED, %s is %s today; pin it with: snakemake -f %s",
                *(job.hub, job.revision, locked.commit, lock),
            )
    if job.remote_code and job.remote_code != locked.commit:
        raise UserError(f"{job.hub}: remote_code opts in to {job.remote_code}, {job.revision} is {locked.commit}")
    return locked


def fetch(job: FetchJob, snapshot: Locked, folder: Path) -> dict[str, dict[str, Any]]:
    """Bring the wanted files of a commit into `folder`; size and sha256 of each. Raises UserError."""
    try:
        choice = choose(snapshot.files, job.kind, job.files, code=job.remote_code is not None)
    except UserError as error:
        raise UserError(f"{job.hub}: {error}") from None
    _tell_left_out(job, snapshot, choice)
    folder.mkdir(parents=True, exist_ok=True)
    remove_others(folder, set(choice.wanted))
    digests = {name: digest for name in choice.wanted if (digest := digest_of(folder / name, snapshot.files[name]))}
    absent = [name for name in choice.wanted if name not in digests]
    if absent:
        size = sum(snapshot.files[name].size for name in absent)
        twice = sum(snapshot.files[name].size for name in choice.pickled)  # there are both forms until all are made
        _require_space(job.hub, size + twice, folder)
        log.info("%s: %d of %d files to fetch, %.1f MB", job.hub, len(absent), len(choice.wanted), size / 1e6)
        for name in absent:
            (folder / name).unlink(missing_ok=True)
        hub.download(job.hub, job.kind, snapshot.commit, absent, folder, size / 1e6)
        digests |= _checked(job.hub, folder, {name: snapshot.files[name] for name in absent})
    files = {name: {"size": snapshot.files[name].size, "sha256": digests[name]} for name in sorted(digests)}
    if choice.pickled:
        files = _convert(folder, choice.pickled, files)
    shutil.rmtree(folder / ".cache", ignore_errors=True)  # huggingface_hub's notes on its downloads
    return files


def _tell_left_out(job: FetchJob, snapshot: Locked, choice: Choice) -> None:
    if choice.left_out:
        size = sum(snapshot.files[name].size for name in choice.left_out)
        names = ", ".join(choice.left_out)
        log.info("%s: left out as unsafe or unused, %.1f MB: %s", job.hub, size / 1e6, names)


def remove_others(folder: Path, wanted: set[str]) -> None:
    """Remove what another commit or a killed download left: a loader would read old shards beside new ones."""
    shutil.rmtree(folder / ".cache", ignore_errors=True)
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.relative_to(folder).as_posix() not in wanted:
            log.info("remove %s, no file of this commit", path)
            path.unlink()


def digest_of(path: Path, facts: FileFacts) -> str | None:
    """The sha256 of a file if it is there and what `facts` say, else null. The size is compared first."""
    if not path.is_file() or path.stat().st_size != facts.size:
        return None
    if facts.git_sha1 and git_sha1(path) != facts.git_sha1:
        return None
    digest = sha256_file(path)
    return digest if facts.sha256 in (None, digest) else None


def git_sha1(path: Path) -> str:
    """What git names a file by: the sha1 of `blob <size>`, a zero byte, and its bytes."""
    content = path.read_bytes()
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def _checked(name_on_hub: str, folder: Path, expected: dict[str, FileFacts]) -> dict[str, str]:
    """The sha256 of files just fetched. Removes those that are not what was expected, and raises UserError."""
    digests = {name: digest_of(folder / name, facts) for name, facts in expected.items()}
    wrong = [name for name, digest in digests.items() if digest is None]
    for name in wrong:
        (folder / name).unlink(missing_ok=True)
    if wrong:
        raise UserError(f"{name_on_hub}: not the size or checksum expected, removed: {', '.join(wrong)}")
    return digests


def _require_space(name_on_hub: str, size: int, folder: Path) -> None:
    free = shutil.disk_usage(folder).free
    if size > free:
        raise UserError(f"{name_on_hub}: needs {size / 1e9:.1f} GB, {free / 1e9:.1f} GB are free at {folder}")


def _convert(folder: Path, pickled: list[str], files: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Convert pickles; the files of the manifest, where a converted one says what it was made from."""
    from workflow_scripts.assets.convert import convert  # imports torch

    made_from = {new: {"name": name, **files[name]} for name, new in convert(folder, pickled).items()}
    found = sorted(path for path in folder.rglob("*") if path.is_file() and ".cache" not in path.parts)
    listed = {}
    for path in found:
        name = path.relative_to(folder).as_posix()
        listed[name] = files.get(name) or {"size": path.stat().st_size, "sha256": sha256_file(path)}
        if name in made_from:
            listed[name] = {**listed[name], "made_from": made_from[name]}
    return listed


if __name__ == "__main__":
    run(main)
