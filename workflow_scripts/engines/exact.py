"""Captions of the blocks world without a model: read a picture's facts, spoil known shares of them, say the rest."""

import random
from collections.abc import Sequence
from typing import Any

import numpy as np

from workflow_scripts.blocks.world import detect, dial, say
from workflow_scripts.engines.interface import Answer, Picture, Request
from workflow_scripts.errors import UserError
from workflow_scripts.plan import EngineJob, ServingJob

_ROOM = 64  # pictures held in memory


class Engine:
    """A dialled source; its random numbers follow from the image's id and the dial's seed alone."""

    reads_images = True

    def __init__(self, job: EngineJob, serving: ServingJob, pictures: Sequence[Picture]) -> None:
        self.facts: dict[str, Any] = {}
        self._dial = job.dial
        self._waiting: list[Request] = []

    def room(self) -> int:
        """Pictures that it takes before the next `collect`."""
        return _ROOM - len(self._waiting)

    def submit(self, request: Request) -> None:
        """Take a picture."""
        self._waiting.append(request)

    def collect(self) -> list[tuple[Request, Answer]]:
        """Read, spoil and say each picture."""
        done = [(request, self._caption(request.picture, np.asarray(request.images[0]))) for request in self._waiting]
        self._waiting = []
        return done

    def count_tokens(self, text: str) -> int:
        """Words."""
        return len(text.split())

    def close(self) -> None:
        """Nothing to free."""

    def _caption(self, picture: Picture, image_HWC: np.ndarray) -> Answer:
        try:
            truth = detect(image_HWC)
        except ValueError as error:
            raise UserError(f"{picture.path}: engine 'exact' reads blocks pictures only: {error}") from None
        numbers = random.Random(f"{self._dial.seed}:{picture.image_id}")
        text = say(dial(truth, self._dial.drop, self._dial.falsify, numbers))
        return Answer(text, len(text.split()), "stop")
