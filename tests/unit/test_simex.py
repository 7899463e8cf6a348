"""The correction for measurement error against its closed forms."""

import numpy as np
import pytest

from workflow_scripts.analysis.inference import fit
from workflow_scripts.analysis.simex import simex


def sample(n: int, noise: float, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """y, measured x (n, 3), true x: slopes 0.5 and -0.2, corr(C, P) about 0.7, normal measurement error."""
    rng = np.random.default_rng(seed)
    common, own = rng.standard_normal((2, n)), rng.standard_normal(n)
    true = np.column_stack([np.ones(n), 50 + 10 * common[0], 70 + 7 * common[0] + 7 * own])
    y = true @ [30, 0.5, -0.2] + 0.5 * common[1]
    measured = true.copy()
    measured[:, 1:] += noise * rng.standard_normal((n, 2))
    return y, measured, true


def test_no_measurement_error_changes_nothing():
    y, x, _ = sample(12, 0.0, 0)
    corrected = simex(y, x, np.zeros((12, 2)), 40, 0, 0.95)
    plain = fit(y, x, "HC3", 0.95).terms
    for column in ("estimate", "std_error", "p_value", "conf_low", "conf_high"):
        assert corrected[column].to_numpy() == pytest.approx(plain[column].to_numpy(), rel=1e-6, abs=1e-12)


def test_it_comes_close_to_the_moment_correction():
    """With known error variances S the consistent estimate is (X'X - n S)^-1 X'y; the quadratic is near it."""
    y, x, _ = sample(60, 2.0, 1)
    corrected = simex(y, x, np.full((60, 2), 2.0), 400, 0, 0.95).estimate
    moments = x.T @ x - 60 * np.diag([0, 4.0, 4.0])
    exact = np.linalg.solve(moments, x.T @ y)
    naive = fit(y, x, "HC3", 0.95).terms.estimate
    for term, value in (("C", exact[1]), ("P", exact[2])):
        assert abs(corrected[term] - value) < 0.25 * abs(naive[term] - value)


def test_it_undoes_most_of_the_bias():
    naive, corrected = [], []
    for seed in range(40):
        y, x, _ = sample(30, 3.0, seed)
        naive.append(fit(y, x, "HC3", 0.95).terms.estimate["C"])
        corrected.append(simex(y, x, np.full((30, 2), 3.0), 100, seed, 0.95).estimate["C"])
    assert abs(np.mean(corrected) - 0.5) < 0.4 * abs(np.mean(naive) - 0.5)


def test_standard_error_is_the_spread_of_the_estimate():
    """Over data sets of ten captioners with real measurement error; the jackknife errs on the large side."""
    estimates, errors = [], []
    for seed in range(150):
        y, x, _ = sample(10, 1.5, seed)
        corrected = simex(y, x, np.full((10, 2), 1.5), 40, seed, 0.95)
        estimates.append(corrected.estimate["P"])
        errors.append(corrected.std_error["P"])
    assert 0.85 < np.median(errors) / np.std(estimates) < 1.6


def test_the_same_seed_gives_the_same_numbers():
    y, x, _ = sample(10, 1.0, 3)
    errors = np.full((10, 2), 1.0)
    first, again, other = (simex(y, x, errors, 60, seed, 0.95) for seed in (4, 4, 5))
    assert first.equals(again)
    assert not first.equals(other)
