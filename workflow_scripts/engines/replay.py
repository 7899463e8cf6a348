"""Captions that already exist, from a file: read it, match its rows to the pictures, count what does not fit."""

import logging
from collections.abc import Sequence
from typing import Any

from workflow_scripts.captions.files import CaptionRow, read_caption_file
from workflow_scripts.captions.match import PictureIndex
from workflow_scripts.engines import Caption, Picture, captions_file
from workflow_scripts.errors import UserError
from workflow_scripts.plan import CaptionJob

log = logging.getLogger("capsweep")


class Engine:
    """The captions of one file. Faults are those of the whole file, whichever pictures a job asks for."""

    def __init__(self, job: CaptionJob, pictures: Sequence[Picture]) -> None:
        source = captions_file(job)
        rows = read_caption_file(source.file, source.image_key, source.caption_key)
        self._captions, faults = match(rows, pictures)
        self.facts: dict[str, Any] = {"replay": {"file_rows": len(rows), **{k: len(v) for k, v in faults.items()}}}
        _report(str(source.file), faults, len(rows), pictures, job.replay.model_dump())

    def caption(self, pictures: Sequence[Picture]) -> list[Caption]:
        """The captions of these pictures; `missing` where there is none."""
        texts = [self._captions.get(picture.image_id) for picture in pictures]
        return [Caption(text, error="missing" if text is None else None) for text in texts]


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
