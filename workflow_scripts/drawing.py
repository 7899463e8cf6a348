"""What all figures share: style, colours of the families, legend and caption, files."""

import textwrap
from math import ceil
from pathlib import Path

import matplotlib
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from workflow_scripts.files import atomic

matplotlib.use("Agg")
STYLE = {
    "font.size": 9,
    "axes.titlesize": 9.5,
    "axes.labelsize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "0.92",
    "grid.linewidth": 0.8,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "svg.hashsalt": "capsweep",
    "figure.dpi": 100,
    "savefig.dpi": 160,
    "savefig.facecolor": "white",
}
# Okabe and Ito's colours, in an order whose lightness alternates, so that neighbours differ in grey as well.
FAMILY_STYLES = [
    ("#0072B2", "o"),
    ("#E69F00", "s"),
    ("#009E73", "^"),
    ("#CC79A7", "D"),
    ("#56B4E9", "v"),
    ("#D55E00", "P"),
    ("#000000", "X"),
    ("#999999", "*"),
]


def family_styles(design: pd.DataFrame) -> dict[str, tuple[str, str]]:
    """(colour, marker) by family, in the order in which the families appear."""
    families = list(dict.fromkeys(design.family))
    return {family: FAMILY_STYLES[i % len(FAMILY_STYLES)] for i, family in enumerate(families)}


def family_handles(design: pd.DataFrame) -> list[Artist]:
    """An entry a family for the legend."""
    return [
        Line2D([], [], color=color, marker=marker, linestyle="none", markersize=6, label=family)
        for family, (color, marker) in family_styles(design).items()
    ]


def legend(figure: Figure, handles: list[Artist]) -> None:
    """The legend, above all panels."""
    rows = ceil(len(handles) / 6)
    figure.legend(handles=handles, loc="outside upper center", ncols=ceil(len(handles) / rows), fontsize=8)


def settle(figure: Figure) -> None:
    """Lay the figure out for good, so that what is added later moves nothing."""
    figure.draw_without_rendering()
    figure.set_layout_engine("none")


def caption(figure: Figure, text: str) -> None:
    """What must be known to read the figure, below it."""
    width = int(figure.get_figwidth() * 15.5)
    figure.supxlabel(textwrap.fill(text, width), fontsize=8, color="0.25", x=0.01, ha="left", linespacing=1.3)


def save(figure: Figure, stem: Path) -> None:
    """Write `<stem>.svg` and `<stem>.png`; equal figures give equal files."""
    for suffix, metadata in ((".svg", {"Date": None}), (".png", {})):
        with atomic(stem.with_name(stem.name + suffix)) as temporary:
            figure.savefig(temporary, metadata=metadata)
