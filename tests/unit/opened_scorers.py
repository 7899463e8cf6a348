"""Models behind the generation scores on tiny random weights, pictures, and what each role is asked in tests."""

from pathlib import Path
from typing import Any

import numpy as np
import tiny_scorers
from PIL import Image

from workflow_scripts.benchmarks.generation.models import blip, clip, dpt, mask2former, owlv2
from workflow_scripts.benchmarks.generation.roles import Detection
from workflow_scripts.spec import ScorerModel

TINY = {
    "instances": ("mask2former", tiny_scorers.build_mask2former),
    "colors": ("clip", tiny_scorers.build_clip),
    "attributes": ("blip", tiny_scorers.build_blip),
    "objects": ("owlv2", tiny_scorers.build_owlv2),
    "depth": ("dpt", tiny_scorers.build_dpt),
    "similarity": ("clip", tiny_scorers.build_clip),
}
CLASSES = {
    "instances": mask2former.InstanceDetector,
    "colors": clip.ColorClassifier,
    "attributes": blip.YesProbability,
    "objects": owlv2.ObjectDetector,
    "depth": dpt.DepthEstimator,
    "similarity": clip.TextSimilarity,
}


def build_all(folder: Path) -> dict[str, Path]:
    """The folder of each role's model."""
    built = {through: build(folder / through) for through, build in TINY.values()}
    return {role: built[through] for role, (through, _) in TINY.items()}


def open_scorer(folders: dict[str, Path], role: str, batch: int = 4) -> Any:
    """The model of a role."""
    return CLASSES[role](ScorerModel(through=TINY[role][0], path=folders[role]), batch, None)


def noise(seed, width=64, height=64):
    rng = np.random.default_rng(seed)
    cells = rng.integers(0, 256, (height // 8, width // 8, 3), dtype=np.uint8)
    return Image.fromarray(cells.repeat(8, axis=0).repeat(8, axis=1))


PICTURES = [noise(0), noise(1), noise(2, 96, 64), noise(3), noise(4)]


def flat(said) -> list[float]:
    """All numbers of what a model said."""
    if isinstance(said, Detection):
        return [said.score, *said.box, *([] if said.mask is None else [said.mask.mean()])]
    if isinstance(said, list | tuple):
        return [number for part in said for number in flat(part)]
    return np.ravel(said).tolist() if not isinstance(said, str) else []


def labels(said) -> list[str]:
    if isinstance(said, list):
        return [label for part in said for label in labels(part)]
    return [said.label if isinstance(said, Detection) else said] if isinstance(said, str | Detection) else []


ASK = {
    "instances": lambda model, pictures: model.detect(pictures),
    "colors": lambda model, pictures: model.colors(
        [
            (picture, Detection("cow", 0.9, (8, 0, 56, 40), np.arange(4096).reshape(64, 64) % 3 > 0))
            for picture in pictures
        ]
    ),
    "attributes": lambda model, pictures: model.probabilities(
        [(picture, text) for picture in pictures for text in ("a red clock?", "the blue apple on top of the sign?")]
    ),
    "objects": lambda model, pictures: model.detect(
        pictures, [["cow", "stop sign"] if number % 2 else ["clock"] for number in range(len(pictures))]
    ),
    "depth": lambda model, pictures: model.depths(pictures, (40, 30)),
    "similarity": lambda model, pictures: model.similarities(
        [(picture, text) for picture in pictures for text in ("a red clock", "cow")]
    ),
}
