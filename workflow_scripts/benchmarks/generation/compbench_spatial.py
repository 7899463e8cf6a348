"""T2I-CompBench++: does one object lie from another as asked, on the picture (2D) or in depth (3D)?

A picture with both objects scores a quarter of each one's confidence and half of how well the relation holds; with one
of them, a quarter of its confidence. In 2D less than 0.5 becomes 0. Boxes live in the detector's frame, of about 479
pixels, so that 150 pixels are a fixed distance.

Faults of the authors' scorers, which `fixed` mends:
- 2D: an object is found only if the detector's label is its very name (`table` is not, in `dining table`);
- 2D: `on top of`, `on bottom of`, `on the left` and `on the right` without `of` hold nowhere;
- two objects with one label (a boy near a girl: two persons) are one box twice;
- 3D: an object is found in a label that has its name within a word (`car` in `carrot`), and while the second is sought
  the first moves on to worse boxes;
- 3D: the depth map is read with x and y exchanged, and boxes that overlap by half exactly score 0.
"""

from collections.abc import Sequence

import numpy as np

from workflow_scripts.benchmarks.generation.base import Mode
from workflow_scripts.benchmarks.generation.boxes import Box, center, iou
from workflow_scripts.benchmarks.generation.compbench_names import canonical, names_in
from workflow_scripts.benchmarks.generation.roles import Detection

NEAR = 150.0  # pixels of the detector's frame
MAX_IOU = 0.1  # of objects beside each other
FULL_IOU = 0.5  # of objects behind each other
MIN_SCORE_2D = 0.5

# phrase -> relation; the first that occurs in the prompt counts
PHRASES_2D = {
    "on side of": "near",
    "next to": "near",
    "near": "near",
    "on the left of": "left",
    "on the right of": "right",
    "on the bottom of": "bottom",
    "on the top of": "top",
}
PHRASES_2D_FIXED = PHRASES_2D | {
    "on top of": "top",
    "on bottom of": "bottom",
    "on the left": "left",
    "on the right": "right",
}
PHRASES_3D = {"in front of": "front", "behind": "behind", "hidden": "behind"}


def relation_2d(text: str, mode: Mode) -> str | None:
    """The relation that a prompt asks for on the picture, None where it names none that the mode knows."""
    phrases = PHRASES_2D if mode == "official" else PHRASES_2D_FIXED
    return next((relation for phrase, relation in phrases.items() if phrase in text), None)


def relation_3d(text: str) -> str | None:
    """The relation that a prompt asks for in depth, None where it names none."""
    return next((relation for phrase, relation in PHRASES_3D.items() if phrase in text), None)


def position_2d(relation: str | None, a: Box, b: Box) -> float:
    """How well A lies from B as asked, 0-1. Beside each other they may overlap by a tenth; more weakens the score."""
    (ax, ay), (bx, by) = center(a), center(b)
    x, y = bx - ax, by - ay
    if relation == "near":
        return 1.0 if min(abs(x), abs(y)) < NEAR else NEAR / max(abs(x), abs(y))
    along, across = {"left": (x, y), "right": (-x, y), "top": (y, x), "bottom": (-y, x)}.get(relation or "", (0.0, 0.0))
    if along <= abs(across):
        return 0.0
    shared = iou(a, b)
    return 1.0 if shared < MAX_IOU else MAX_IOU / shared


def position_3d(relation: str | None, a: Box, b: Box, depth: np.ndarray, mode: Mode) -> float:
    """How well A lies before or behind B as asked, 0-1: the mean of `depth` (height, width; more is nearer) in A's box
    is higher or lower, and the boxes overlap by half; less weakens the score."""
    if relation not in PHRASES_3D.values():
        return 0.0
    nearer = _mean_depth(depth, a, mode) - _mean_depth(depth, b, mode)
    if not (nearer > 0 if relation == "front" else nearer < 0):  # an empty part of the map has no mean: not either
        return 0.0
    shared = iou(a, b)
    if mode == "official" and shared == FULL_IOU:
        return 0.0
    return min(shared / FULL_IOU, 1.0)


def _mean_depth(depth: np.ndarray, box: Box, mode: Mode) -> float:
    left, top, right, bottom = (int(side) for side in box)
    part = depth[left:right, top:bottom] if mode == "official" else depth[top:bottom, left:right]
    return float(part.mean()) if part.size else float("nan")


def score_2d(text: str, objects: tuple[str, str] | None, detections: Sequence[Detection], mode: Mode) -> float:
    """A picture's score for a relation on it, 0-1. `objects` are the two that the prompt relates, None where none were
    found in it; `detections` best first."""
    if objects is None:
        return 0.0
    names = [canonical(name, mode) for name in objects]
    if mode == "official":
        labels = [detection.label for detection in detections]
        found = [detections[labels.index(name)] if name in labels else None for name in names]
    else:
        found = _best_of_each(names, detections)
    a, b = found
    score = _confidence(found)
    if a and b:
        score += position_2d(relation_2d(text, mode), a.box, b.box) / 2
    return score if score >= MIN_SCORE_2D else 0.0


def score_3d(
    text: str, objects: tuple[str, str], detections: Sequence[Detection], depth: np.ndarray, mode: Mode
) -> float:
    """A picture's score for a relation in depth, 0-1; `depth` (height, width) in the detector's frame."""
    names = [canonical(name, mode) for name in objects]
    found = _found_within(names, detections) if mode == "official" else _best_of_each(names, detections)
    a, b = found
    score = _confidence(found)
    if a and b:
        score += position_3d(relation_3d(text), a.box, b.box, depth, mode) / 2
    return score


def _confidence(found: Sequence[Detection | None]) -> float:
    return sum(0.25 * detection.score for detection in found if detection)


def _best_of_each(names: Sequence[str], detections: Sequence[Detection]) -> list[Detection | None]:
    """The best detection of each name, never the same twice."""
    found: list[Detection | None] = []
    for name in names:
        fits = (d for d in detections if name in names_in(d.label) and d not in found)
        found.append(next(fits, None))
    return found


def _found_within(names: Sequence[str], detections: Sequence[Detection]) -> list[Detection | None]:
    """The authors' way in 3D: names within labels; where both occur, each one's last before both have been seen."""
    last: list[Detection | None] = [None, None]
    both = all(any(name in detection.label for detection in detections) for name in names)
    for detection in detections:
        for place, name in enumerate(names):
            if name in detection.label and (both or last[place] is None):
                last[place] = detection
        if both and all(last):
            break
    return last
