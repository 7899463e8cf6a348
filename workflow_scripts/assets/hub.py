"""The Hugging Face hub: what a repository holds, and its files. Every fault becomes one that a user can act on."""

import logging
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any, TypeVar

import httpx2
from huggingface_hub import HfApi, constants, hf_hub_download
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    LocalEntryNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from huggingface_hub.hf_api import RepoFile

from workflow_scripts.assets.lockfile import FileFacts, Locked
from workflow_scripts.errors import UserError
from workflow_scripts.progress import Progress

log = logging.getLogger("capsweep")
Result = TypeVar("Result")
ATTEMPTS = 5
FIRST_WAIT = 1.0  # seconds before the second attempt, doubled before each further one


def resolve(hub: str, kind: str, revision: str) -> Locked:
    """The commit of a revision, and the facts of its files. Raises UserError."""

    def ask() -> Locked:
        api = HfApi()
        commit = api.repo_info(hub, repo_type=kind, revision=revision).sha
        tree = api.list_repo_tree(hub, repo_type=kind, revision=commit, recursive=True)
        files = {file.path: _facts(file) for file in tree if isinstance(file, RepoFile)}
        return Locked(kind=kind, revision=revision, commit=commit, files=files)

    return _patiently(ask, hub, kind, revision)


def _facts(file: RepoFile) -> FileFacts:
    if file.lfs:
        return FileFacts(size=file.lfs.size, sha256=file.lfs.sha256)
    return FileFacts(size=file.size, git_sha1=file.blob_id)


def download(
    hub: str, kind: str, commit: str, names: Iterable[str], folder: Path, megabytes: float, workers: int = 4
) -> None:
    """Download files of a commit into a folder; `megabytes` is their size, for the log.

    A broken transfer goes on where it broke. Raises UserError; whole files stay, parts of files do not.
    """
    bar = _bar(Progress(megabytes, "MB"))

    def fetch(name: str) -> None:
        def once() -> None:
            hf_hub_download(hub, name, repo_type=kind, revision=commit, local_dir=folder, tqdm_class=bar)

        _patiently(once, hub, kind, commit)

    _patiently(lambda: HfApi().repo_info(hub, repo_type=kind, revision=commit), hub, kind, commit)  # soon, if offline
    pool = ThreadPoolExecutor(workers)
    try:
        for done in as_completed([pool.submit(fetch, name) for name in names]):
            done.result()
    finally:
        pool.shutdown(cancel_futures=True)


def _bar(progress: Progress) -> type:
    """A class with what huggingface_hub asks of a progress bar, which counts the bytes of all files together."""
    lock = threading.Lock()

    class Bar:
        def __init__(self, **_: Any) -> None: ...

        def __enter__(self) -> "Bar":
            return self

        def __exit__(self, *_: Any) -> None: ...

        def update(self, count: float | None = 1) -> None:
            with lock:
                progress.update((count or 0) / 1e6)

        def close(self) -> None: ...

        def update_transfer(self, count: float | None = 1) -> None: ...

        def set_postfix_str(self, postfix: str, refresh: bool = False) -> None: ...

        def set_transfer_postfix_str(self, postfix: str, refresh: bool = False) -> None: ...

    return Bar


def _patiently(action: Callable[[], Result], hub: str, kind: str, revision: str) -> Result:
    """Do it, again after faults that pass. Raises UserError for the others, and for the last."""
    for attempt in range(ATTEMPTS):
        try:
            return action()
        except (httpx2.HTTPError, OSError) as error:
            given_up = isinstance(error, LocalEntryNotFoundError)  # huggingface_hub has tried again already
            cause = error.__cause__ if given_up and error.__cause__ else error
            if given_up or not _passes(cause) or attempt == ATTEMPTS - 1:
                raise UserError(_explained(cause, hub, kind, revision)) from None
            wait = FIRST_WAIT * 2**attempt
            log.warning("%s: %s, again in %.0f s", hub, type(cause).__name__, wait)
            time.sleep(wait)
    raise AssertionError


def _passes(error: BaseException) -> bool:
    """Whether a fault may be gone at the next attempt."""
    if isinstance(error, HfHubHTTPError):
        return error.response.status_code in (408, 429) or error.response.status_code >= 500
    return isinstance(error, httpx2.TransportError) or "Consistency check failed" in str(error)


def _explained(error: BaseException, hub: str, kind: str, revision: str) -> str:
    """What a fault means. No text of the error itself, which can hold addresses with signatures."""
    page = f"{constants.ENDPOINT}/{'datasets/' * (kind == 'dataset')}{hub}"
    log_in = "log in with `hf auth login` or set HF_TOKEN"
    status = error.response.status_code if isinstance(error, HfHubHTTPError) else None
    if isinstance(error, GatedRepoError):
        return f"{hub} is gated ({status}): accept its terms at {page}, then {log_in}"
    if isinstance(error, RepositoryNotFoundError):
        return f"{hub}: no such {kind} at {page}; look at name and `kind`, and if it is private, {log_in}"
    if isinstance(error, RevisionNotFoundError):
        return f"{hub} has no branch, tag or commit {revision!r}"
    if status in (401, 403):
        return f"{hub}: the hub refuses ({status}): ask for access at {page}, then {log_in}"
    if status is not None:
        return f"{hub}: the hub answered {status}"
    if isinstance(error, OfflineModeIsEnabled):
        return f"{hub} is not here, and HF_HUB_OFFLINE forbids to fetch it"
    if isinstance(error, httpx2.HTTPError):
        return f"{hub} is not here, and {constants.ENDPOINT} cannot be reached ({type(error).__name__})"
    return f"{hub}: {error}"
