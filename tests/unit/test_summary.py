"""The lines that a person reads say what the numbers bear, and no more."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm

from workflow_scripts.analysis.outcomes import Outcome, dissociation
from workflow_scripts.analysis.regression import regression_tables
from workflow_scripts.analysis.settings import AnalysisJob
from workflow_scripts.analysis.summary import recommend, summary

NAMES = [f"c{i}" for i in range(10)]
JOB = AnalysisJob(
    pipelines={
        "vlm": {"objective": "understanding", "benchmarks": ["u"]},
        "t2i": {"objective": "generation", "benchmarks": ["g"]},
    },
    sensitivity={"without_tops": {"without_captioners": ["c8", "c9"]}},
)


def design() -> pd.DataFrame:
    rng = np.random.default_rng(3)
    return pd.DataFrame(
        {
            "family": list("aabbccddee"),
            "label": NAMES,
            "C": np.linspace(30, 70, 10),
            "P": rng.permutation(np.linspace(50, 90, 10)),
            "C_se": np.nan,
            "P_se": np.nan,
        },
        index=NAMES,
    )


def outcomes(u: np.ndarray, g: np.ndarray) -> list[Outcome]:
    pairs = [("vlm", "understanding", "u", u), ("t2i", "generation", "g", g)]
    whole = [
        Outcome(pipeline, "pipeline", objective, pipeline, ((pipeline, benchmark),), pd.Series(values, index=NAMES))
        for pipeline, objective, benchmark, values in pairs
    ]
    singles = [
        Outcome(
            f"{pipeline}/{benchmark}",
            "benchmark",
            objective,
            pipeline,
            ((pipeline, benchmark),),
            pd.Series(values, index=NAMES),
        )
        for pipeline, objective, benchmark, values in pairs
    ]
    return [*whole, *dissociation(whole), *singles]


def lines_of(table: pd.DataFrame, found: list[Outcome]) -> list[str]:
    regression, _ = regression_tables(JOB, table, found)
    return summary(JOB, table, found, regression)["lines"]


def test_clear_effects_are_named_and_noise_is_not():
    table, rng = design(), np.random.default_rng(0)
    noise = rng.normal(0, 0.3, (2, 10))
    u, g, choice = lines_of(table, outcomes(20 + 0.5 * table.C.to_numpy() + noise[0], 50 + noise[1]))
    assert u.startswith("U (understanding): the slope of coverage is above zero in every pipeline")
    assert "of precision is" not in u
    assert g.startswith("G (generation): neither slope, of coverage or of precision, is distinguishable from zero")
    assert "for understanding c9 (U" in choice
    assert "not distinguishable from 9 of the other 9" in choice, "generation is noise"


def test_no_difference_is_said():
    table = design()
    *_, choice = lines_of(table, outcomes(table.C.to_numpy(), np.full(10, 12.5)))
    assert "for generation no difference: G is 12.5 for all" in choice


def test_an_effect_that_hangs_on_two_captioners_is_called_fragile():
    table = design()
    step = np.where(table.index.isin(["c8", "c9"]), 30.0, 0) + np.random.default_rng(1).normal(0, 3, 10)
    table.loc[["c8", "c9"], "C"] = [100.0, 101.0]
    u, *_ = lines_of(table, outcomes(step, np.random.default_rng(2).normal(0, 1, 10)))
    assert "the slope of coverage is above zero in every pipeline, fragile: not in vlm with without_tops" in u


def test_prediction_intervals_equal_statsmodels():
    table, rng = design(), np.random.default_rng(5)
    u = 20 + 0.5 * table.C.to_numpy() + rng.normal(0, 2, 10)
    chosen = recommend(table, outcomes(u, u), 0.9)["understanding"]
    x = sm.add_constant(table[["C", "P"]])
    theirs = sm.OLS(u, x).fit().get_prediction(x).summary_frame(alpha=0.1)
    rows = pd.DataFrame(chosen["table"]).set_index("captioner").loc[NAMES]
    assert rows.predicted.to_numpy() == pytest.approx(theirs["mean"].to_numpy())
    assert rows.predicted_low.to_numpy() == pytest.approx(theirs["obs_ci_lower"].to_numpy())
    assert rows.predicted_high.to_numpy() == pytest.approx(theirs["obs_ci_upper"].to_numpy())
    best = rows.loc[chosen["captioner"]]
    assert best.measured == u.max()
    alike = rows[(rows.predicted_low <= best.predicted_high) & (rows.predicted_high >= best.predicted_low)].index
    assert set(chosen["not_distinguishable"]) == set(alike) - {chosen["captioner"]}


def test_a_negative_slope_is_called_negative():
    table, rng = design(), np.random.default_rng(8)
    u, *_ = lines_of(table, outcomes(80 - 0.5 * table.P.to_numpy() + rng.normal(0, 0.3, 10), rng.normal(50, 1, 10)))
    assert "the slope of precision is below zero in every pipeline" in u
