"""Names beside the points of a scatter plot, without overlaps."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patheffects import withStroke

_ANGLES = [0, 180, 90, 270, 45, 135, 225, 315, 22.5, 157.5, 202.5, 337.5, 67.5, 112.5, 247.5, 292.5]
_DISTANCES = [6.0, 11.0, 18.0, 27.0, 38.0]  # points
_LEADER_FROM = 10.0  # a label farther than this is tied to its point by a line
_DISTANCE_OF_PLACE = np.repeat(_DISTANCES, len(_ANGLES))
_DIRECTION_OF_PLACE = np.deg2rad(np.tile(_ANGLES, len(_DISTANCES)))
_PLACES = _DISTANCE_OF_PLACE[:, None] * np.column_stack([np.cos(_DIRECTION_OF_PLACE), np.sin(_DIRECTION_OF_PLACE)])


def label_points(
    ax: Axes, x: np.ndarray, y: np.ndarray, names: list[str], avoid: np.ndarray, size: float = 7.0
) -> None:
    """Write each name at the nearest free place around its point, when the layout of the figure is settled.

    x, y (n,) and avoid (m, 2), further places to keep free (other points, a line), are in data units. Places are tried
    from near to far in sixteen directions, crowded points first; a place costs the area that it shares with other
    names, points and the outside of the axes, and a little for its distance.
    """
    unit = ax.figure.dpi / 72
    centres = ax.transData.transform(np.column_stack([x, y]))
    frame = ax.get_window_extent().extents
    marks = np.concatenate([centres, ax.transData.transform(avoid)])
    taken = np.concatenate([marks - 4 * unit, marks + 4 * unit], axis=1)
    crowding = [sum(np.hypot(*(other - centre)) < 40 * unit for other in centres) for centre in centres]
    for i in sorted(range(len(names)), key=lambda i: -crowding[i]):
        width, height = _text_size(ax, names[i], size)
        offsets = _PLACES * unit
        boxes = np.array([_box(centres[i], dx, dy, width, height) for dx, dy in offsets])
        outside = width * height - _shared(boxes, frame[None])[:, 0]
        cost = _shared(boxes, taken).sum(axis=1) + 3 * outside + 0.02 * width * _DISTANCE_OF_PLACE
        best = int(np.argmin(cost))
        (dx, dy), distance = offsets[best], _DISTANCE_OF_PLACE[best]
        taken = np.concatenate([taken, boxes[best : best + 1]])
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


def _box(centre: np.ndarray, dx: float, dy: float, width: float, height: float) -> tuple[float, float, float, float]:
    left = centre[0] + dx - (width / 2 if abs(dx) < 1 else (width if dx < 0 else 0))
    low = centre[1] + dy - (height / 2 if abs(dy) < 1 else (height if dy < 0 else 0))
    return left, low, left + width, low + height


def _shared(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Areas (n, m) that boxes a (n, 4) and b (m, 4), given as left, low, right, high, have in common."""
    sides = np.minimum(a[:, None, 2:], b[None, :, 2:]) - np.maximum(a[:, None, :2], b[None, :, :2])
    return np.prod(np.maximum(sides, 0), axis=2)
