"""Reading and joining: by name, complete, never by order."""

import numpy as np
import pandas as pd
import pytest

from workflow_scripts.analysis.outcomes import dissociation, read_design, read_outcomes
from workflow_scripts.analysis.sensitivity import variants
from workflow_scripts.analysis.settings import AnalysisJob
from workflow_scripts.errors import UserError

NAMES = ["a1", "a2", "b1", "b2", "c1"]
JOB = {
    "pipelines": {
        "vlm": {"objective": "understanding", "benchmarks": ["pope", "mme"]},
        "t2i": {"objective": "generation", "benchmarks": ["geneval"]},
    },
    "seeds": [0, 1],
    "composites": {"hallucination": {"benchmarks": ["pope"], "pipelines": ["vlm"]}},
}


def captioners() -> pd.DataFrame:
    return pd.DataFrame({"captioner": NAMES, "family": list("aabbc"), "label": [n.upper() for n in NAMES]})


def capeval() -> pd.DataFrame:
    c, p = np.array([40.0, 50, 45, 60, 62]), np.array([70.0, 60, 80, 75, 90])
    return pd.DataFrame(
        {
            "captioner": NAMES,
            "group_kind": "overall",
            "group": "all",
            "C": c,
            "C_low": c - 2,
            "C_high": c + 2,
            "P": p,
            "P_low": p - 4,
            "P_high": p + 4,
        }
    )


def scores() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    rows = [
        {"captioner": name, "pipeline": pipeline, "benchmark": benchmark, "seed": seed, "score": rng.uniform(20, 80)}
        for name in NAMES
        for pipeline, benchmark in (("vlm", "pope"), ("vlm", "mme"), ("t2i", "geneval"))
        for seed in (0, 1)
    ]
    return pd.DataFrame(rows).assign(variant=None)


def scores_of_two_variants() -> pd.DataFrame:
    """MME has two figures and one more that has a name of its own."""
    table, mme = scores(), scores().benchmark == "mme"
    return pd.concat([
        table[~mme], table[mme].assign(variant="published"),
        table[mme].assign(variant="overall", score=lambda rows: 100 - rows.score),
        table[mme].assign(variant="perception", score=-1.0),
    ])  # fmt: skip


def outcomes_by_name(job: dict, table: pd.DataFrame, aggregates: pd.DataFrame | None = None) -> dict:
    found = read_outcomes(AnalysisJob(**job), pd.Index(NAMES), table, aggregates)
    return {outcome.name: outcome for outcome in found}


def test_outcomes_average_benchmarks_and_seeds():
    table = scores()
    found = outcomes_by_name(JOB, table)
    assert list(found) == ["vlm", "t2i", "hallucination", "dissociation", "vlm/pope", "vlm/mme", "t2i/geneval"]
    of_a1 = table[table.captioner == "a1"]
    assert found["vlm"].values["a1"] == pytest.approx(of_a1[of_a1.pipeline == "vlm"].score.mean())
    assert found["hallucination"].values["a1"] == pytest.approx(of_a1[of_a1.benchmark == "pope"].score.mean())
    geneval = table[table.pipeline == "t2i"].pivot(index="captioner", columns="seed", values="score")
    spread = np.sqrt((((geneval[0] - geneval[1]) ** 2) / 2).mean())
    assert found["t2i"].seed_sd == pytest.approx(spread)
    assert found["t2i"].num_seeds == 2


def test_row_order_means_nothing():
    first = outcomes_by_name(JOB, scores())
    second = outcomes_by_name(JOB, scores().sample(frac=1, random_state=1))
    for name, outcome in first.items():
        pd.testing.assert_series_equal(outcome.values, second[name].values)


def test_every_missing_score_is_named():
    table = scores()
    gone = (table.captioner == "b1") & (table.benchmark == "mme")
    gone |= (table.captioner == "c1") & (table.pipeline == "t2i")
    table.loc[gone & (table.seed == 0), "score"] = np.nan
    with pytest.raises(UserError) as caught:
        outcomes_by_name(JOB, table[~(gone & (table.seed == 1))])
    for line in ("lacks 4 of 30", "b1, vlm, mme, seed 0", "b1, vlm, mme, seed 1", "c1, t2i, geneval, seed 0"):
        assert line in str(caught.value)


def test_a_score_that_stands_twice_stops():
    with pytest.raises(UserError, match="more than one score for a1, vlm, pope, seed 0"):
        outcomes_by_name(JOB, pd.concat([scores(), scores().head(1)]))


def test_printed_aggregate_replaces_the_mean_and_needs_its_table():
    job = {**JOB, "aggregate": {"vlm": "printed"}}
    printed = pd.DataFrame({"captioner": NAMES[::-1], "pipeline": "vlm", "score": [5.0, 4, 3, 2, 1]})
    assert outcomes_by_name(job, scores(), printed)["vlm"].values.tolist() == [1, 2, 3, 4, 5]
    with pytest.raises(UserError, match="no table of printed aggregates"):
        outcomes_by_name(job, scores())
    with pytest.raises(UserError, match="no printed aggregate of vlm for a1"):
        outcomes_by_name(job, scores(), printed.iloc[:-1])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"aggregate": {"vml": "printed"}}, "unknown name 'vml', did you mean 'vlm'"),
        ({"composites": {"h": {"benchmarks": ["popee"], "pipelines": ["vlm"]}}}, "did you mean 'pope'"),
        ({"composites": {"h": {"benchmarks": ["pope"], "pipelines": ["t2j"]}}}, "did you mean 't2i'"),
    ],
)
def test_unknown_names_are_named(change, message):
    with pytest.raises(UserError, match=message):
        outcomes_by_name({**JOB, **change}, scores())


