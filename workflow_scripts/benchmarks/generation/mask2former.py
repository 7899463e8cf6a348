"""Instances from Mask2Former's raw outputs, as mmdet makes them for GenEval.

The ready-made instances of transformers give each pixel to one object, so that objects that overlap lose parts of
themselves; here masks may overlap.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from workflow_scripts.benchmarks.generation.boxes import Box
from workflow_scripts.benchmarks.generation.roles import Detection

if TYPE_CHECKING:
    import torch

MAX_INSTANCES = 100


def instances(
    class_logits_QC: "torch.Tensor",
    mask_logits_QHW: "torch.Tensor",
    padded: tuple[int, int],
    resized: tuple[int, int],
    original: tuple[int, int],
    names: Sequence[str],
) -> list[Detection]:
    """The 100 best pairs of a query and a class of one picture, best first.

    Q queries; C classes, the last of them none; `padded` is what the model saw, of which the upper left `resized` is
    the picture, `original` the picture's size: height and width in pixels. A pair's score is its class's probability
    times the mean probability of the mask within itself; the box is that of the mask, right and bottom outside.
    """
    import torch
    from torch.nn.functional import interpolate

    probabilities = class_logits_QC.float().softmax(dim=-1)[:, :-1]
    num_classes = probabilities.shape[1]
    best, places = probabilities.flatten().topk(min(MAX_INSTANCES, probabilities.numel()))
    masks = mask_logits_QHW.float()[None]
    masks = interpolate(masks, size=padded, mode="bilinear", align_corners=False)[:, :, : resized[0], : resized[1]]
    masks = interpolate(masks, size=original, mode="bilinear", align_corners=False)[0]
    inside = masks > 0
    mean_Q = (masks.sigmoid() * inside).flatten(1).sum(dim=1) / (inside.flatten(1).sum(dim=1) + 1e-6)
    queries, labels = torch.div(places, num_classes, rounding_mode="floor"), places % num_classes
    scores = best * mean_Q[queries]
    order = scores.argsort(descending=True, stable=True).tolist()
    bits = inside.cpu().numpy()
    boxes = {query: box_of(bits[query]) for query in set(queries.tolist())}
    return [Detection(names[labels[i]], float(scores[i]), boxes[int(queries[i])], bits[int(queries[i])]) for i in order]


def box_of(mask: np.ndarray) -> Box:
    """The box of a mask, (height, width) of bool; zeros where it is empty."""
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    if not len(rows):
        return (0.0, 0.0, 0.0, 0.0)
    return (float(columns[0]), float(rows[0]), float(columns[-1] + 1), float(rows[-1] + 1))
