"""CAPEval's files: 300 images, and for each a checklist of questions in eight dimensions.

A folder has checklist.jsonl, gt_caption.jsonl, images.csv and the pictures in image/. An image is called by its
`img_path`; an item's index is its place in the eight lists of its image, one after another. A question that
stands twice in one image counts twice.
"""

import csv
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from workflow_scripts.engines.interface import Picture
from workflow_scripts.errors import UserError, nearest
from workflow_scripts.files import read_jsonl

DIMENSIONS = ("instance", "attribute", "relation", "image", "text", "human", "ui", "world_knowledge")
_BETWEEN_TAGS = re.compile("[,;|，、；｜]")


@dataclass(frozen=True)
class Benchmark:
    """`images` by image_id: columns domain (the letters that the id starts with) and subcategory. `items`: columns
    image_id, item_index, dimension, tags, question; one row a checklist item, in the files' order."""

    folder: Path
    images: pd.DataFrame
    items: pd.DataFrame

    def pictures(self) -> list[Picture]:
        """The images to caption, in the files' order."""
        return [Picture(image_id, str(self.folder / "image" / image_id)) for image_id in self.images.index]

    def require_pictures(self) -> None:
        """Raise UserError naming the images whose files are absent."""
        absent = [picture.image_id for picture in self.pictures() if not Path(picture.path).is_file()]
        if absent:
            raise UserError(
                f"{self.folder / 'image'}: {len(absent)} of {len(self.images)} images are absent: "
                + ", ".join(absent[:10])
                + ", ..." * (len(absent) > 10)
            )


def read_benchmark(folder: Path) -> Benchmark:
    """Read checklists and categories. Raises UserError naming file and image for whatever is absent or malformed."""
    path = folder / "checklist.jsonl"
    rows = read_jsonl(path)
    subcategories = _read_subcategories(folder / "images.csv")
    images, items = {}, []
    for number, row in enumerate(rows, 1):
        image_id = row.get("img_path")
        if not image_id or image_id in images:
            raise UserError(f"{path}:{number}: img_path is {'missing' if not image_id else f'{image_id} again'}")
        if image_id not in subcategories:
            guess = nearest(image_id, subcategories)
            raise UserError(f"{folder / 'images.csv'}: no image {image_id}" + f", did you mean {guess}?" * bool(guess))
        images[image_id] = {"domain": _domain(path, number, row), "subcategory": subcategories[image_id]}
        items += [(image_id, index, *item) for index, item in enumerate(_flatten(path, number, row))]
    if not items:
        raise UserError(f"{path}: holds no checklist item")
    frame = pd.DataFrame.from_dict(images, orient="index").rename_axis("image_id")
    return Benchmark(
        folder,
        frame,
        pd.DataFrame(items, columns=["image_id", "item_index", "dimension", "tags", "question"]),
    )


def split_tags(tags: str) -> list[str]:
    """The tags of an item, each once: `a, b|c` -> [a, b, c]."""
    return list(dict.fromkeys(tag.strip() for tag in _BETWEEN_TAGS.split(tags) if tag.strip()))


def _flatten(path: Path, number: int, row: dict[str, Any]) -> list[tuple[str, str, str]]:
    """(dimension, tags, question) of every item of one image, in the order of the dimensions."""
    expected = {f"{dimension}_checklist" for dimension in DIMENSIONS}
    for key in sorted(expected ^ {key for key in row if key.endswith("_checklist")}):
        raise UserError(f"{path}:{number}: {'lacks' if key in expected else 'has an unknown'} list {key!r}")
    try:
        return [
            (dimension, item["Tags"], item["Question"])
            for dimension in DIMENSIONS
            for item in row[f"{dimension}_checklist"]
        ]
    except (TypeError, KeyError) as error:
        raise UserError(f"{path}:{number}: an item is not {{'Tags', 'Question'}} ({error})") from None


def _domain(path: Path, number: int, row: dict[str, Any]) -> str:
    letters = re.match("[A-Za-z]+", str(row.get("id", "")))
    if letters is None:
        raise UserError(f"{path}:{number}: id {row.get('id')!r} does not start with the letters of a domain")
    return letters[0]


def _read_subcategories(path: Path) -> dict[str, str]:
    if not path.is_file():
        raise UserError(f"{path}: no such file")
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.DictReader(file)
        for column in ("img_path", "subcategory"):
            if column not in (reader.fieldnames or []):
                raise UserError(f"{path}: no column {column!r}")
        return {row["img_path"]: row["subcategory"] for row in reader}
