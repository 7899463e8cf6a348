"""Caption pictures with one engine: it is kept full, decoding runs ahead of it, and what is done is kept."""

import dataclasses
import logging
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from PIL import Image

from workflow_scripts.captions.degenerate import caption_fault
from workflow_scripts.engines import open_engine
from workflow_scripts.engines.interface import Answer, Engine, Picture, Request, answers, request_seed, unreadable
from workflow_scripts.errors import UserError
from workflow_scripts.images import read_rgb
from workflow_scripts.partial import Journal
from workflow_scripts.plan import CaptionJob, ServingJob
from workflow_scripts.progress import Progress
from workflow_scripts.read_ahead import ReadAhead

log = logging.getLogger("capsweep")

CHUNK = 256  # finished images; what a killed job loses at most, beside those in flight
AHEAD = 4  # decoded images that wait for the engine, a thread
SAME_EVERY_TIME = ("replay", "exact")  # engines that need not be asked again

Row = dict[str, Any]  # of table `captions`


def caption_pictures(
    job: CaptionJob,
    serving: ServingJob,
    pictures: Sequence[Picture],
    wanted: Iterable[int],
    folder: Path,
    progress: Progress,
    finish: Callable[[int, Row], None],
) -> tuple[Journal, dict[str, Any]]:
    """Caption the pictures with the numbers `wanted`, about in that order: `finish` is given each number and row.

    `folder` holds finished rows until the journal that is returned is removed, and is named by all that decides
    them: those of an earlier run are given first, the engine is opened only for the others. Also returned are the
    engine's facts.
    """
    journal = Journal(folder, "captions", CHUNK)
    known = {row["image_id"]: row for row in journal.read().to_pylist()}
    left = []
    for number in wanted:
        if row := known.pop(pictures[number].image_id, None):
            finish(number, row)
            progress.skip(1)
        else:
            left.append(number)
    if progress.done:
        log.info("%d of %d images are captioned already", progress.done, progress.total)
    if not left:
        return journal, {}
    engine = open_engine(job.engine, serving, pictures)
    try:
        for number, row in _Asking(job, engine, pictures, left, serving.threads):
            journal.append(row)
            finish(number, row)
            progress.update(1)
    finally:
        journal.flush()
        engine.close()
    return journal, engine.facts


class _Asking:
    """The rows of pictures as an engine answers, each asked again while its caption has a fault."""

    def __init__(
        self, job: CaptionJob, engine: Engine, pictures: Sequence[Picture], numbers: Sequence[int], threads: int
    ) -> None:
        self._job, self._engine, self._pictures = job, engine, pictures
        self._again: deque[Request] = deque()
        self._unreadable: deque[tuple[int, Row]] = deque()
        read = partial(read_picture, max_pixels=job.engine.max_pixels)
        asked = (pictures[number] for number in numbers)
        self._images = ReadAhead(read, asked, threads, AHEAD * threads) if engine.reads_images else None
        self._numbers = iter(numbers)

    def __iter__(self) -> Iterable[tuple[int, Row]]:
        for request, answer in answers(self._engine, self._next):
            yield from self._drain()
            number, attempt = request.key
            fault = None if answer.text is None else caption_fault(answer.text, answer.finish_reason, self._job.prompt)
            if fault and attempt < self._job.attempts and self._job.engine.engine not in SAME_EVERY_TIME:
                self._again.append(self._ask_again(request, attempt + 1))
            else:
                yield number, _row(self._pictures[number], answer, attempt, fault)
        yield from self._drain()

    def _next(self) -> Request | None:
        """The next request: one to be asked again, or the next picture that can be read."""
        if self._again:
            return self._again.popleft()
        for number in self._numbers:
            image = self._images.next() if self._images else None
            if isinstance(image, Exception):
                self._unreadable.append((number, _row(self._pictures[number], unreadable(image), 0, None)))
                continue
            picture = self._pictures[number]
            return Request(
                (number, 1),
                self._job.prompt,
                self._job.max_new_tokens,
                self._job.sampling,
                request_seed(self._job.sampling.seed, picture.image_id),
                picture=picture,
                images=() if image is None else (image,),
            )
        return None

    def _ask_again(self, request: Request, attempt: int) -> Request:
        sampling = self._job.sampling
        if sampling.temperature == 0:
            sampling = sampling.model_copy(update={"temperature": self._job.retry_temperature})
        seed = request_seed(sampling.seed, request.picture.image_id, attempt)
        return dataclasses.replace(request, key=(request.key[0], attempt), sampling=sampling, seed=seed)

    def _drain(self) -> Iterable[tuple[int, Row]]:
        while self._unreadable:
            yield self._unreadable.popleft()


def read_picture(picture: Picture, max_pixels: int | None) -> Image.Image:
    """A picture's image. Raises UserError for a file that is gone, OSError for one that does not decode."""
    try:
        return read_rgb(picture.path, max_pixels)
    except FileNotFoundError:
        raise UserError(f"{picture.path}: no such file (image {picture.image_id})") from None


def _row(picture: Picture, answer: Answer, attempt: int, fault: str | None) -> Row:
    return {
        "image_id": picture.image_id,
        "caption": answer.text,
        "num_tokens": answer.num_tokens,
        "finish_reason": answer.finish_reason,
        "num_attempts": attempt,
        "error": answer.error or fault,
    }


def count_rows(table: pa.Table) -> dict[str, Any]:
    """Counts of a table `captions` for a run record: images, those asked more than once, faults by kind."""
    kinds = Counter(error.split(":")[0] for error in table["error"].to_pylist() if error is not None)
    return {
        "num_images": table.num_rows,
        "num_errors": sum(kinds.values()),
        "num_asked_again": sum(attempts > 1 for attempts in table["num_attempts"].to_pylist()),
        "errors": dict(sorted(kinds.items())),
    }


def say_counts(counts: dict[str, Any]) -> str:
    """Those counts in a line of the log."""
    kinds = ", ".join(f"{n} {kind}" for kind, n in counts["errors"].items())
    return f"{counts['num_images']} images, {counts['num_asked_again']} asked again, errors: {kinds or 'none'}"
