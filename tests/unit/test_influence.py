"""Leverage, Cook's distance, VIF and left-out estimates against statsmodels and closed forms."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from statsmodels.stats.outliers_influence import variance_inflation_factor

from workflow_scripts.analysis.inference import design_matrix, leverage
from workflow_scripts.analysis.influence import between_families, cooks_distance, leave_out, variance_inflation


@pytest.fixture
def data() -> tuple[pd.Series, pd.DataFrame]:
    rng = np.random.default_rng(7)
    names = [f"captioner-{i}" for i in range(9)]
    design = pd.DataFrame(
        {"C": rng.uniform(40, 70, 9), "P": rng.uniform(45, 90, 9), "family": list("aaabbbccd")}, index=names
    )
    return pd.Series(rng.uniform(50, 60, 9), index=names), design


def test_leverage_and_cooks_distance_equal_statsmodels(data):
    y, design = data
    x = design_matrix(design)
    theirs = sm.OLS(y.to_numpy(), x).fit().get_influence()
    assert leverage(x) == pytest.approx(theirs.hat_matrix_diag)
    assert leverage(x).sum() == pytest.approx(3)
    assert cooks_distance(y.to_numpy(), x) == pytest.approx(theirs.cooks_distance[0])


def test_vif_equals_statsmodels(data):
    _, design = data
    x = design_matrix(design)
    for column in (1, 2):
        assert variance_inflation(design) == pytest.approx(variance_inflation_factor(x, column))


def test_leave_one_captioner_out_by_its_closed_form(data):
    """The coefficients move by (X'X)^-1 x_i e_i / (1 - h_i)."""
    y, design = data
    x = design_matrix(design)
    beta = np.linalg.solve(x.T @ x, x.T @ y)
    left = leave_out(y, design, "captioner")
    shifts = np.linalg.inv(x.T @ x) @ (x.T * ((y - x @ beta) / (1 - leverage(x))).to_numpy())
    for i, name in enumerate(design.index):
        without = beta - shifts[:, i]
        expected = [*without, without[1] - without[2]]
        assert left.loc[name].to_numpy() == pytest.approx(expected)


def test_leave_out_joins_by_name_and_refits_families(data):
    y, design = data
    left = leave_out(y[::-1], design, "family")
    kept = design.family != "b"
    expected = sm.OLS(y[design.index[kept]], sm.add_constant(design.loc[kept, ["C", "P"]])).fit().params
    assert left.loc["b", ["intercept", "C", "P"]].to_numpy() == pytest.approx(expected.to_numpy())


def test_leaving_out_too_much_is_missing_not_wrong():
    design = pd.DataFrame(
        {"C": [1.0, 2, 3, 9], "P": [2.0, 4, 6, 1], "family": list("aaab")}, index=list("wxyz")
    )  # without z, C and P lie on one line
    left = leave_out(pd.Series([1.0, 2, 3, 5], index=design.index), design, "family")
    assert left.loc["b"].isna().all()
    assert left.loc["a"].isna().all(), "one captioner is no regression"


def test_between_families_share():
    families = pd.Series(list("aabb"))
    assert between_families(pd.Series([1.0, 1, 5, 5]), families) == 1
    assert between_families(pd.Series([1.0, 5, 1, 5]), families) == 0
    assert between_families(pd.Series([1.0, 3, 5, 7]), families) == pytest.approx(16 / 20)
