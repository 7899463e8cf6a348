"""Make pictures and questions on which BLIP-VQA's probabilities are compared with the authors' code.

    python tests/golden/make_blip.py FOLDER

writes the tiny model of tests/unit/tiny_scorers.py, the pictures and questions.json to FOLDER. blip.json holds what
T2I-CompBench's BLIP (1b70949, with transformers 4.30.2, timm 0.6.13) gives with the same weights: its own loading,
which scales the positions, its own transform, cleaning of questions and mode `vqa_prob`, before rounding; run in a
folder of its own with the model's sizes and vocabulary set to the tiny ones.
"""

import json
import sys
from pathlib import Path

import numpy as np
from PIL import Image

QUESTIONS = (
    "a red stop sign?",
    "A clock?",
    "the blue apple on top of the elephant?",
    'is there "an" elephant.; (a) stop?',
    "red " * 60 + "?",
)


def pictures() -> list[Image.Image]:
    """Noise, a gradient, and noise of another shape."""
    rng = np.random.default_rng(5)
    across, down = np.meshgrid(np.arange(200), np.arange(120))
    gradient = np.stack([across, 2 * down, across + down / 2], axis=2).astype(np.uint8)
    sizes = ((90, 140, 3), (512, 480, 3))
    first, last = (Image.fromarray(rng.integers(0, 256, size, dtype=np.uint8)) for size in sizes)
    return [first, Image.fromarray(gradient), last]


if __name__ == "__main__":
    from tests.unit.tiny_scorers import build_blip

    folder = Path(sys.argv[1])
    build_blip(folder / "model")
    for number, picture in enumerate(pictures()):
        picture.save(folder / f"{number}.png")
    (folder / "questions.json").write_text(json.dumps(QUESTIONS))
