"""The figures of a sweep. Colour and marker stand for the family; each figure states n, the interval and its method."""

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from scipy import stats

from workflow_scripts.analysis.inference import design_matrix
from workflow_scripts.analysis.influence import cooks_distance
from workflow_scripts.analysis.labels import label_points
from workflow_scripts.analysis.outcomes import Outcome
from workflow_scripts.drawing import caption, family_handles, family_styles, legend, settle

TERM_NAMES = {"C": "coverage C", "P": "precision P", "C-P": "C - P"}
SPEC_MARKERS = ["o", "s", "D", "^", "v", "P", "X", "<", ">", "*"]


def coverage_precision(design: pd.DataFrame, confidence: float) -> Figure:
    """Coverage against precision, one labelled point a captioner, with intervals where capeval.csv has them."""
    figure = Figure(figsize=(6.4, 5.4), layout="constrained")
    ax = figure.subplots()
    z = stats.norm.ppf((1 + confidence) / 2)
    _points(ax, design, design.C, design.P, z * design.C_se, z * design.P_se)
    ax.set(xlabel="Coverage C (%)", ylabel="Precision P (%)")
    ax.margins(0.12)
    legend(figure, family_handles(design))
    known = int(design[["C_se", "P_se"]].notna().all(axis=1).sum())
    stated = (
        f"Bars: {confidence:.0%} intervals, bootstrap over images ({known} of {len(design)} captioners have them)."
        if known
        else "No intervals: the source has none."
    )
    r = np.corrcoef(design.C, design.P)[0, 1]
    caption(figure, f"{_size(design)} {stated} Correlation of C and P: {r:.2f}.")
    settle(figure)
    steps = z * np.array([-1.0, -0.5, 0.5, 1.0])
    bars = [(design.C + step * design.C_se, design.P) for step in steps]
    bars += [(design.C, design.P + step * design.P_se) for step in steps]
    avoid = np.concatenate([np.column_stack(bar) for bar in bars])
    label_points(ax, design.C.to_numpy(), design.P.to_numpy(), list(design.label), avoid[~np.isnan(avoid).any(axis=1)])
    return figure


def partial_regression(
    design: pd.DataFrame, outcomes: list[Outcome], regression: pd.DataFrame, confidence: float
) -> Figure:
    """Each outcome against C given P and against P given C: a row an outcome, slope and band of spec `robust`.

    With one outcome every captioner is named, with more the three of largest Cook's distance a row.
    """
    single = len(outcomes) == 1
    size = (8.6, 4.4) if single else (8.6, 2.75 * len(outcomes) + 0.7)
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots(len(outcomes), 2, squeeze=False)
    rows = regression[regression.spec == "robust"].set_index(["outcome", "term"])
    to_label = []
    for row, outcome in zip(axes, outcomes, strict=True):
        y = outcome.values[design.index].to_numpy()
        distance = cooks_distance(y, design_matrix(design))
        named = np.arange(len(y)) if single else np.argsort(-np.nan_to_num(distance))[:3]
        for ax, (term, other) in zip(row, (("C", "P"), ("P", "C")), strict=True):
            x_rest, y_rest = _residuals(design, design[term], other), _residuals(design, y, other)
            line = _slope(ax, x_rest, rows.loc[(outcome.name, term)], confidence)
            _points(ax, design, x_rest, y_rest)
            ax.set(xlabel=f"{TERM_NAMES[term]} given {other} (points)", ylabel=f"score given {other}")
            ax.set_title(f"{outcome.name}: {_estimate(rows.loc[(outcome.name, term)])}", loc="left")
            ax.margins(0.1, 0.14)
            avoid = np.concatenate([np.column_stack([x_rest, y_rest]), line])
            to_label.append((ax, x_rest[named], y_rest[named], [design.label.iloc[i] for i in named], avoid))
    legend(figure, family_handles(design))
    names = "" if single else " Named: the three captioners of largest Cook's distance."
    caption(
        figure,
        f"{_size(design)} Residuals after regressing on the other regressor. Line: OLS slope (score points per point); "
        f"band: {_method(confidence, len(design))}.{names}",
    )
    settle(figure)
    for places in to_label:
        label_points(*places)
    return figure


