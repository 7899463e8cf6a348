"""Ordinary least squares of one outcome on C and P: fits, intervals, wild bootstrap, corrections for many tests."""

from dataclasses import dataclass
from itertools import product
from typing import Literal

import numpy as np
import pandas as pd
from statsmodels.regression.linear_model import OLS, RegressionResults

from workflow_scripts.analysis.outcomes import constant
from workflow_scripts.errors import UserError

Vcov = Literal["classical", "HC3"]
TERMS = {"intercept": (1.0, 0.0, 0.0), "C": (0.0, 1.0, 0.0), "P": (0.0, 0.0, 1.0), "C-P": (0.0, 1.0, -1.0)}
TESTED = ("C", "P", "C-P")
FULL_LEVERAGE = 1 - 1e-9


@dataclass(frozen=True)
class Fit:
    """One fit. `terms` is indexed by term: estimate, std_error, statistic, df, p_value, conf_low, conf_high.

    Everything but the estimates is missing where it is not defined: with a constant outcome, and for HC3 where a
    captioner has leverage 1 (its residual is 0 by construction, whatever its score).
    """

    terms: pd.DataFrame
    vcov: Vcov
    r_squared: float
    r_squared_adjusted: float
    residual_sd: float
    f_statistic: float
    f_p_value: float
    df: int
    covariance: np.ndarray  # (3, 3) of intercept, C, P


def design_matrix(design: pd.DataFrame) -> np.ndarray:
    """(n, 3): a column of ones, C and P in percent. Raises UserError where C and P cannot be told apart."""
    matrix = np.column_stack([np.ones(len(design)), design[["C", "P"]].to_numpy(float)])
    if not full_rank(matrix):
        raise UserError(
            f"C and P of the {len(design)} captioners ({', '.join(design.index)}) lie on one line: "
            "their effects cannot be told apart"
        )
    return matrix


def full_rank(matrix: np.ndarray) -> bool:
    """Whether intercept, C and P can be told apart: (n, 3), judged on centred columns of unit length."""
    slopes = matrix[:, 1:] - matrix[:, 1:].mean(axis=0)
    lengths = np.linalg.norm(slopes, axis=0)
    return len(matrix) >= 3 and lengths.min() > 0 and np.linalg.matrix_rank(slopes / lengths, tol=1e-8) == 2


def fit(y: np.ndarray, x: np.ndarray, vcov: Vcov, confidence: float) -> Fit:
    """OLS of y (n,) on x (n, 3) with t(n - 3) inference; HC3 as in MacKinnon and White (1985)."""
    classical = OLS(y, x).fit()
    fitted = classical if vcov == "classical" else classical.get_robustcov_results("HC3", use_t=True)
    undefined = constant(y) or (vcov == "HC3" and leverage(x).max() > FULL_LEVERAGE)
    f = None if undefined else fitted.f_test(np.eye(3)[1:])
    nothing = float("nan")
    return Fit(
        terms=_terms(fitted, confidence, undefined),
        vcov=vcov,
        r_squared=nothing if constant(y) else classical.rsquared,
        r_squared_adjusted=nothing if constant(y) else classical.rsquared_adj,
        residual_sd=float(np.sqrt(classical.mse_resid)),
        f_statistic=nothing if f is None else float(np.squeeze(f.fvalue)),
        f_p_value=nothing if f is None else float(f.pvalue),
        df=int(classical.df_resid),
        covariance=np.full((3, 3), nothing) if undefined else np.asarray(fitted.cov_params()),
    )


def _terms(fitted: RegressionResults, confidence: float, undefined: bool) -> pd.DataFrame:
    contrasts = np.array(list(TERMS.values()))
    table = pd.DataFrame(index=pd.Index(TERMS, name="term"))
    table["estimate"] = contrasts @ fitted.params
    inference = ["std_error", "statistic", "p_value", "conf_low", "conf_high"]
    table[inference] = float("nan")
    if not undefined:
        test = fitted.t_test(contrasts)
        columns = [test.sd, test.tvalue, test.pvalue, *np.transpose(test.conf_int(alpha=1 - confidence))]
        table[inference] = np.column_stack([np.ravel(column) for column in columns])
    table.insert(3, "df", float(fitted.df_resid))
    return table


def leverage(x: np.ndarray) -> np.ndarray:
    """Diagonal of the hat matrix of x (n, 3): (n,), between 1/n and 1, sum 3."""
    q, _ = np.linalg.qr(x)
    return np.sum(q**2, axis=1)


def sign_vectors(n: int, draws: int, seed: int) -> np.ndarray:
    """Rademacher weights (number, n): all 2^n sign vectors if those are at most `draws`, else that many drawn."""
    if 2**n <= draws:
        return np.array(list(product((1.0, -1.0), repeat=n)))
    return np.random.default_rng(seed).choice((1.0, -1.0), size=(draws, n))


def wild_p_value(y: np.ndarray, x: np.ndarray, term: str, signs: np.ndarray) -> float:
    """Two-sided p-value of a term by the wild bootstrap with the null imposed, studentised by HC3.

    y (n,), x (n, 3), signs (draws, n) from `sign_vectors`. The residuals of the fit restricted to term = 0 are
    multiplied by random signs; t is computed anew for each draw, and p is the share of draws in which |t| is no smaller
    than the observed one (Davidson and Flachaire 2008). With all 2^n sign vectors p is exact and at least 2 / 2^n;
    with random ones the observed t counts as one more draw. Missing where HC3 or the outcome leaves t undefined.
    """
    hat = leverage(x)
    if constant(y) or hat.max() > FULL_LEVERAGE:
        return float("nan")
    inverse = np.linalg.inv(x.T @ x)
    contrast = np.array(TERMS[term])
    weights = contrast @ inverse @ x.T  # (n,): the term's estimate is weights @ y
    beta = inverse @ x.T @ y
    step = inverse @ contrast / (contrast @ inverse @ contrast)
    restricted = y - x @ (beta - step * (contrast @ beta))
    annihilator = np.eye(len(y)) - x @ inverse @ x.T

    def t(outcomes: np.ndarray) -> np.ndarray:  # (draws, n) -> (draws,)
        residuals = outcomes @ annihilator / (1 - hat)
        return np.abs(outcomes @ weights) / np.sqrt((residuals**2) @ (weights**2))

    observed = t(restricted[None])[0]  # the restricted fit itself adds nothing: its contrast is 0
    as_large = int(np.sum(t(signs * restricted) >= observed * (1 - 1e-9)))
    if len(signs) == 2 ** len(y):
        return as_large / len(signs)
    return (as_large + 1) / (len(signs) + 1)


def holm(p_values: pd.Series) -> pd.Series:
    """Holm's adjusted p-values; a missing p-value is no test and stays missing."""
    ordered = p_values.dropna().sort_values()
    steps = (len(ordered) - np.arange(len(ordered))) * ordered
    return steps.cummax().clip(upper=1).reindex(p_values.index)


def benjamini_hochberg(p_values: pd.Series) -> pd.Series:
    """Benjamini and Hochberg's q-values; a missing p-value is no test and stays missing."""
    ordered = p_values.dropna().sort_values(ascending=False)
    steps = len(ordered) / (len(ordered) - np.arange(len(ordered))) * ordered
    return steps.cummin().reindex(p_values.index)
