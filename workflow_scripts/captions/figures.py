"""The figures of all captioners' captions: how long they are to whom, and their faults."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import LogLocator, StrMethodFormatter

from workflow_scripts.captions.read import FAULTS
from workflow_scripts.drawing import caption, family_styles, legend

OVERLAP = 1.35  # height of the highest ridge, in rows
FILL = 0.55  # opacity of the ridges
# What the figure calls each fault, its colour, and a hatch that tells neighbours apart in grey.
FAULT_STYLES = {
    "failed": ("failed", "#000000", ""),
    "empty": ("empty", "#999999", ""),
    "one_symbol": ("one symbol", "#CC79A7", "..."),
    "repetition": ("endless repetition", "#D55E00", "///"),
    "refusal": ("refusal", "#0072B2", ""),
    "echo": ("echo of the prompt", "#009E73", "xxx"),
    "cut": ("cut at the limit", "#E69F00", ""),
}

Panel = tuple[list[tuple[str, str]], int, pd.DataFrame]  # encoders as (pipeline, name), limit, histograms by captioner


def caption_lengths(design: pd.DataFrame, lengths: pd.DataFrame, limits: pd.DataFrame) -> Figure:
    """A ridge a captioner of how many tokens its captions have, a panel a text encoder with its limit.

    `design` has family and label by captioner, the others are tables `caption_lengths` and `caption_limits` of all of
    them. Encoders with one limit that count alike share a panel.
    """
    panels, styles = _panels(lengths, limits), family_styles(design)
    shares = limits.set_index(["captioner", "pipeline", "encoder"]).share_over
    figure = Figure(figsize=(max(6.4, 1.6 + 1.9 * len(panels)), 2.1 + 0.42 * len(design)), layout="constrained")
    axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for ax, (encoders, limit, histograms) in zip(axes, panels, strict=True):
        densities = {name: _density(histograms.loc[[name]]) for name in design.index if name in histograms.index}
        highest = max((height.max() for _, height in densities.values()), default=1.0)
        for row, (name, one) in enumerate(design.iterrows()):
            if name in densities:
                edges, height = densities[name]
                _ridge(ax, edges, row - OVERLAP * height / highest, row, styles[one.family][0])
            _beside(ax, row, percent(shares[(name, *encoders[0])]))
        _beside(ax, -OVERLAP, "over")
        # A caption of just `limit` tokens, which fits, has the bin from `limit` on.
        ax.axvline(limit + 1, color="0.2", linewidth=1, linestyle=(0, (4, 2)), zorder=len(design) + 2)
        _tokens_axis(ax, [limit + 1, *(edge for edges, _ in densities.values() for edge in edges[[0, -1]])])
        ax.set(xlabel="tokens", ylim=(len(design) - 0.6, -OVERLAP - 0.1))
        pipelines, names = (", ".join(dict.fromkeys(parts)) for parts in zip(*encoders, strict=True))
        ax.set_title(f"{pipelines}\n{names}, limit {limit}", loc="left", fontsize=8)
        ax.grid(False, axis="y")
        ax.spines["left"].set_visible(False)
        ax.tick_params(axis="y", length=0)
    axes[0].set_yticks(range(len(design)), list(design.label), va="bottom")
    legend(figure, [Patch(color=color, alpha=FILL, label=family) for family, (color, _) in styles.items()])
    caption(
        figure,
        f"Usable captions of {len(design)} captioners, counted by the pipelines' own tokenizers, on a logarithmic "
        "axis; all areas of a panel are equal. Dashed: the limit; on the right, the share of captions over it. A "
        "language model's training leaves those out, the other encoders cut them.",
    )
    return figure


def _panels(lengths: pd.DataFrame, limits: pd.DataFrame) -> list[Panel]:
    panels: list[Panel] = []
    columns = ["captioner", "low", "high", "num_captions"]
    for (pipeline, encoder, limit), _ in limits.groupby(["pipeline", "encoder", "limit"], sort=False):
        of_encoder = lengths[(lengths.pipeline == pipeline) & (lengths.encoder == encoder)]
        histogram = of_encoder[columns].set_index("captioner")
        same = next((panel for panel in panels if panel[1] == limit and panel[2].equals(histogram)), None)
        if same:
            same[0].append((pipeline, encoder))
        else:
            panels.append(([(pipeline, encoder)], limit, histogram))
    return panels


def _density(histogram: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Edges of the bins in tokens and the share of captions a unit of log tokens in each; no caption has no token."""
    low, high = np.maximum(histogram.low.to_numpy(float), 0.5), histogram.high.to_numpy(float)
    height = histogram.num_captions.to_numpy() / histogram.num_captions.sum() / np.log(high / low)
    gaps = np.flatnonzero(low[1:] > high[:-1])  # empty bins are left out of the table
    edges = np.insert(np.append(low, high[-1]), gaps + 1, high[gaps])
    return edges, np.insert(height, gaps + 1, 0.0)


