"""Values and standard errors of the metrics against statsmodels, closed forms and a bootstrap over clusters."""

import numpy as np
import pytest
import statsmodels.api as sm

from workflow_scripts.benchmarks.understanding.estimates import (
    Marks,
    accuracy,
    all_correct,
    f1,
    mean_of_kinds,
    ratio,
    std_error,
)
from workflow_scripts.errors import UserError


def marks(correct, images=None, groups=None, kinds=None, given=None, expected=None):
    n = len(correct)
    names = list(map(str, range(n)))
    columns = (kinds or ["k"] * n, groups or names, images or names, given or [None] * n, expected or ["yes"] * n)
    return Marks("test", tuple(names), *map(tuple, columns), np.array(correct, dtype=float))


@pytest.fixture(scope="module")
def clustered():
    """300 yes/no questions about 60 images that are easy or hard as a whole."""
    rng = np.random.default_rng(0)
    images = [f"image {i // 5}" for i in range(300)]
    ease = np.repeat(rng.beta(2, 1, 60), 5)
    right = rng.random(300) < ease
    expected = rng.choice(["yes", "no"], 300)
    given = [e if r else ("no" if e == "yes" else "yes") for e, r in zip(expected, right, strict=True)]
    return marks(right, images, kinds=["a" if i % 3 else "b" for i in range(300)], given=given, expected=list(expected))


def test_accuracy_has_the_cluster_robust_error_of_a_mean(clustered):
    clusters = [int(image.split()[1]) for image in clustered.images]
    fit = sm.OLS(clustered.correct, np.ones(300)).fit(cov_type="cluster", cov_kwds={"groups": clusters})
    estimate = accuracy(clustered)
    assert estimate.value == pytest.approx(fit.params[0], abs=1e-12)
    assert std_error(estimate, clustered) == pytest.approx(fit.bse[0], rel=1e-9)
    assert std_error(estimate, clustered) > 1.2 * np.sqrt(estimate.value * (1 - estimate.value) / 300)


def test_without_clusters_it_is_the_binomial_error():
    alone = marks([1] * 30 + [0] * 10)
    assert std_error(accuracy(alone), alone) == pytest.approx(np.sqrt(0.75 * 0.25 / 39), rel=1e-12)


def test_mean_of_kinds_adds_the_variances_of_independent_kinds():
    table = marks([1, 1, 0, 1] * 5 + [1, 0] * 4, kinds=["a"] * 20 + ["b/c"] * 8)
    estimate = mean_of_kinds("a", "b")(table)
    assert estimate.value == pytest.approx((0.75 + 0.5) / 2)
    expected = np.sqrt((0.75 * 0.25 / 20 + 0.5 * 0.5 / 8) / 4 * 28 / 27)
    assert std_error(estimate, table) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    "measure", [lambda m: f1(m, "yes"), mean_of_kinds("a", "b"), lambda m: all_correct(m, m.images)]
)
def test_every_metric_has_about_the_error_of_a_bootstrap_over_images(measure, clustered):
    rng = np.random.default_rng(1)
    rows = np.arange(300).reshape(60, 5)
    values = []
    for _ in range(1500):
        chosen = rows[rng.integers(60, size=60)]
        picked = chosen.ravel()
        kinds, given, expected = (
            [column[i] for i in picked] for column in (clustered.kinds, clustered.given, clustered.expected)
        )
        again = [f"draw {i // 5}" for i in range(300)]
        sample = marks(clustered.correct[picked], again, kinds=kinds, given=given, expected=expected)
        values.append(measure(sample).value)
    assert std_error(measure(clustered), clustered) == pytest.approx(np.std(values), rel=0.08)


def test_groups_and_images_join_clusters():
    """Two questions of a pair about two images are one draw; so are pairs that share an image."""
    table = marks([1, 1, 0, 0, 1, 0], images=["p", "q", "q", "r", "s", "t"], groups=["1", "1", "2", "2", "3", "3"])
    estimate = all_correct(table, table.groups)
    assert estimate.value == pytest.approx(1 / 3)
    sums = np.array([estimate.influence[:4].sum(), estimate.influence[4:].sum()])
    assert std_error(estimate, table) == pytest.approx(np.sqrt(2 * (sums**2).sum()))
    assert std_error(accuracy(table), marks([1] * 6, images=["x"] * 6)) is None


def test_f1_by_hand_and_of_guesses():
    table = marks([1, 0, 0, 1, 0], given=["yes", "yes", "no", "no", None], expected=["yes", "no", "yes", "no", "yes"])
    assert f1(table, "yes").value == pytest.approx(2 * 1 / (2 * 1 + 1 + 2))
    assert f1(table.guessed(np.full(5, 0.5)), "yes").value == pytest.approx(2 * 1.5 / (2.5 + 3))
    assert f1(marks([0], given=["no"], expected=["no"]), "yes").value == 0
    assert ratio(np.zeros(2), np.zeros(2)).value == 0


def test_a_part_without_answers_stops():
    with pytest.raises(UserError, match="no answer of kind 'z'"):
        accuracy(marks([1, 0]), "z")
