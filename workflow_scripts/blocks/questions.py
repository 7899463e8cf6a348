"""Questions and answers that follow from a description, be it the truth of a picture or what a caption says.

A description is read as complete: what it does not name is not there (an object that it leaves out is missing in
`how many ?` and answers `is there a ...` with no). A question whose answer the description leaves open, as the
colour of an object whose colour it does not name, is never asked. The same rules make the instruction data, the
benchmarks (from true descriptions) and the conversations that a captioner's captions support.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from workflow_scripts.blocks.world import (
    ATTRIBUTES,
    BACKGROUNDS,
    CELLS,
    COLORS,
    COLORS_OLD,
    SHAPES,
    SHAPES_OLD,
    Description,
    parse,
)

KINDS = ("existence", "color", "shape", "size", "background", "count", "position")
DESCRIBE = "describe"  # asks for the full caption
DESCRIBE_BRIEFLY = "describe briefly"  # asks for the objects' colours and shapes only


@dataclass(frozen=True)
class Question:
    kind: str
    text: str
    answer: str
    options: tuple[str, ...]  # every answer that the kind allows


def _named(color: str | None, shape: str) -> str:
    return f"{color} {shape}" if color else shape


def _matches(attributes: dict[str, str], color: str | None, shape: str) -> bool | None:
    """Whether an object is a `shape` (of `color`); None where what is said of it leaves that open."""
    said = [attributes.get("shape") == shape if "shape" in attributes else None]
    if color:
        said.append(attributes.get("color") == color if "color" in attributes else None)
    if False in said:
        return False
    return None if None in said else True


def _existence(description: Description, rng: random.Random, words: str) -> Question | None:
    """As often no as yes. Asks for a shape, or a colour and a shape; a no shares a word with an object where it can,
    as POPE's adversarial negatives do."""
    objects = [attributes for _, attributes in description.objects if "shape" in attributes]
    if not objects:
        return None
    colors, shapes = (COLORS, SHAPES) if words == "all" else (COLORS_OLD, SHAPES_OLD)
    chosen, wanted = rng.choice(objects), rng.random() < 0.5
    color, shape = chosen.get("color") if rng.random() < 0.5 else None, chosen["shape"]
    if not wanted:
        absent = [(color, other) for other in shapes]
        if color:
            absent += [(other, shape) for other in colors]
        absent = [(c, s) for c, s in absent if all(_matches(values, c, s) is False for _, values in description.objects)]
        if not absent:
            return None
        color, shape = rng.choice(absent)
    text = f"is there a {_named(color, shape)} ?"
    return Question("existence", text, "yes" if wanted else "no", ("yes", "no"))


def _attribute(description: Description, kind: str, rng: random.Random) -> Question | None:
    objects = [(cell, attributes) for cell, attributes in description.objects if kind in attributes]
    if not objects:
        return None
    cell, attributes = rng.choice(objects)
    return Question(kind, f"what {kind} {CELLS[cell]} ?", attributes[kind], ATTRIBUTES[kind])


def _position(description: Description, rng: random.Random) -> Question | None:
    """Asks for an object that only one cell can hold."""
    objects = [item for item in description.objects if "shape" in item[1]]
    if not objects:
        return None
    cell, chosen = rng.choice(objects)
    color, shape = chosen.get("color") if rng.random() < 0.5 else None, chosen["shape"]
    matches = [_matches(attributes, color, shape) for _, attributes in description.objects]
    if len(matches) - matches.count(False) != 1:
        return None
    return Question("position", f"where is the {_named(color, shape)} ?", CELLS[cell], CELLS)


def ask(description: Description, kind: str, rng: random.Random, words: str = "all") -> Question | None:
    """A question of `kind` (one of KINDS) that the description answers; `words` "old" keeps new words out of the
    question. None where this draw gives no such question: draw again or take another kind."""
    if kind == "existence":
        return _existence(description, rng, words)
    if kind in ATTRIBUTES:
        return _attribute(description, kind, rng)
    if kind == "position":
        return _position(description, rng)
    if kind == "background":
        known = description.background
        return Question(kind, "what background ?", known, BACKGROUNDS) if known else None
    if kind == "count":
        count = len(description.objects)
        return Question(kind, "how many ?", str(count), ("1", "2", "3", "4")) if 1 <= count <= 4 else None
    raise ValueError(f"unknown kind of question {kind!r}, expected one of {', '.join(KINDS)}")


def ask_several(
    description: Description,
    turns: int,
    rng: random.Random,
    kinds: Sequence[str] = KINDS,
    words: str = "all",
) -> list[Question]:
    """Up to `turns` different questions, kinds drawn uniformly from `kinds` (which may repeat a kind); fewer where
    the description supports fewer within 8 draws a turn."""
    found: dict[str, Question] = {}
    for _ in range(8 * turns):
        question = ask(description, rng.choice(kinds), rng, words)
        if question is not None:
            found.setdefault(question.text, question)
        if len(found) == turns:
            break
    return list(found.values())


def questions_from_caption(caption: str, rng: random.Random, turns: int = 3) -> list[tuple[str, str]]:
    """(question, answer) pairs that a caption supports, as LLaVA-Instruct asks a language model for; an empty list
    for a caption that says nothing. True or false, the caption is believed."""
    return [(question.text, question.answer) for question in ask_several(parse(caption), turns, rng)]


def brief(description: Description) -> Description:
    """What a short caption says: every object's colour and shape, neither sizes nor the background."""
    objects = tuple(
        (cell, {name: value for name, value in attributes.items() if name != "size"})
        for cell, attributes in description.objects
    )
    return Description(None, objects)