def _ridge(ax: Axes, edges: np.ndarray, top: np.ndarray, base: int, color: str) -> None:
    """A histogram that stands on a row; rows further down lie over those above."""
    ax.stairs(top, edges, baseline=base, fill=True, color=color, alpha=FILL, zorder=base + 1)
    ax.stairs(top, edges, baseline=base, color=color, linewidth=0.9, zorder=base + 1)
    ax.axhline(base, color="0.8", linewidth=0.6, zorder=base + 1)


def _beside(ax: Axes, row: float, text: str) -> None:
    """Text to the right of a panel's row."""
    place = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points"}
    ax.annotate(text, (1, row), (4, 0), fontsize=7.5, color="0.25", **place)


def _tokens_axis(ax: Axes, shown: list[float]) -> None:
    low, high = max(min(shown), 1), max(shown)
    ax.set(xscale="log", xlim=(low * 0.85, high * 1.15))
    ax.xaxis.set_major_locator(LogLocator(2) if high < 30 * low else LogLocator(10, (1, 3)))
    ax.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    ax.minorticks_off()


def caption_faults(design: pd.DataFrame, statistics: pd.DataFrame) -> Figure:
    """A bar a captioner of the images without a sound caption, by fault, and a mark for those asked more than once."""
    rows, places = statistics.set_index("captioner").loc[design.index], range(len(design))
    shares = pd.DataFrame({kind: 100 * rows[f"num_{kind}"] / rows.num_images for kind in ("failed", *FAULTS)})
    again, total = 100 * rows.num_asked_again / rows.num_images, shares.sum(axis=1)
    shares = shares.loc[:, shares.any()]
    figure = Figure(figsize=(8.6, 1.8 + 0.3 * len(design)), layout="constrained")
    ax = figure.subplots()
    handles, left = [], np.zeros(len(design))
    for kind, share in shares.items():
        name, color, hatch = FAULT_STYLES[kind]
        look = {"color": color, "hatch": hatch, "edgecolor": "white", "linewidth": 0.4}
        ax.barh(places, share, 0.62, left, **look)
        handles.append(Patch(facecolor=color, hatch=hatch, edgecolor="white", label=name))
        left += share.to_numpy()
    ax.plot(again.where(again > 0), places, "|", color="0.1", markersize=12, markeredgewidth=1.4, zorder=4)
    for place, share, asked in zip(places, total, again, strict=True):
        text = percent(share / 100) + (f", asked again {percent(asked / 100)}" if asked else "")
        beside = {"xytext": (5, 0), "textcoords": "offset points", "va": "center"}
        ax.annotate(text, (max(share, asked), place), fontsize=7.5, color="0.25", **beside)
    ax.set_yticks(places, list(design.label))
    ax.set(xlim=(0, max(1.0, 1.25 * max(total.max(), again.max()))), xlabel="% of images")
    ax.set_ylim(len(design) - 0.4, -0.6)
    ax.grid(False, axis="y")
    if handles:
        legend(figure, handles)
    caption(
        figure,
        f"Images of the pool without a sound caption, of {int(rows.num_images.max()):,}, by the fault of the last "
        "attempt." + " Upright marks: images asked for more than once." * bool(again.any()),
    )
    return figure


def percent(share: float) -> str:
    """`0.034` as `3.4%`; a small one as `<0.1%`, none as `0`, a missing one as a dash."""
    if np.isnan(share) or share == 0:
        return "–" if np.isnan(share) else "0"
    return "<0.1%" if share < 0.0005 else f"{share:.1%}" if share < 0.1 else f"{share:.0%}"
