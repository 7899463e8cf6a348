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


def simex(
    y: np.ndarray, x: np.ndarray, std_errors: np.ndarray, draws: int, seed: int, confidence: float
) -> pd.DataFrame:
    """Corrected terms of y (n,) on x (n, 3), given the standard errors (n, 2) of C and P in percent.

    Errors are taken as normal and independent between captioners and between C and P (the intervals hold no more).
    Estimates are extrapolated by a quadratic in the added variance; their variance is HC3's average less the spread
    of the estimates over the noise draws, extrapolated alike (Stefanski and Cook 1995). Where the extrapolated variance is
    not positive, the standard error and all that hangs on it are missing. Noise comes in pairs of opposite sign.

    Returns a frame indexed by term with the columns of `inference.Fit.terms`.
    """
    rng = np.random.default_rng(seed)
    noise = rng.standard_normal((draws // 2, len(y), 2))
    noise = np.concatenate([noise, -noise]) * std_errors
    contrasts = np.array(list(TERMS.values()))  # (terms, 3)
    estimates, variances = [], []
    for level in LEVELS:
        noisy = np.repeat(x[None], len(noise), axis=0)  # (draws, n, 3)
        noisy[:, :, 1:] += np.sqrt(level) * noise
        inverse = np.linalg.inv(noisy.transpose(0, 2, 1) @ noisy)
        pseudo = inverse @ noisy.transpose(0, 2, 1)  # (draws, 3, n)
        beta = pseudo @ y
        hat = np.einsum("dnk,dkn->dn", noisy, pseudo)
        scaled = pseudo * ((y - np.einsum("dnk,dk->dn", noisy, beta)) / (1 - hat))[:, None]
        terms = beta @ contrasts.T  # (draws, terms)
        hc3 = np.einsum("tk,dkn->dtn", contrasts, scaled) ** 2
        estimates.append(terms.mean(axis=0))
        variances.append(hc3.sum(axis=2).mean(axis=0) - terms.var(axis=0, ddof=1))
    estimate, variance = _at_no_error(estimates), _at_no_error(variances)
    error = np.sqrt(np.where(variance > 0, variance, np.nan))
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


def _at_no_error(values: list[np.ndarray]) -> np.ndarray:
    """A quadratic through values (levels, terms), evaluated at -1: measurement error of variance zero."""
    return np.polynomial.polynomial.polyfit(LEVELS, np.array(values), 2).T @ np.array([1.0, -1.0, 1.0])
