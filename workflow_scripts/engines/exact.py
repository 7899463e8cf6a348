"""Captions of the blocks world without a model: read a picture's facts, spoil known shares of them, say the rest."""

import random
from collections.abc import Sequence
from typing import Any

import numpy as np

from workflow_scripts.blocks.world import detect, dial, say
from workflow_scripts.engines import Caption, Picture
from workflow_scripts.engines.pictures import read_pictures
from workflow_scripts.errors import UserError
from workflow_scripts.plan import CaptionJob


class Engine:
    """A dialled source; its random numbers follow from the image's id and the dial's seed alone."""

    def __init__(self, job: CaptionJob, pictures: Sequence[Picture]) -> None:
        self.facts: dict[str, Any] = {}
        self._dial = job.dial

    def caption(self, pictures: Sequence[Picture]) -> list[Caption]:
        """Read, spoil and say each picture."""
        images, captions = read_pictures(pictures, max_pixels=None)
        for position, image in images.items():
            captions[position] = self._caption(pictures[position], np.asarray(image))
        return [captions[position] for position in range(len(pictures))]

    def _caption(self, picture: Picture, image_HWC: np.ndarray) -> Caption:
        try:
            truth = detect(image_HWC)
        except ValueError as error:
            raise UserError(f"{picture.path}: engine 'exact' reads blocks pictures only: {error}") from None
        numbers = random.Random(f"{self._dial.seed}:{picture.image_id}")
        text = say(dial(truth, self._dial.drop, self._dial.falsify, numbers))
        return Caption(text, len(text.split()), "stop")
