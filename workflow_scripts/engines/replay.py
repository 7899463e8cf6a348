"""Captions that already exist, from a file: read it, match its rows to the pictures, count what does not fit."""

import logging
from collections.abc import Sequence
from typing import Any

from workflow_scripts.captions.files import CaptionRow, read_caption_file
from workflow_scripts.captions.match import PictureIndex
from workflow_scripts.engines.interface import Answer, Picture, Request
from workflow_scripts.errors import UserError
from workflow_scripts.plan import EngineJob, ServingJob

log = logging.getLogger("capsweep")

_ROOM = 1000  # pictures between two calls of `collect`


class Engine:
    """The captions of one file. Faults are those of the whole file, whichever pictures a job asks for."""

    reads_images = False

    def __init__(self, job: EngineJob, serving: ServingJob, pictures: Sequence[Picture]) -> None:
        source = job.replay
        rows = read_caption_file(source.file, source.image_key, source.caption_key)
        self._captions, faults = match(rows, pictures)
        self._waiting: list[Request] = []
        self.facts: dict[str, Any] = {"replay": {"file_rows": len(rows), **{k: len(v) for k, v in faults.items()}}}
        _report(str(source.file), faults, len(rows), pictures, source.model_dump())

    def room(self) -> int:
        """It takes any number; this many at once."""
        return _ROOM - len(self._waiting)

    def submit(self, request: Request) -> None:
        """Take a picture."""
        self._waiting.append(request)

    def collect(self) -> list[tuple[Request, Answer]]:
        """The captions of the pictures taken; `missing` where there is none."""
        texts = [self._captions.get(request.picture.image_id) for request in self._waiting]
        answers = [Answer(text, error="missing" if text is None else None) for text in texts]
        done = list(zip(self._waiting, answers, strict=True))
        self._waiting = []
        return done

    def count_tokens(self, text: str) -> int:
        """Words."""
        return len(text.split())

    def close(self) -> None:
        """Nothing to free."""


def match(rows: Sequence[CaptionRow], pictures: Sequence[Picture]) -> tuple[dict[str, str], dict[str, list[str]]]:
    """Captions by image id, the first of each image; and by kind of fault the rows or images that have it.

    Kinds: `ambiguous` (a key that names several pictures), `unknown` (none), `duplicate` (a picture has a caption
    already), `empty` (no word), `missing` (a picture without a caption).
    """
    index = PictureIndex(pictures)
    captions: dict[str, str] = {}
    faults: dict[str, list[str]] = {kind: [] for kind in ("ambiguous", "unknown", "duplicate", "empty", "missing")}
    for row in rows:
        found = [pictures[position] for position in index.find(row.key)]
        if len(found) != 1:
            faults["ambiguous" if found else "unknown"].append(f"{row.key} ({row.place})")
        elif found[0].image_id in captions:
            faults["duplicate"].append(f"{row.key} ({row.place})")
        else:
            captions[found[0].image_id] = row.caption
            if not row.caption.strip():
                faults["empty"].append(f"{row.key} ({row.place})")
    faults["missing"] = [picture.path for picture in pictures if picture.image_id not in captions]
    return captions, faults


_SAYS = {
    "ambiguous": "keys that name several images (give their paths)",
    "unknown": "captions of images that are not here",
    "duplicate": "more captions of images that have one already",
    "empty": "captions without a word",
    "missing": "images without a caption",
}


def _report(
    file: str,
    faults: dict[str, list[str]],
    num_rows: int,
    pictures: Sequence[Picture],
    policy: dict[str, Any],
) -> None:
    """Log the faults that `policy` (on_<kind>: warn or error) lets pass; raise UserError with all the others."""
    if len(faults["missing"]) == len(pictures):
        raise UserError(
            f"{file}: none of its {num_rows} captions belongs to one of the {len(pictures)} images; it names images "
            f"like {(faults['unknown'] or faults['ambiguous'])[0]}, the images are like {pictures[0].path}. "
            "Is image_key right?"
        )
    errors = []
    for kind, cases in faults.items():
        if not cases:
            continue
        total = len(pictures) if kind == "missing" else num_rows
        message = f"{len(cases)} of {total} {_SAYS[kind]}: {', '.join(cases[:3])}{', ...' * (len(cases) > 3)}"
        if kind != "ambiguous" and policy[f"on_{kind}"] == "warn":
            log.warning("%s: %s", file, message)
        else:
            errors.append(message + (f" [on_{kind}: error]" if kind != "ambiguous" else ""))
    if errors:
        raise UserError(f"{file}: the captions do not fit the images\n  " + "\n  ".join(errors))
