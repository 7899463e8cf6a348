"""Names beside the points of a scatter plot, without overlaps."""

from itertools import product
from math import cos, pi, sin

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patheffects import withStroke

_ANGLES = [0, 180, 90, 270, 45, 135, 225, 315, 22.5, 157.5, 202.5, 337.5, 67.5, 112.5, 247.5, 292.5]
_DISTANCES = (6.0, 11.0, 18.0, 27.0, 38.0)  # points
_LEADER_FROM = 10.0  # a label farther than this is tied to its point by a line

Box = tuple[float, float, float, float]


def label_points(ax: Axes, x: np.ndarray, y: np.ndarray, names: list[str], avoid: np.ndarray, size: float = 7.0) -> None:
    """Write each name at the nearest free place around its point, when the layout of the figure is settled.

    x, y (n,) and avoid (m, 2), further places to keep free (other points, a line), are in data units. Places are tried
    from near to far in sixteen directions, crowded points first; a place costs the area that it shares with other
    names, points and the outside of the axes, and a little for its distance.
    """
    unit = ax.figure.dpi / 72
    centres = ax.transData.transform(np.column_stack([x, y]))
    inside = ax.get_window_extent().bounds
    frame = (inside[0], inside[1], inside[0] + inside[2], inside[1] + inside[3])
    r = 4 * unit
    points = [(cx - r, cy - r, cx + r, cy + r) for cx, cy in [*centres, *ax.transData.transform(avoid)]]
    crowding = [sum(np.hypot(*(other - centre)) < 40 * unit for other in centres) for centre in centres]
    taken: list[Box] = []
    for i in sorted(range(len(names)), key=lambda i: -crowding[i]):
        width, height = _text_size(ax, names[i], size)
        options = []
        for distance, angle in product(_DISTANCES, _ANGLES):
            dx, dy = distance * unit * cos(angle * pi / 180), distance * unit * sin(angle * pi / 180)
            box = _box(centres[i], dx, dy, width, height)
            cost = sum(_shared(box, other) for other in taken + points) + 3 * _outside(box, frame)
            options.append((cost + 0.02 * distance * width, distance, dx, dy, box))
        _, distance, dx, dy, box = min(options, key=lambda option: option[0])
        taken.append(box)
        line = {"arrowstyle": "-", "linewidth": 0.5, "color": "0.6", "shrinkA": 0, "shrinkB": 2}
        written = ax.annotate(
            names[i],
            (x[i], y[i]),
            xytext=(dx / unit, dy / unit),
            textcoords="offset points",
            ha=_alignment(dx, "right", "left"),
            va=_alignment(dy, "top", "bottom"),
            fontsize=size,
            color="0.15",
            arrowprops=line if distance > _LEADER_FROM else None,
            zorder=4,
            path_effects=[withStroke(linewidth=1.5, foreground="white", alpha=0.7)],
        )
        written.set_in_layout(False)


def _text_size(ax: Axes, text: str, size: float) -> tuple[float, float]:
    drawn = ax.text(0, 0, text, fontsize=size)
    extent = drawn.get_window_extent()
    drawn.remove()
    return extent.width, extent.height


def _alignment(offset: float, negative: str, positive: str) -> str:
    return "center" if abs(offset) < 1 else (negative if offset < 0 else positive)


def _box(centre: np.ndarray, dx: float, dy: float, width: float, height: float) -> Box:
    left = centre[0] + dx - (width / 2 if abs(dx) < 1 else (width if dx < 0 else 0))
    low = centre[1] + dy - (height / 2 if abs(dy) < 1 else (height if dy < 0 else 0))
    return left, low, left + width, low + height


def _shared(a: Box, b: Box) -> float:
    return max(0.0, min(a[2], b[2]) - max(a[0], b[0])) * max(0.0, min(a[3], b[3]) - max(a[1], b[1]))


def _outside(box: Box, frame: Box) -> float:
    return (box[2] - box[0]) * (box[3] - box[1]) - _shared(box, frame)
