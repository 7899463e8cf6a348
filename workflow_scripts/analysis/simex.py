"""Correction of the slopes for the measurement error of C and P.

C and P are measured on 300 images, so the captioners' true values differ from the measured ones, which pulls slopes
towards zero and, with two correlated regressors, moves weight from one to the other. SIMEX (Cook and Stefanski 1994)
adds more noise of the same size on purpose, watches how the estimates move, and extrapolates back to none.
"""

import numpy as np
import pandas as pd
from scipy import stats

from workflow_scripts.analysis.inference import TERMS

LEVELS = (0.0, 0.5, 1.0, 1.5, 2.0)  # added error variance in units of the measurement's
_CONTRASTS = np.array(list(TERMS.values()))  # (terms, 3)


def simex(
    y: np.ndarray, x: np.ndarray, std_errors: np.ndarray, draws: int, seed: int, confidence: float
) -> pd.DataFrame:
    """Corrected terms of y (n,) on x (n, 3), given the standard errors (n, 2) of C and P in percent.

    Errors are taken as normal and independent between captioners and between C and P (the intervals hold no more);
    noise comes in pairs of opposite sign. Estimates are extrapolated by a quadratic in the added variance. The variance
    is that of the jackknife, the sum over captioners of the squared shift when one is left out: without measurement
    error that is exactly HC3. (The variance formula of Stefanski and Cook 1995 is a difference, and with ten captioners
    often far too small or below zero.)

    Returns a frame indexed by term with the columns of `inference.Fit.terms`.
    """
    noise = np.random.default_rng(seed).standard_normal((draws // 2, len(y), 2))
    noise = np.concatenate([noise, -noise]) * std_errors
    estimate = _corrected(y, x, noise)
    others = [np.arange(len(y)) != i for i in range(len(y))]
    shifts = np.array([_corrected(y[kept], x[kept], noise[:, kept]) - estimate for kept in others])
    error = np.sqrt((shifts**2).sum(axis=0))
    df = float(len(y) - 3)
    half_width = stats.t.ppf((1 + confidence) / 2, df) * error
    table = {
        "estimate": estimate,
        "std_error": error,
        "statistic": estimate / error,
        "df": df,
        "p_value": 2 * stats.t.sf(np.abs(estimate / error), df),
        "conf_low": estimate - half_width,
        "conf_high": estimate + half_width,
    }
    return pd.DataFrame(table, index=pd.Index(TERMS, name="term"))


def _corrected(y: np.ndarray, x: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """SIMEX estimates (terms,) of y (n,) on x (n, 3), with noise (draws, n, 2) of the measurement's size."""
    means = []
    for level in LEVELS:
        noisy = np.repeat(x[None], len(noise), axis=0)  # (draws, n, 3)
        noisy[:, :, 1:] += np.sqrt(level) * noise
        transposed = noisy.transpose(0, 2, 1)
        beta = np.linalg.solve(transposed @ noisy, transposed @ y[:, None])[:, :, 0]  # (draws, 3)
        means.append(beta.mean(axis=0))
    curve = np.polynomial.polynomial.polyfit(LEVELS, np.array(means), 2)
    return _CONTRASTS @ (np.array([1.0, -1.0, 1.0]) @ curve)  # at -1: measurement error of variance zero
