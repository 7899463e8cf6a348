"""Boxes (left, top, right, bottom) in pixels, and how much two of them share."""

Box = tuple[float, float, float, float]


def center(box: Box) -> tuple[float, float]:
    """The middle, x and y."""
    return (box[0] + box[2]) / 2, (box[1] + box[3]) / 2


def areas(a: Box, b: Box, border: float = 0.0) -> tuple[float, float, float]:
    """The areas of a, of b and of what both cover, pixels. `border` is added to every side's length: 1 where right and
    bottom name the last pixel inside, 0 where they name the first outside."""

    def area(left: float, top: float, right: float, bottom: float) -> float:
        return max(right - left + border, 0.0) * max(bottom - top + border, 0.0)

    shared = area(max(a[0], b[0]), max(a[1], b[1]), min(a[2], b[2]), min(a[3], b[3]))
    return area(*a), area(*b), shared


def iou(a: Box, b: Box, border: float = 0.0) -> float:
    """Intersection over union, 0-1; 0 where both are empty."""
    area_a, area_b, shared = areas(a, b, border)
    union = area_a + area_b - shared
    return shared / union if union else 0.0
