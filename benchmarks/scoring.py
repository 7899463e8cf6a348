"""Pictures a second of each model behind the generation scores, in batches against one by one.

    python -m benchmarks.scoring --pictures 24 --batch 8 --side 512

The models are the tiny ones of the tests, of the real classes, so what is measured is mostly what is not the model:
scaling pictures, making instances and boxes of raw outputs, and what a call costs. One by one is a call for each
picture and, where something is asked of it, for each question, which encodes the picture anew. Each is measured
--rounds times in turn; printed are the best rates and their ratio.
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from tests.unit import tiny_scorers
from workflow_scripts.benchmarks.generation.models import blip, clip, dpt, mask2former, owlv2
from workflow_scripts.benchmarks.generation.roles import Detection
from workflow_scripts.spec import ScorerModel

QUESTIONS = ("a red clock?", "a blue apple?", "the elephant?", "the top of the stop sign?")


def jobs(side: int) -> dict[str, tuple[str, Callable[[Path], Path], Any, Callable, Callable]]:
    """By role: `through`, builder, class, how all pictures are asked about at once, and how one is."""
    thing = Detection("cow", 0.9, (side / 8, side / 8, side / 2, side / 2), np.ones((side, side), dtype=bool))
    return {
        "instances": (
            "mask2former", tiny_scorers.build_mask2former, mask2former.InstanceDetector,
            lambda model, pictures: model.detect(pictures),
            lambda model, picture: model.detect([picture]),
        ),
        "colors": (
            "clip", tiny_scorers.build_clip, clip.ColorClassifier,
            lambda model, pictures: model.colors([(picture, thing) for picture in pictures]),
            lambda model, picture: model.colors([(picture, thing)]),
        ),
        "attributes": (
            "blip", tiny_scorers.build_blip, blip.YesProbability,
            lambda model, pictures: model.probabilities([(picture, q) for picture in pictures for q in QUESTIONS]),
            lambda model, picture: [model.probabilities([(picture, q)]) for q in QUESTIONS],
        ),
        "objects": (
            "owlv2", tiny_scorers.build_owlv2, owlv2.ObjectDetector,
            lambda model, pictures: model.detect(pictures, [["cow", "clock"]] * len(pictures)),
            lambda model, picture: model.detect([picture], [["cow", "clock"]]),
        ),
        "depth": (
            "dpt", tiny_scorers.build_dpt, dpt.DepthEstimator,
            lambda model, pictures: model.depths(pictures, owlv2.FRAME),
            lambda model, picture: model.depths([picture], owlv2.FRAME),
        ),
        "similarity": (
            "clip", tiny_scorers.build_clip, clip.TextSimilarity,
            lambda model, pictures: model.similarities([(picture, q) for picture in pictures for q in QUESTIONS]),
            lambda model, picture: [model.similarities([(picture, q)]) for q in QUESTIONS],
        ),
    }  # fmt: skip


def one_by_one(one: Callable[[Any, Image.Image], Any], model: Any, pictures: list[Image.Image]) -> None:
    """A call, or several, for each picture."""
    for picture in pictures:
        one(model, picture)


def seconds(work: Callable[[], Any]) -> float:
    """By the clock."""
    start = time.monotonic()
    work()
    return time.monotonic() - start


def main() -> None:
    """Print a line a role."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--pictures", type=int, default=24)
    arguments.add_argument("--batch", type=int, default=8)
    arguments.add_argument("--side", type=int, default=512, help="of the pictures, pixels")
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--threads", type=int, default=1, help="of torch")
    args = arguments.parse_args()
    torch.set_num_threads(args.threads)
    rng = np.random.default_rng(0)
    shape = (args.pictures, args.side, args.side, 3)
    pictures = [Image.fromarray(pixels) for pixels in rng.integers(0, 256, shape, dtype=np.uint8)]
    print(f"{args.pictures} pictures of {args.side} px, batches of {args.batch}, {args.threads} threads")
    with tempfile.TemporaryDirectory() as folder:
        for role, (through, build, opened, at_once, one) in jobs(args.side).items():
            source = ScorerModel(through=through, path=build(Path(folder) / role))
            together, alone = opened(source, args.batch), opened(source, 1)
            batched, single = partial(at_once, together, pictures), partial(one_by_one, one, alone, pictures)
            at_once(together, pictures[:2])  # what is made at the first call
            one(alone, pictures[0])
            rounds = [(seconds(batched), seconds(single)) for _ in range(args.rounds)]
            rates = [args.pictures / min(times) for times in zip(*rounds, strict=True)]
            print(
                f"{role:11} {rates[0]:8.1f} a second in batches {rates[1]:8.1f} one by one {rates[0] / rates[1]:6.2f} x"
            )


if __name__ == "__main__":
    main()
