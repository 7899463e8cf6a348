"""Doubles of the models behind the generation benchmarks' scores: each says of a picture what a test told it.

A picture is known by its first pixel's colour, the canaries' pictures by theirs, which the doubles see rightly.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from PIL.Image import Image

from workflow_scripts.benchmarks.generation.canaries import (
    CHUNKS,
    CLOCK,
    FITTING,
    QUESTIONS,
    SIGN,
    TEXTS,
    road,
    sign_and_clock,
)
from workflow_scripts.benchmarks.generation.roles import Detection

SEEN = [Detection("stop sign", 0.95, SIGN), Detection("clock", 0.9, CLOCK)]


def key(picture: Image) -> tuple[int, ...]:
    """The colour of a picture's first pixel."""
    return picture.getpixel((0, 0))


class ToldModels:
    """All roles in one. `say` gives what a model says, from role, picture and, if any, what is asked."""

    frame = (8, 8)

    def __init__(self, say: Callable[..., Any]) -> None:
        self._say, self.asked, self._sign, self._road = say, [], key(sign_and_clock()), key(road())

    def detect(self, pictures: Sequence[Image], names: Sequence[Sequence[str]] | None = None) -> list[list[Detection]]:
        asked = [()] * len(pictures) if names is None else names
        return [
            SEEN if key(picture) == self._sign else self._told("objects", picture, some)
            for picture, some in zip(pictures, asked, strict=True)
        ]

    def colors(self, objects: Sequence[tuple[Image, Detection]]) -> list[str]:
        return [
            "red" if key(picture) == self._sign else self._told("colors", picture, thing.label)
            for picture, thing in objects
        ]

    def answers(self, asked: Sequence[tuple[Image, str]]) -> list[str]:
        known = {text: "yes" if yes else "no" for text, yes in QUESTIONS.items()}
        return [known.get(text) or self._told("answers", picture, text) for picture, text in asked]

    def probabilities(self, asked: Sequence[tuple[Image, str]]) -> list[float]:
        known = {text: 0.9 if yes else 0.1 for text, yes in CHUNKS.items()}
        return [known.get(text) or self._told("attributes", picture, text) for picture, text in asked]

    def depths(self, pictures: Sequence[Image], frame: tuple[int, int]) -> list[np.ndarray]:
        rows = np.linspace(0, 1, 20)[:, None] * np.ones(20)
        return [rows if key(picture) == self._road else self._told("depth", picture, frame) for picture in pictures]

    def similarities(self, pairs: Sequence[tuple[Image, str]]) -> list[float]:
        known = {text: 0.3 if text in FITTING else 0.1 for text in TEXTS}
        return [known.get(text) or self._told("similarity", picture, text) for picture, text in pairs]

    def _told(self, role: str, picture: Image, asked: Any) -> Any:
        self.asked.append((role, key(picture), asked))
        return self._say(role, picture, asked)

    @property
    def roles(self) -> dict[str, "ToldModels"]:
        """This double for every role."""
        return dict.fromkeys(("instances", "colors", "answers", "attributes", "objects", "depth", "similarity"), self)