def coefficients(regression: pd.DataFrame, outcomes: list[Outcome], confidence: float) -> Figure:
    """Estimates and intervals of C, P and C - P for each outcome (rows) and specification (markers)."""
    names = [outcome.name for outcome in outcomes]
    table = regression[regression.outcome.isin(names)]
    specs = list(dict.fromkeys(table.spec))
    figure = Figure(figsize=(9.4, 1.5 + len(names) * (0.4 + 0.13 * len(specs))), layout="constrained")
    axes = figure.subplots(1, 3, sharey=True)
    for ax, (term, title) in zip(axes, TERM_NAMES.items(), strict=True):
        rows = table[table.term == term]
        low, high = _limits(rows)
        for place, name in enumerate(names):
            of_outcome = rows[rows.outcome == name]
            heights = place + (np.arange(len(of_outcome)) - (len(of_outcome) - 1) / 2) * 0.75 / len(specs)
            for height, row in zip(heights, of_outcome.itertuples(), strict=True):
                _interval(ax, row, height, low, high, *_spec_style(specs.index(row.spec), len(specs)))
        for edge in np.arange(len(names) - 1) + 0.5:
            ax.axhline(edge, color="0.85", linewidth=0.8)
        ax.axvline(0, color="0.3", linewidth=0.9)
        ax.set(title=title, xlim=(low, high), xlabel="score points per point", ylim=(len(names) - 0.5, -0.5))
        ax.grid(False, axis="y")
    axes[0].set_yticks(range(len(names)), names)
    styles = [_spec_style(k, len(specs)) for k in range(len(specs))]
    handles = [
        Line2D([], [], color=color, marker=marker, markerfacecolor=fill, markersize=5, linewidth=1.2, label=spec)
        for spec, (color, marker, fill) in zip(specs, styles, strict=True)
    ]
    legend(figure, handles)
    sizes = ", ".join(f"{spec} {int(n)}" for spec, n in table.groupby("spec", sort=False).n_obs.first().items())
    other = "jackknife for `simex`, HC3 for the others" if "simex" in specs else "HC3 for the others"
    caption(
        figure,
        f"n captioners: {sizes}. Bars: {confidence:.0%} intervals with t(n - 3), classical for `published`, {other}. "
        "Arrows: the interval goes on beyond the axis.",
    )
    return figure


def leave_one_out(
    design: pd.DataFrame, influence: pd.DataFrame, regression: pd.DataFrame, outcomes: list[Outcome], confidence: float
) -> Figure:
    """Estimates of C and P without each captioner and without each family, beside the full estimate and interval."""
    names = [outcome.name for outcome in outcomes]
    figure = Figure(figsize=(8.6, 1.7 + 0.95 * len(names)), layout="constrained")
    axes, styles = figure.subplots(1, 2, sharey=True), family_styles(design)
    robust = regression[regression.spec == "robust"].set_index(["outcome", "term"])
    for ax, term in zip(axes, ("C", "P"), strict=True):
        for height, name in enumerate(names):
            full = robust.loc[(name, term)]
            rows = influence[(influence.outcome == name) & (influence.term == term)]
            ax.plot([full.conf_low, full.conf_high], [height - 0.26] * 2, color="0.35", linewidth=1.2)
            ax.plot(full.estimate, height - 0.26, "o", color="0.2", markersize=5)
            for kind, y, size in (("captioner", height + 0.02, 4.5), ("family", height + 0.29, 7.0)):
                part = rows[rows.kind == kind]
                ax.plot([part.estimate.min(), part.estimate.max()], [y, y], color="0.8", linewidth=3, zorder=1)
                for left_out, estimate in zip(part.left_out, part.estimate, strict=True):
                    family = left_out if kind == "family" else design.family[left_out]
                    color, marker = styles[family]
                    lane = 0.17 * (list(styles).index(family) / max(1, len(styles) - 1) - 0.5)
                    ax.plot(
                        estimate,
                        y + lane,
                        marker=marker,
                        color=color,
                        markersize=size,
                        markeredgecolor="white",
                        markeredgewidth=0.5,
                        linestyle="none",
                    )
            if height:
                ax.axhline(height - 0.5, color="0.85", linewidth=0.8)
        ax.axvline(0, color="0.3", linewidth=0.9)
        ax.grid(False, axis="y")
        ax.set(title=TERM_NAMES[term], xlabel="score points per point", ylim=(len(names) - 0.5, -0.5))
    axes[0].set_yticks(range(len(names)), names)
    legend(figure, family_handles(design))
    undefined = int(influence.estimate[influence.outcome.isin(names) & influence.term.isin(["C", "P"])].isna().sum())
    missing = f" {undefined} estimates are not defined (C and P of the rest lie on one line)." if undefined else ""
    caption(
        figure,
        f"{_size(design)} Per outcome, from above: estimate with {_method(confidence, len(design))}; estimates without "
        f"one captioner (small marks, its family's marker); without one family (large marks).{missing}",
    )
    return figure


