"""Engines turn images into captions. One small interface; a captioner of the config is one engine with settings.

A new engine is a module with a class `Engine` that fits `Engine` below, and a line in `ENGINES`.
"""

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from workflow_scripts.engines.weights import weights_fingerprint
from workflow_scripts.errors import NotInThisVersion, UserError
from workflow_scripts.files import sha256_file
from workflow_scripts.plan import CaptionJob

ENGINES = {
    "transformers": "workflow_scripts.engines.transformers",
    "replay": "workflow_scripts.engines.replay",
    "exact": "workflow_scripts.engines.exact",
}


@dataclass(frozen=True)
class Picture:
    """An image to be captioned: what tables call it, and its file."""

    image_id: str
    path: str


@dataclass(frozen=True)
class Caption:
    """What became of one picture. `text` is null where there is no caption, and `error` says why.

    `num_tokens` counts the caption's tokens without the end token, null where nobody counted. `finish_reason` is
    `stop` (the model ended), `length` (cut at the limit) or null (unknown).
    """

    text: str | None
    num_tokens: int | None = None
    finish_reason: str | None = None
    error: str | None = None


class Engine(Protocol):
    """What turns pictures into captions."""

    facts: dict[str, Any]  # counts for the run record

    def __init__(self, job: CaptionJob, pictures: Sequence[Picture]) -> None:
        """Get ready: load a model, read a file. `pictures` are all that the captioner has to do, in any jobs."""
        ...

    def caption(self, pictures: Sequence[Picture]) -> list[Caption]:
        """One caption a picture, in their order. The caption of a picture does not depend on the others.

        A picture that cannot be captioned gets a `Caption` with an error. Raises UserError where going on is
        pointless, as for a file that is gone.
        """
        ...


def check(job: CaptionJob, captioner: str) -> None:
    """Raise what can be known before any work: an engine or an option of a later version, absent files."""
    place = f"captioners.{captioner}"
    if job.engine not in ENGINES:
        raise NotInThisVersion(
            f"{place}.engine: {job.engine!r} is not in this version, its engines are {', '.join(sorted(ENGINES))}"
        )
    if job.remote_code:
        raise NotInThisVersion(f"{place}.remote_code: running code from a model's repository is not in this version")
    if job.model and (job.model.path is None or not job.model.path.is_dir()):
        raise UserError(f"{place}.model.path: no such folder {job.model.path}")
    if job.replay:
        file = captions_file(job)
        if not file.file.is_file():
            raise UserError(f"{place}.replay: no such file {file.file}")


def captions_file(job: CaptionJob) -> Any:
    """The part of `replay` that this job reads: the file of the pool's captions or of CAPEval's."""
    return job.replay.capeval or job.replay.pool if job.shard_size is None else job.replay.pool


def inputs(job: CaptionJob) -> list[str]:
    """Fingerprints of the files that decide the captions beside the pictures: weights, or a file of captions."""
    if job.model:
        return [weights_fingerprint(job.model.path)]
    return [sha256_file(captions_file(job).file)] if job.replay else []


def open_engine(job: CaptionJob, pictures: Sequence[Picture]) -> Engine:
    """The engine of a job that `check` has passed."""
    return importlib.import_module(ENGINES[job.engine]).Engine(job, pictures)
