"""Which captioners the slopes hang on: leverage, Cook's distance, leaving one captioner or one family out."""

import numpy as np
import pandas as pd

from workflow_scripts.analysis.inference import TERMS, full_rank, leverage


def variance_inflation(design: pd.DataFrame) -> float:
    """VIF of C and of P: with two regressors both are 1 / (1 - r^2), r their correlation."""
    return float(1 / (1 - np.corrcoef(design.C, design.P)[0, 1] ** 2))


def between_families(values: pd.Series, families: pd.Series) -> float:
    """Share (0-1) of the sum of squares of `values` that lies between families."""
    means = values.groupby(families).transform("mean")
    return float(((means - values.mean()) ** 2).sum() / ((values - values.mean()) ** 2).sum())


def cooks_distance(y: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Cook's distance (n,) of y (n,) on x (n, 3): the shift of all fitted values when one captioner goes."""
    residuals = y - x @ np.linalg.lstsq(x, y)[0]
    hat = leverage(x)
    with np.errstate(divide="ignore", invalid="ignore"):  # leverage 1 or a perfect fit: not defined
        distance = residuals**2 / (residuals @ residuals / (len(y) - 3)) * hat / (1 - hat) ** 2 / 3
    return np.where(np.isfinite(distance), distance, np.nan)


def leave_out(y: pd.Series, design: pd.DataFrame, kind: str) -> pd.DataFrame:
    """Estimates (rows: what is left out, columns: terms) without one captioner or one family.

    Missing where the captioners that remain cannot tell C and P apart. `kind` is `captioner` or `family`.
    """
    groups = (design.index if kind == "captioner" else design.family).to_numpy()
    x, values = np.column_stack([np.ones(len(design)), design[["C", "P"]]]), y[design.index].to_numpy()
    contrasts = np.array(list(TERMS.values()))
    rows = {}
    for name in dict.fromkeys(groups):
        kept = groups != name
        told_apart = full_rank(x[kept])
        beta = np.linalg.lstsq(x[kept], values[kept])[0] if told_apart else np.full(3, np.nan)
        rows[name] = contrasts @ beta
    return pd.DataFrame.from_dict(rows, orient="index", columns=list(TERMS))