def _residuals(design: pd.DataFrame, values: pd.Series | np.ndarray, other: str) -> np.ndarray:
    x = np.column_stack([np.ones(len(design)), design[other]])
    values = np.asarray(values, float)
    return values - x @ np.linalg.lstsq(x, values)[0]


def _slope(ax: Axes, x: np.ndarray, row: pd.Series, confidence: float) -> np.ndarray:
    grid = np.linspace(x.min() * 1.08, x.max() * 1.08, 50)
    half_width = stats.t.ppf((1 + confidence) / 2, row.df) * row.std_error * np.abs(grid)
    ax.fill_between(grid, row.estimate * grid - half_width, row.estimate * grid + half_width, color="0.87", linewidth=0)
    ax.plot(grid, row.estimate * grid, color="0.35", linewidth=1.2)
    ax.axhline(0, color="0.75", linewidth=0.8)
    return np.column_stack([grid, row.estimate * grid])


def _points(ax: Axes, design: pd.DataFrame, x, y, x_error=None, y_error=None) -> None:
    x, y = np.asarray(x, float), np.asarray(y, float)
    for family, (color, marker) in family_styles(design).items():
        of_family = (design.family == family).to_numpy()
        if x_error is not None:
            ax.errorbar(
                x[of_family],
                y[of_family],
                xerr=x_error[of_family],
                yerr=y_error[of_family],
                fmt="none",
                ecolor=color,
                elinewidth=1,
                alpha=0.6,
            )
        ax.scatter(
            x[of_family], y[of_family], s=38, color=color, marker=marker, edgecolor="white", linewidth=0.6, zorder=3
        )


def _spec_style(k: int, number: int) -> tuple[str, str, str]:
    if k == 0:
        return "0.55", SPEC_MARKERS[0], "white"
    color = matplotlib.colormaps["viridis"](0.05 + 0.8 * (k - 1) / max(1, number - 2))
    return matplotlib.colors.to_hex(color), SPEC_MARKERS[k % len(SPEC_MARKERS)], matplotlib.colors.to_hex(color)


def _limits(rows: pd.DataFrame) -> tuple[float, float]:
    """An axis that holds all estimates and the intervals on the whole data; far wider ones are cut by arrows."""
    whole = rows[rows.spec.isin(["published", "robust"])]
    values = pd.concat([rows.estimate, whole.conf_low, whole.conf_high, pd.Series([0.0])]).dropna()
    margin = 0.08 * (values.max() - values.min())
    return values.min() - margin, values.max() + margin


def _interval(ax: Axes, row: tuple, height: float, low: float, high: float, color: str, marker: str, fill: str) -> None:
    ax.plot(row.estimate, height, marker=marker, color=color, markerfacecolor=fill, markersize=4.5, zorder=3)
    if np.isnan(row.conf_low):
        return
    ax.plot([max(row.conf_low, low), min(row.conf_high, high)], [height, height], color=color, linewidth=1.2)
    for beyond, edge, arrow in ((row.conf_low < low, low, "<"), (row.conf_high > high, high, ">")):
        if beyond:
            ax.plot(edge, height, marker=arrow, color=color, markersize=4, clip_on=False, linestyle="none")


def _estimate(row: pd.Series) -> str:
    return f"{row.estimate:+.3f} [{row.conf_low:+.3f}, {row.conf_high:+.3f}]"


def _method(confidence: float, n: int) -> str:
    return f"{confidence:.0%} interval, HC3 with t({n - 3})"


def _size(design: pd.DataFrame) -> str:
    return f"n = {len(design)} captioners of {design.family.nunique()} families."
