"""Mask2Former with Swin-S on COCO's instances, asked as mmdet asks it for GenEval.

The picture is scaled to 800 pixels on its shorter side, at most 1333 on its longer one, as OpenCV does it, and filled
up to multiples of 32. GenEval's authors take weights of mmdet's own training, which `convert_mmdet` makes a folder of;
the ones on the hub are of Mask2Former's authors.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch.nn.functional import pad

from workflow_scripts.benchmarks.generation.mask2former import instances
from workflow_scripts.benchmarks.generation.models.loading import Batches, device, load
from workflow_scripts.benchmarks.generation.roles import Detection
from workflow_scripts.errors import UserError
from workflow_scripts.spec import ScorerModel

SHORTER, LONGER, MULTIPLE = 800, 1333, 32  # pixels
GREY = 128
# Of the loss, and of the backbone's end, which newer versions of transformers make: published checkpoints lack it.
UNUSED = r"^criterion\.|^model\.pixel_level_module\.encoder\.swin\.layernorm\."
MEAN, STD = (123.675, 116.28, 103.53), (58.395, 57.12, 57.375)  # of 0-255, ImageNet's

# GenEval's names of COCO's 80 classes, in COCO's order.
NAMES = (
    "person", "bicycle", "car", "motorcycle", "airplane", "bus", "train", "truck", "boat", "traffic light",
    "fire hydrant", "stop sign", "parking meter", "bench", "bird", "cat", "dog", "horse", "sheep", "cow", "elephant",
    "bear", "zebra", "giraffe", "backpack", "umbrella", "handbag", "tie", "suitcase", "frisbee", "skis", "snowboard",
    "sports ball", "kite", "baseball bat", "baseball glove", "skateboard", "surfboard", "tennis racket", "bottle",
    "wine glass", "cup", "fork", "knife", "spoon", "bowl", "banana", "apple", "sandwich", "orange", "broccoli",
    "carrot", "hot dog", "pizza", "donut", "cake", "chair", "couch", "potted plant", "bed", "dining table", "toilet",
    "tv", "laptop", "computer mouse", "tv remote", "computer keyboard", "cell phone", "microwave", "oven", "toaster",
    "sink", "refrigerator", "book", "clock", "vase", "scissors", "teddy bear", "hair drier", "toothbrush",
)  # fmt: skip
# What COCO and transformers' label files call some of them.
SYNONYMS = {
    "motorcycle": "motorbike",
    "airplane": "aeroplane",
    "couch": "sofa",
    "potted plant": "pottedplant",
    "dining table": "diningtable",
    "tv": "tvmonitor",
    "computer mouse": "mouse",
    "tv remote": "remote",
    "computer keyboard": "keyboard",
}


class InstanceDetector:
    """GenEval's detector."""

    def __init__(self, source: ScorerModel, batch: int, serving: Any = None) -> None:
        from transformers import Mask2FormerForUniversalSegmentation

        self._model = load(source, Mask2FormerForUniversalSegmentation, UNUSED)
        self._in_batches = Batches(batch, source.path)
        labels = self._model.config.id2label
        if len(labels) != len(NAMES):
            raise UserError(f"{source.path}: knows {len(labels)} classes, expected COCO's {len(NAMES)}")
        for number, name in enumerate(NAMES):
            if labels[number] not in (name, SYNONYMS.get(name)):
                raise UserError(f"{source.path}: class {number} is {labels[number]!r}, expected COCO's {name!r}")

    def detect(self, pictures: Sequence[Image.Image]) -> list[list[Detection]]:
        """All instances of each picture, of any confidence, at most 100 a picture. Those of one size share a batch."""
        by_size: dict[tuple[int, int], list[int]] = {}
        for place, picture in enumerate(pictures):
            by_size.setdefault(picture.size, []).append(place)
        found: dict[int, list[Detection]] = {}
        for places in by_size.values():
            seen = self._in_batches([pictures[place] for place in places], self._detect)
            found.update(zip(places, seen, strict=True))
        return [found[place] for place in range(len(pictures))]

    @torch.inference_mode()
    def _detect(self, pictures: Sequence[Image.Image]) -> list[list[Detection]]:
        """Instances of pictures of one size."""
        width, height = pictures[0].size
        resized = resized_size(height, width)
        inputs = torch.stack([prepare(picture, resized) for picture in pictures]).to(device())
        outputs = self._model(pixel_values=inputs)
        padded = tuple(inputs.shape[-2:])
        return [
            instances(classes_QC, masks_QHW, padded, resized, (height, width), NAMES)
            for classes_QC, masks_QHW in zip(outputs.class_queries_logits, outputs.masks_queries_logits, strict=True)
        ]


def resized_size(height: int, width: int) -> tuple[int, int]:
    """Height and width of a picture once scaled."""
    scale = min(LONGER / max(height, width), SHORTER / min(height, width))
    return int(height * scale + 0.5), int(width * scale + 0.5)


def scaled(pixels: np.ndarray, height: int, width: int) -> np.ndarray:
    """Pixels (h, w, 3) of uint8 scaled as OpenCV's bilinear does it: half-pixel centres, no smoothing, weights in steps
    of 1/2048, whole numbers cut in between."""
    left, right, to_left, to_right = _weights(pixels.shape[1], width)
    above, below, to_above, to_below = _weights(pixels.shape[0], height)
    values = pixels.astype(np.int32)
    rows = (values[:, left] * to_left[:, None] + values[:, right] * to_right[:, None]) >> 4
    both = ((rows[above] * to_above[:, None, None]) >> 16) + ((rows[below] * to_below[:, None, None]) >> 16)
    return ((both + 2) >> 2).astype(np.uint8)


def _weights(old: int, new: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """For each of the new places: the old ones before and after it, and their weights in 1/2048."""
    at = ((np.arange(new) + 0.5) * (old / new) - 0.5).astype(np.float32).clip(0, old - 1)
    before = np.floor(at).astype(int)
    share = at - before.astype(np.float32)
    weights = (np.rint(2048 * part).astype(np.int32) for part in (1 - share, share))
    return before, np.minimum(before + 1, old - 1), *weights


def prepare(picture: Image.Image, resized: tuple[int, int]) -> torch.Tensor:
    """A picture as the model takes it: (3, height, width), both multiples of 32, filled up with grey."""
    values = torch.from_numpy(scaled(np.asarray(picture.convert("RGB")), *resized)).permute(2, 0, 1).float()
    height, width = resized
    values = pad(values, (0, -width % MULTIPLE, 0, -height % MULTIPLE), value=GREY)
    return (values - torch.tensor(MEAN)[:, None, None]) / torch.tensor(STD)[:, None, None]