def test_design_has_standard_errors_from_the_intervals():
    design = read_design(capeval().sample(frac=1, random_state=0), captioners())
    assert design.index.tolist() == NAMES
    assert design.C_se.to_numpy() == pytest.approx(2 / 1.959964, rel=1e-6)
    assert design.P_se.to_numpy() == pytest.approx(4 / 1.959964, rel=1e-6)


def test_design_refuses_what_is_missing():
    with pytest.raises(UserError, match="has 3 captioners and needs at least 4"):
        read_design(capeval(), captioners().head(3))
    with pytest.raises(UserError, match="no overall coverage C for c1"):
        read_design(capeval().head(4), captioners())
    table = capeval()
    table.loc[1, "P"] = np.nan
    with pytest.raises(UserError, match="no overall precision P for a2"):
        read_design(table, captioners())
    with pytest.raises(UserError, match=r"capeval.csv, overall: more than one row for a1"):
        read_design(pd.concat([capeval(), capeval().head(1)]), captioners())


def test_dissociation_is_the_difference_of_z_scores():
    found = outcomes_by_name(JOB, scores())
    u, g = found["vlm"].values, found["t2i"].values
    expected = (u - u.mean()) / u.std(ddof=1) - (g - g.mean()) / g.std(ddof=1)
    assert found["dissociation"].values.to_numpy() == pytest.approx(expected.to_numpy())
    assert dissociation([found["vlm"]]) == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"without_captioners": ["a3"]}, r"sensitivity.s.without_captioners: unknown name 'a3', did you mean 'a"),
        ({"only_benchmarks": ["pop"]}, "unknown name 'pop', did you mean 'pope'"),
        ({"without_captioners": ["a1", "a2"]}, "leaves 3 captioners, the regression needs at least 4"),
    ],
)
def test_sensitivity_names_and_sizes_are_checked(change, message):
    job = AnalysisJob(**JOB, sensitivity={"s": change})
    outcomes = read_outcomes(job, pd.Index(NAMES), scores())
    with pytest.raises(UserError, match=message):
        list(variants(job, read_design(capeval(), captioners()), outcomes))


def test_sensitivity_changes_what_it_touches_only():
    job = AnalysisJob(
        **JOB,
        sensitivity={
            "without_pope": {"without_benchmarks": ["pope"]},
            "without_a1": {"without_captioners": ["a1"]},
        },
    )
    outcomes = read_outcomes(job, pd.Index(NAMES), scores())
    found = {
        name: (list(stay.index), {o.name: o for o in changed})
        for name, stay, changed in variants(job, read_design(capeval(), captioners()), outcomes)
    }
    stay, changed = found["without_pope"]
    assert (stay, list(changed)) == (NAMES, ["vlm"]), "hallucination has no other benchmark, t2i does not lose any"
    mme = next(o for o in outcomes if o.name == "vlm/mme").values
    assert changed["vlm"].values.to_numpy() == pytest.approx(mme.to_numpy())
    stay, changed = found["without_a1"]
    assert (stay, list(changed)) == (NAMES[1:], ["vlm", "t2i", "hallucination", "dissociation"])


def test_each_variant_of_u_is_regressed():
    table = scores_of_two_variants()
    of_mme = table[table.benchmark == "mme"].set_index(["variant", "captioner"]).score
    job = AnalysisJob(**JOB)
    found = {o.name: o for o in read_outcomes(job, pd.Index(NAMES), table)}
    by_hand = scores()[scores().pipeline == "vlm"].groupby("captioner").score.mean()
    assert found["vlm"].values.to_numpy() == pytest.approx(by_hand[NAMES].to_numpy()), "published is the default"
    for variant, outcome in (("published", found["vlm/mme"]), ("overall", found["vlm/mme"].other)):
        assert outcome.values["b1"] == pytest.approx(of_mme[variant, "b1"].mean())
    assert {name for name, outcome in found.items() if outcome.other} == {"vlm", "vlm/mme", "dissociation"}

    ((name, stay, changed),) = variants(job, read_design(capeval(), captioners()), list(found.values()))
    assert (name, list(stay.index)) == ("variant_overall", NAMES)
    assert [outcome.name for outcome in changed] == ["vlm", "dissociation", "vlm/mme"]

    turned = {o.name: o for o in read_outcomes(job.model_copy(update={"variant": "overall"}), pd.Index(NAMES), table)}
    pd.testing.assert_series_equal(turned["vlm"].values, found["vlm"].other.values)
    pd.testing.assert_series_equal(turned["vlm"].other.values, found["vlm"].values)


def test_a_variant_that_a_score_lacks_is_named():
    table = scores_of_two_variants()
    gone = (table.variant == "overall") & (table.captioner == "b1") & (table.seed == 1)
    with pytest.raises(UserError, match=r"lacks 1 of 30 scores of variant 'overall':\n  b1, vlm, mme, seed 1"):
        outcomes_by_name(JOB, table[~gone])


def test_the_names_of_variants_are_taken():
    with pytest.raises(ValueError, match="'variant_overall': this name is taken"):
        AnalysisJob(**JOB, sensitivity={"variant_overall": {"without_captioners": ["a1"]}})
