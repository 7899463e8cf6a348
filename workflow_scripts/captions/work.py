"""Caption pictures in chunks with one engine that is opened when the first chunk needs it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from workflow_scripts.engines import Caption, Engine, Picture, open_engine
from workflow_scripts.partial import Chunks
from workflow_scripts.plan import CaptionJob
from workflow_scripts.progress import Progress

CHUNK = 256  # images; what a killed job loses at most


class Captioning:
    """The captions of a job's pictures. `folder` holds unfinished work and is named by the job's fingerprint."""

    def __init__(self, job: CaptionJob, pictures: Sequence[Picture], folder: Path) -> None:
        self._job, self._pictures, self._folder = job, pictures, folder
        self._engine: Engine | None = None

    @property
    def facts(self) -> dict[str, Any]:
        """The engine's counts; empty where every chunk was there already."""
        return self._engine.facts if self._engine else {}

    def chunks(self, name: str, rows: range) -> Chunks:
        """The chunks of the pictures with these numbers."""
        return Chunks(self._folder, name, len(rows), CHUNK, "captions")

    def complete(self, chunks: Chunks, rows: range, progress: Progress) -> pa.Table:
        """The rows of table `captions` for the pictures with these numbers."""
        pictures = self._pictures[rows.start : rows.stop]
        return chunks.complete(lambda part: self._caption(pictures[part.start : part.stop]), progress)

    def _caption(self, pictures: Sequence[Picture]) -> list[dict[str, Any]]:
        if self._engine is None:
            self._engine = open_engine(self._job, self._pictures)
        captions = self._engine.caption(pictures)
        return [_row(picture, caption) for picture, caption in zip(pictures, captions, strict=True)]


def _row(picture: Picture, caption: Caption) -> dict[str, Any]:
    empty = caption.text is not None and not caption.text.strip()
    return {
        "image_id": picture.image_id,
        "caption": caption.text,
        "num_tokens": caption.num_tokens,
        "finish_reason": caption.finish_reason,
        "num_attempts": 1,
        "error": caption.error or ("empty" if empty else None),
    }


def count_rows(table: pa.Table) -> dict[str, int]:
    """Counts of a table `captions` for a run record: images, errors (empty ones too), captions cut at the limit."""
    errors = table["error"].to_pylist()
    return {
        "num_images": table.num_rows,
        "num_errors": sum(error is not None for error in errors),
        "num_empty": errors.count("empty"),
        "num_cut": table["finish_reason"].to_pylist().count("length"),
    }
