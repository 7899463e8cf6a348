"""Fits and p-values against pyfixest, statsmodels, brute force and closed forms."""

import json
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy import stats
from statsmodels.stats.multitest import multipletests

from workflow_scripts.analysis.inference import (
    benjamini_hochberg,
    design_matrix,
    fit,
    holm,
    leverage,
    sign_vectors,
    wild_p_value,
)
from workflow_scripts.analysis.influence import leave_out
from workflow_scripts.errors import UserError


@pytest.fixture(scope="module")
def published(root: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The design and the mean of benchmarks by captioner (rows) and pipeline (columns)."""
    tables = root / "resources" / "published"
    capeval = pd.read_csv(tables / "table3_capeval.csv").set_index("captioner")
    design = pd.read_csv(tables / "captioners.csv").set_index("captioner").join(capeval[["C", "P"]])
    scores = pd.read_csv(tables / "table4_benchmarks.csv")
    return design, scores.groupby(["captioner", "pipeline"]).score.mean().unstack().loc[design.index]


@pytest.fixture(scope="module")
def pyfixest_numbers(root: Path) -> dict:
    """Written by make_pyfixest.py, beside it."""
    return json.loads((root / "tests" / "golden" / "pyfixest.json").read_text())["pipelines"]


PIPELINES = ["clip-vicuna", "siglip-qwen3", "sd3.5-medium", "qwen-image"]


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_hc3_equals_pyfixest(published, pyfixest_numbers, pipeline):
    design, scores = published
    terms = fit(scores[pipeline].to_numpy(), design_matrix(design), "HC3", 0.95).terms
    for ours, theirs in (("intercept", "Intercept"), ("C", "C"), ("P", "P")):
        assert terms.estimate[ours] == pytest.approx(pyfixest_numbers[pipeline]["estimate"][theirs], rel=1e-6)
        assert terms.std_error[ours] == pytest.approx(pyfixest_numbers[pipeline]["hc3_std_error"][theirs], rel=1e-6)


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_leave_one_family_out_makes_pyfixests_crv3(published, pyfixest_numbers, pipeline):
    """CRV3 is the jackknife over clusters: (G - 1) / G times the squared shifts; pyfixest's factor is switched off."""
    design, scores = published
    full = fit(scores[pipeline].to_numpy(), design_matrix(design), "classical", 0.95).terms.estimate
    shifts = leave_out(scores[pipeline], design, "family") - full
    for term in ("C", "P"):
        crv3 = pyfixest_numbers[pipeline]["crv3_family_std_error"][term]
        assert np.sqrt((shifts[term] ** 2).sum()) == pytest.approx(crv3, rel=1e-6)


def brute_force_wild(y: np.ndarray, x: np.ndarray, column: int, cov_type: str) -> float:
    """The same p-value by 2^n fits of statsmodels."""
    restricted = sm.OLS(y, np.delete(x, column, axis=1)).fit()

    def t(outcome):
        return abs(sm.OLS(outcome, x).fit(cov_type=cov_type).tvalues[column])

    observed = t(y)
    ts = [t(restricted.fittedvalues + restricted.resid * signs) for signs in product((1, -1), repeat=len(y))]
    return float(np.mean(np.array(ts) >= observed * (1 - 1e-9)))


def test_brute_force_equals_pyfixests_wild_bootstrap(published, pyfixest_numbers):
    """pyfixest studentises by HC1, we by HC3; the reference that we compare with is theirs but for that word."""
    design, scores = published
    y, x = scores["qwen-image"].to_numpy(), design_matrix(design)
    theirs = pyfixest_numbers["qwen-image"]["wild_hc1_p_value"]["C"]
    # pyfixest counts |t*| > |t|: the two sign vectors that give back the data are in or out by rounding alone
    assert brute_force_wild(y, x, 1, "HC1") == pytest.approx(theirs, abs=2 / 2**10 + 1e-12)


@pytest.mark.parametrize(("term", "column"), [("C", 1), ("P", 2)])
def test_wild_bootstrap_equals_brute_force(published, term, column):
    design, scores = published
    some = design.index[[0, 2, 3, 4, 6, 8, 9]]
    y, x = scores.loc[some, "siglip-qwen3"].to_numpy(), design_matrix(design.loc[some])
    ours = wild_p_value(y, x, term, sign_vectors(len(y), 9999, 0))
    assert ours == pytest.approx(brute_force_wild(y, x, column, "HC3"))


def test_wild_bootstrap_of_the_contrast_is_that_of_a_slope_in_other_coordinates(published):
    """With regressors C and C + P in place of C and P, the slope of C is the contrast C - P."""
    design, scores = published
    y, x = scores["sd3.5-medium"].to_numpy(), design_matrix(design)
    turned = np.column_stack([x[:, 0], x[:, 1], x[:, 1] + x[:, 2]])
    signs = sign_vectors(10, 9999, 0)
    assert wild_p_value(y, x, "C-P", signs) == wild_p_value(y, turned, "C", signs)


def test_sign_vectors_are_all_or_seeded():
    everything = sign_vectors(6, 64, 0)
    assert len({tuple(row) for row in everything}) == 64
    drawn = sign_vectors(20, 500, 3)
    assert drawn.shape == (500, 20)
    assert set(np.unique(drawn)) == {-1.0, 1.0}
    np.testing.assert_array_equal(drawn, sign_vectors(20, 500, 3))


def test_drawn_signs_approach_all_signs(published):
    design, scores = published
    y, x = scores["clip-vicuna"].to_numpy(), design_matrix(design)
    exact = wild_p_value(y, x, "C", sign_vectors(10, 1024, 0))
    drawn = wild_p_value(y, x, "C", np.random.default_rng(0).choice((1.0, -1.0), size=(20000, 10)))
    assert drawn == pytest.approx(exact, abs=0.01)


def test_size_of_the_wild_bootstrap_under_equal_and_unequal_variance():
    """n = 10, corr(C, P) = 0.8, 600 data sets without any effect: at 5 % the classical t rejects too often when the
    spread of the errors grows with C, the wild bootstrap does not. Bounds are three binomial standard errors wide."""
    rng, signs, sets = np.random.default_rng(5), sign_vectors(10, 9999, 0), 600
    rejected = {(unequal, name): 0 for unequal in (False, True) for name in ("classical", "wild")}
    for unequal in (False, True):
        for _ in range(sets):
            c, other = rng.standard_normal((2, 10))
            x = np.column_stack([np.ones(10), c, 0.8 * c + 0.6 * other])
            y = rng.standard_normal(10) * (np.exp(c) if unequal else 1)
            slope = np.linalg.pinv(x)[1]
            residuals = y - x @ np.linalg.pinv(x) @ y
            t = slope @ y / np.sqrt(residuals @ residuals / 7 * slope @ slope)
            rejected[(unequal, "classical")] += 2 * stats.t.sf(abs(t), 7) < 0.05
            rejected[(unequal, "wild")] += wild_p_value(y, x, "C", signs) <= 0.05
    share = {key: count / sets for key, count in rejected.items()}
    margin = 3 * np.sqrt(0.05 * 0.95 / sets)
    assert abs(share[(False, "classical")] - 0.05) < margin
    assert abs(share[(False, "wild")] - 0.05) < margin
    assert share[(True, "wild")] < 0.05 + margin
    assert share[(True, "classical")] > 0.05 + margin


def test_contrast_row_is_the_difference(published):
    design, scores = published
    fitted = fit(scores["clip-vicuna"].to_numpy(), design_matrix(design), "HC3", 0.9)
    row, v = fitted.terms.loc["C-P"], fitted.covariance
    assert row.estimate == pytest.approx(fitted.terms.estimate["C"] - fitted.terms.estimate["P"])
    assert row.std_error == pytest.approx(np.sqrt(v[1, 1] + v[2, 2] - 2 * v[1, 2]))
    assert row.conf_high - row.estimate == pytest.approx(1.894578605 * row.std_error)  # t(7) at 0.95


def test_f_test_with_one_slope_direction_is_t_squared():
    """Where the outcome is orthogonal to P given C, and HC3 is not used, F of both slopes is the textbook ratio."""
    rng = np.random.default_rng(0)
    x = np.column_stack([np.ones(12), rng.standard_normal((12, 2))])
    y = rng.standard_normal(12)
    fitted = fit(y, x, "classical", 0.95)
    expected = (fitted.r_squared / 2) / ((1 - fitted.r_squared) / 9)
    assert fitted.f_statistic == pytest.approx(expected)


def test_constant_outcome_has_no_inference():
    x = np.column_stack([np.ones(6), np.arange(6.0), [1, 5, 2, 8, 3, 9]])
    fitted = fit(np.full(6, 100 / 3), x, "HC3", 0.95)
    assert fitted.terms.estimate["C"] == pytest.approx(0, abs=1e-9)
    assert fitted.terms[["std_error", "p_value", "conf_low"]].isna().all().all()
    assert np.isnan(wild_p_value(np.full(6, 100 / 3), x, "C", sign_vectors(6, 64, 0)))


def test_hc3_is_missing_where_a_captioner_has_leverage_one():
    x = np.column_stack([np.ones(5), [0, 0, 0, 0, 1.0], [1, 2, 3, 4, 2.0]])
    assert leverage(x).max() == pytest.approx(1)
    y = np.array([1.0, 2.5, 2, 4, 9])
    assert fit(y, x, "HC3", 0.95).terms.p_value.isna().all()
    assert fit(y, x, "classical", 0.95).terms.p_value.notna().all()


def test_collinear_design_is_refused():
    design = pd.DataFrame({"C": [10.0, 20, 30, 40], "P": [15.0, 25, 35, 45]}, index=list("abcd"))
    with pytest.raises(UserError, match=r"4 captioners \(a, b, c, d\) lie on one line"):
        design_matrix(design)


def test_holm_and_benjamini_hochberg_equal_statsmodels():
    p = pd.Series(np.random.default_rng(2).uniform(0, 0.3, 12), index=list("abcdefghijkl"))
    p[["c", "h"]] = np.nan
    for ours, theirs in ((holm, "holm"), (benjamini_hochberg, "fdr_bh")):
        expected = multipletests(p.dropna(), method=theirs)[1]
        assert ours(p).dropna().to_numpy() == pytest.approx(expected)
        assert ours(p).index[ours(p).isna()].tolist() == ["c", "h"], "a missing p-value is not counted as a test"
