"""Questions and answers that follow from a description, be it the truth of a picture or what a caption says.

A description is read as complete: what it does not name is not there (an object that it leaves out is missing in
`how many` and answers `is there a ...` with no). A question whose answer the description leaves open, as the
colour of an object whose colour it does not name, is never asked. The same rules make the instruction data, the
benchmarks (from true descriptions) and the conversations that a captioner's captions support.

A question ends with the word that it is about: models this small do not learn to look up what `is there a circle`
or `where is the circle` asks for where a question mark stands between it and the answer, nor, in minutes, for a
colour and a shape at once.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from workflow_scripts.blocks.world import (
    ATTRIBUTES,
    BACKGROUNDS,
    CELLS,
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
    """A question with its answer and every answer that its kind allows."""

    kind: str
    text: str
    answer: str
    options: tuple[str, ...]


def _existence(description: Description, rng: random.Random, words: str) -> Question | None:
    """Asks for a shape, as often absent as present. While an object's shape is not told, no shape is surely absent."""
    told = [attributes.get("shape") for _, attributes in description.objects]
    absent = [shape for shape in (SHAPES if words == "all" else SHAPES_OLD) if shape not in told]
    present = [shape for shape in told if shape is not None]
    answer = rng.choice(("yes", "no"))
    if not present or not absent or (answer == "no" and None in told):
        return None
    shape = rng.choice(present if answer == "yes" else absent)
    return Question("existence", f"is there a {shape}", answer, ("yes", "no"))


def _attribute(description: Description, kind: str, rng: random.Random) -> Question | None:
    objects = [(cell, attributes) for cell, attributes in description.objects if kind in attributes]
    if not objects:
        return None
    cell, attributes = rng.choice(objects)
    return Question(kind, f"what {kind} {CELLS[cell]}", attributes[kind], ATTRIBUTES[kind])


def _position(description: Description, rng: random.Random) -> Question | None:
    """Asks for a shape that only one object can have."""
    told = [attributes.get("shape") for _, attributes in description.objects]
    unique = [
        (cell, shape) for (cell, _), shape in zip(description.objects, told, strict=True) if told.count(shape) == 1
    ]
    if not unique or None in told:
        return None
    cell, shape = rng.choice(unique)
    return Question("position", f"where is the {shape}", CELLS[cell], CELLS)


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
        return Question(kind, "what background", known, BACKGROUNDS) if known else None
    if kind == "count":
        count = len(description.objects)
        return Question(kind, "how many", str(count), ("1", "2", "3", "4")) if 1 <= count <= 4 else None
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
