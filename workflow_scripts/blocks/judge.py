"""Checklists of the blocks world in CAPEval's shape, and the judge that decides their items exactly.

The checklist of a picture has one item for each of its facts. So coverage is the share of true facts that a
caption speaks of, and precision the share of those about which it is right. As in CAPEval, an object that a
caption invents where there is none meets no item: it costs nothing here and only shows in what is trained on it.
An item of the relation dimension (something is in this cell) can be mentioned but not contradicted.
"""

import re
from typing import Literal

from workflow_scripts.blocks.world import ATTRIBUTES, BACKGROUNDS, CELLS, Description, Scene, describe, parse
from workflow_scripts.errors import UserError

Verdict = Literal["yes", "no", "not_mentioned"]

DIMENSIONS = ("instance", "attribute", "relation", "image", "text", "human", "ui", "world_knowledge")
_TAGS = {"color": "color", "size": "relative_size"}  # CAPEval's tags of the attributes

_CELL = f"(?P<cell>{'|'.join(CELLS)})"
_ANY = {name: "|".join(values) for name, values in ATTRIBUTES.items()}
_FORMS = [
    re.compile(rf"Does the caption mention a (?P<shape>{_ANY['shape']}) in the {_CELL}\?"),
    re.compile(rf"Does the caption describe the object in the {_CELL} as (?P<color>{_ANY['color']})\?"),
    re.compile(rf"Does the caption describe the object in the {_CELL} as (?P<size>{_ANY['size']})\?"),
    re.compile(rf"Does the caption mention an object in the {_CELL}\?"),
    re.compile(rf"Does the caption mention a (?P<background>{'|'.join(BACKGROUNDS)}) background\?"),
]


def checklist(scene: Scene) -> dict[str, list[dict[str, str]]]:
    """The eight lists of a checklist row, `<dimension>_checklist` -> [{"Tags", "Question"}]; text, human, ui and
    world_knowledge have no items in this world."""
    instance, attribute, relation = [], [], []
    for cell, values in describe(scene).objects:
        place = CELLS[cell]
        instance.append(("object", f"Does the caption mention a {values['shape']} in the {place}?"))
        for name, tag in _TAGS.items():
            attribute.append((tag, f"Does the caption describe the object in the {place} as {values[name]}?"))
        relation.append(("spatial", f"Does the caption mention an object in the {place}?"))
    image = [("scene_information", f"Does the caption mention a {scene.background} background?")]
    items = {"instance": instance, "attribute": attribute, "relation": relation, "image": image}
    return {
        f"{dimension}_checklist": [{"Tags": tag, "Question": text} for tag, text in items.get(dimension, [])]
        for dimension in DIMENSIONS
    }


def judge_item(caption: str, question: str) -> Verdict:
    """Whether a caption supports what a checklist question asks about (`yes`), contradicts it (`no`) or does not
    speak of it (`not_mentioned`). Two statements about one thing that disagree count as a contradiction.

    Raises UserError for a question in another form than `checklist` writes.
    """
    asked = next((match for form in _FORMS if (match := form.fullmatch(question))), None)
    if asked is None:
        raise UserError(f"the exact judge reads blocks checklists only, it cannot read {question!r}")
    said, wanted = parse(caption), asked.groupdict()
    cell = wanted.pop("cell", None)
    if not wanted:
        return "yes" if any(CELLS[place] == cell for place, _ in said.objects) else "not_mentioned"
    ((name, value),) = wanted.items()
    values = _values(said, cell, name)
    if not values:
        return "not_mentioned"
    return "yes" if values == {value} else "no"


def _values(said: Description, cell: str | None, name: str) -> set[str]:
    """What a caption says about one attribute of a cell's object, or about the background (`cell` None)."""
    if cell is None:
        return {said.background} if said.background else set()
    return {values[name] for place, values in said.objects if CELLS[place] == cell and name in values}
