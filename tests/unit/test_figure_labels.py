"""Names beside points do not overlap each other, and figures state what they must."""

from itertools import combinations, pairwise

import matplotlib
import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Annotation

from workflow_scripts.analysis import figures
from workflow_scripts.analysis.labels import label_points
from workflow_scripts.drawing import STYLE, family_styles, save


@pytest.mark.parametrize("seed", range(4))
def test_names_do_not_overlap_and_stay_inside(seed):
    rng = np.random.default_rng(seed)
    x, y = rng.uniform(0, 1, 14), rng.uniform(0, 1, 14)
    x[1:4], y[1:4] = x[0] + [0.01, -0.01, 0.02], y[0] + [0.01, 0.015, -0.01]  # four points on one another
    names = [f"captioner-{i}-detailed" for i in range(14)]
    figure = Figure(figsize=(6.5, 5.5))
    ax = figure.subplots()
    ax.scatter(x, y)
    ax.margins(0.1)
    figure.draw_without_rendering()
    label_points(ax, x, y, names, np.empty((0, 2)))
    figure.draw_without_rendering()  # places the texts
    written = [child for child in ax.get_children() if isinstance(child, Annotation)]
    assert {text.get_text() for text in written} == set(names)
    boxes = [matplotlib.text.Text.get_window_extent(text) for text in written]
    for a, b in combinations(boxes, 2):
        assert min(a.x1, b.x1) - max(a.x0, b.x0) < 1 or min(a.y1, b.y1) - max(a.y0, b.y0) < 1
    frame = ax.get_window_extent()
    assert all(b.x0 > frame.x0 - 1 and b.x1 < frame.x1 + 1 for b in boxes)


def test_coverage_precision_states_n_the_interval_and_its_method(tmp_path):
    design = pd.DataFrame(
        {
            "family": ["a", "a", "b", "c"],
            "label": list("wxyz"),
            "C": [40.0, 50, 60, 70],
            "P": [60.0, 75, 70, 90],
            "C_se": [1.0, 1, 1, 1],
            "P_se": [2.0, 2, 2, 2],
        },
        index=list("wxyz"),
    )
    caption = figures.coverage_precision(design, 0.95).get_supxlabel().replace("\n", " ")
    assert "n = 4 captioners of 3 families" in caption
    assert "95% intervals, bootstrap over images (4 of 4 captioners have them)" in caption
    with matplotlib.rc_context(STYLE):
        for name in ("first", "second"):
            save(figures.coverage_precision(design, 0.95), tmp_path / name)
    assert (tmp_path / "first.svg").read_bytes() == (tmp_path / "second.svg").read_bytes()
    bare = figures.coverage_precision(design.assign(C_se=np.nan), 0.95).get_supxlabel()
    assert "No intervals" in bare


def test_families_differ_in_colour_marker_and_grey():
    design = pd.DataFrame({"family": list("abcdefgh")})
    styles = list(family_styles(design).values())
    assert len({marker for _, marker in styles}) == len({color for color, _ in styles}) == 8
    greys = [np.dot(matplotlib.colors.to_rgb(color), [0.299, 0.587, 0.114]) for color, _ in styles[:4]]
    assert min(abs(a - b) for a, b in pairwise(greys)) > 0.1
