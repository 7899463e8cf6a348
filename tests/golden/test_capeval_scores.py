"""Coverage and precision against hand-computed tables, the published formula, and other bootstraps."""

import collections
import json

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from statsmodels.stats.proportion import proportion_confint

from workflow_scripts.capeval import score
from workflow_scripts.capeval.benchmark import Benchmark, read_benchmark
from workflow_scripts.errors import UserError
from workflow_scripts.files import read_run_record
from workflow_scripts.plan import ScoreCaptionsJob
from workflow_scripts.records import read_table, write_table

Y, N, M, U = "yes", "no", "not_mentioned", "unjudged"

# Five images, by hand: image, dimension, tags, verdict.
HAND = [
    ("SO1", "instance", "object", Y), ("SO1", "instance", "object,plant", N), ("SO1", "attribute", "color", M),
    ("SO1", "attribute", "color；shape", Y),
    ("SO2", "instance", "object", Y), ("SO2", "text", "titles", U), ("SO2", "attribute", "shape", Y),
    ("PA1", "human", "posture", M), ("PA1", "human", "posture", M),
    ("PA2", "human", "posture", M), ("PA2", "instance", "object", Y),
    ("TI1", "text", "titles", U), ("TI1", "text", "titles|object", U),
]  # fmt: skip
# yes, no, not_mentioned, unjudged; C and P as fractions of whole numbers.
EXPECTED = {
    ("overall", "all"): (5, 1, 4, 3, 60.0, 250 / 3),
    ("domain", "SO"): (4, 1, 1, 1, 250 / 3, 80.0),
    ("domain", "PA"): (1, 0, 3, 0, 25.0, 100.0),
    ("domain", "TI"): (0, 0, 0, 2, None, None),
    ("dimension", "instance"): (3, 1, 0, 0, 100.0, 75.0),
    ("dimension", "attribute"): (2, 0, 1, 0, 200 / 3, 100.0),
    ("dimension", "text"): (0, 0, 0, 3, None, None),
    ("dimension", "human"): (0, 0, 3, 0, 0.0, None),
    ("subcategory", "Food"): (4, 1, 1, 1, 250 / 3, 80.0),
    ("subcategory", "Sports"): (1, 0, 3, 0, 25.0, 100.0),
    ("subcategory", "Docs"): (0, 0, 0, 2, None, None),
    ("tag", "object"): (3, 1, 0, 1, 100.0, 75.0),
    ("tag", "plant"): (0, 1, 0, 0, 100.0, 0.0),
    ("tag", "color"): (1, 0, 1, 0, 50.0, 100.0),
    ("tag", "shape"): (2, 0, 0, 0, 100.0, 100.0),
    ("tag", "titles"): (0, 0, 0, 3, None, None),
    ("tag", "posture"): (0, 0, 3, 0, 0.0, None),
}


def tables(rows):
    """A verdict frame and the benchmark that it belongs to."""
    verdicts = pd.DataFrame(rows, columns=["image_id", "dimension", "tags", "verdict"])
    verdicts["item_index"] = verdicts.groupby("image_id").cumcount()
    verdicts = verdicts.assign(votes=1, reasoning=None, judge="hand")
    images = pd.DataFrame({"image_id": verdicts["image_id"].unique()})
    images["domain"] = images["image_id"].str[:2]
    images["subcategory"] = images["domain"].map({"SO": "Food", "PA": "Sports", "TI": "Docs"})
    items = verdicts[["image_id", "item_index", "dimension", "tags"]].assign(question="?")
    return verdicts, Benchmark(None, images.set_index("image_id"), items)


def scored(rows, missing="unjudged", resamples=200):
    verdicts, benchmark = tables(rows)
    return score.score(score.settle(verdicts, missing), benchmark, resamples, 0.95, 0).set_index(
        ["group_kind", "group"]
    )


def test_a_table_worked_out_by_hand():
    found = scored(HAND)
    assert set(found.index) == set(EXPECTED)
    for group, (*counts, c, p) in EXPECTED.items():
        row = found.loc[group]
        assert row[["num_yes", "num_no", "num_not_mentioned", "num_unjudged"]].tolist() == counts, group
        for name, value in (("C", c), ("P", p)):
            assert np.isnan(row[name]) if value is None else row[name] == pytest.approx(value, abs=1e-12), (group, name)
    assert [kind for kind, _ in found.index] == sorted(
        (kind for kind, _ in found.index), key=["overall", "domain", "dimension", "subcategory", "tag"].index
    )
    dimensions = [group for kind, group in found.index if kind == "dimension"]
    assert dimensions == ["instance", "attribute", "text", "human"]  # CAPEval's order


def published_formula(images):
    """The published counting: a missing or misspelt verdict is not_mentioned, an image without answer is left out."""
    counts = collections.Counter()
    for answer in images.values():
        if answer is None:
            continue
        for verdict in answer:
            counts[verdict if verdict in ("yes", "no") else "not_mentioned"] += 1
    mentioned = counts["yes"] + counts["no"]
    return 100 * mentioned / (mentioned + counts["not_mentioned"]), 100 * counts["yes"] / mentioned


@pytest.mark.parametrize("seed", range(20))
def test_compatibility_gives_the_published_numbers(seed):
    numbers = np.random.default_rng(seed)
    answers = {}
    for index in range(30):
        verdicts = numbers.choice(
            [Y, N, M, "Yes!", "n/a", None], numbers.integers(1, 40), p=[0.5, 0.2, 0.2, 0.04, 0.03, 0.03]
        )
        answers[f"SO{index}"] = None if numbers.random() < 0.1 else [*verdicts, Y]
    size = {image: 5 if answer is None else len(answer) for image, answer in answers.items()}
    rows = [
        (image, "instance", "t", U if answers[image] is None or answers[image][i] is None else answers[image][i])
        for image in answers
        for i in range(size[image])
    ]
    overall = scored(rows, "not_mentioned", 1).loc[("overall", "all")]
    assert (overall["C"], overall["P"]) == pytest.approx(published_formula(answers), abs=1e-10)
    ours = scored(rows, "unjudged", 1).loc[("overall", "all")]
    assert ours["C"] > overall["C"] and ours["P"] == pytest.approx(overall["P"])  # what was missing lowered C only


def test_published_formula_on_the_real_checklists(shared_path):
    """The whole of it on 14,965 items, by every group, against sums over the raw JSON."""
    folder = shared_path / "data" / "capeval"
    benchmark = read_benchmark(folder)
    numbers = np.random.default_rng(0)
    verdict = numbers.choice([Y, N, M], len(benchmark.items), p=[0.6, 0.1, 0.3])
    verdicts = benchmark.items.drop(columns="question").assign(verdict=verdict, votes=1, reasoning=None, judge="x")
    found = score.score(verdicts, benchmark, 10, 0.95, 0).set_index(["group_kind", "group"])
    sums, position = collections.defaultdict(collections.Counter), 0
    for line in (folder / "checklist.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        for key in row:  # the file has the lists in the order of the dimensions
            if not key.endswith("_checklist"):
                continue
            for item in row[key]:
                for group in (
                    ("overall", "all"), ("domain", row["img_path"][:2]), ("dimension", key.removesuffix("_checklist")),
                    ("tag", item["Tags"]),
                ):  # fmt: skip
                    sums[group][verdict[position]] += 1
                position += 1
    assert position == 14965
    for group, count in sums.items():
        mentioned = count[Y] + count[N]
        assert found.loc[group, "C"] == pytest.approx(100 * mentioned / (mentioned + count[M]), abs=1e-10)
        if mentioned:
            assert found.loc[group, "P"] == pytest.approx(100 * count[Y] / mentioned, abs=1e-10)
    assert set(sums) == {group for group in found.index if group[0] != "subcategory"}
    assert len(found.loc["subcategory"]) == 23
    assert found.loc["subcategory"]["num_yes"].sum() == (verdict == Y).sum()


def test_one_item_an_image_is_a_proportion():
    """Then the bootstrap of C is that of a binomial proportion: its exact quantiles, and about the normal interval."""
    n, mentioned = 400, 300
    counts = np.array([[1, 0, 0]] * mentioned + [[0, 0, 1]] * (n - mentioned))
    low, high = score.bootstrap(counts, 20_000, 0.95, np.random.default_rng(0))[:, 0]
    exact = 100 * stats.binom.ppf([0.025, 0.975], n, mentioned / n) / n
    assert [low, high] == pytest.approx(exact, abs=0.3)
    assert [low, high] == pytest.approx(100 * np.array(proportion_confint(mentioned, n, 0.05, "normal")), abs=0.4)


def test_items_that_agree_within_images_count_as_one():
    """Ten equal items an image give the interval of the images, not that of ten times as many items."""
    one = np.array([[1, 0, 0]] * 60 + [[0, 0, 1]] * 40)
    interval = score.bootstrap(one, 5000, 0.95, np.random.default_rng(0))
    assert score.bootstrap(10 * one, 5000, 0.95, np.random.default_rng(0)) == pytest.approx(interval, nan_ok=True)


def test_images_without_a_judged_item_are_not_drawn():
    counts = np.random.default_rng(0).integers(0, 9, (20, 3))
    expected = score.bootstrap(counts, 500, 0.95, np.random.default_rng(1))
    padded = np.concatenate([counts, np.zeros((30, 3), np.int64)])
    assert np.array_equal(score.bootstrap(padded, 500, 0.95, np.random.default_rng(1)), expected)


@pytest.mark.parametrize("confidence", [0.95, 0.8])
def test_intervals_of_ratios_are_those_of_scipy(confidence):
    numbers = np.random.default_rng(1)
    counts = np.stack([numbers.poisson(mean, 80) for mean in (20 * numbers.random(), 5, 12)], axis=1)

    def ratio(which):
        return lambda yes, no, none, axis: (
            100 * (yes + no).sum(axis) / (yes + no + none).sum(axis)
            if which == 0
            else 100 * yes.sum(axis) / (yes + no).sum(axis)
        )

    ours = score.bootstrap(counts, 20_000, confidence, np.random.default_rng(2))
    for which in range(2):
        theirs = stats.bootstrap(
            tuple(counts.T), ratio(which), paired=True, vectorized=True, n_resamples=20_000, method="percentile",
            confidence_level=confidence, rng=np.random.default_rng(3),
        ).confidence_interval  # fmt: skip
        assert ours[:, which] == pytest.approx([theirs.low, theirs.high], abs=0.15)


def test_intervals_do_not_depend_on_how_draws_are_split(monkeypatch):
    counts = np.random.default_rng(0).integers(0, 9, (30, 3))
    whole = score.bootstrap(counts, 1000, 0.9, np.random.default_rng(5))
    monkeypatch.setattr(score, "_DRAWS_AT_ONCE", 100)
    assert np.array_equal(score.bootstrap(counts, 1000, 0.9, np.random.default_rng(5)), whole)


def test_intervals_are_missing_where_nothing_can_be_drawn():
    one_image = scored(HAND).loc[("tag", "plant")]
    assert np.isnan(one_image[["C_low", "C_high", "P_low", "P_high"]].to_numpy(float)).all()
    nothing_mentioned = scored(HAND).loc[("dimension", "human")]
    assert (nothing_mentioned["C_low"], nothing_mentioned["C_high"]) == (0, 0)
    assert np.isnan(nothing_mentioned["P_low"])


def test_a_groups_interval_does_not_depend_on_other_groups():
    whole, part = scored(HAND), scored([row for row in HAND if row[0].startswith("SO")])
    pd.testing.assert_series_equal(whole.loc[("domain", "SO")], part.loc[("domain", "SO")])


def run(tmp_path, verdicts, benchmark, monkeypatch, **changes):
    settings = {
        "captioner": "late", "data": {"path": str(tmp_path)}, "missing_verdict": "unjudged", "max_unjudged_share": 0.25,
        "resamples": 50, "confidence": 0.95, "seed": 0,
    }  # fmt: skip
    monkeypatch.setattr(score, "read_benchmark", lambda _: benchmark)
    write_table(tmp_path / "verdicts.parquet", verdicts, "verdicts")
    job = ScoreCaptionsJob(**{**settings, **changes})
    score.main(
        [
            "--spec",
            job.model_dump_json(),
            "--verdicts",
            str(tmp_path / "verdicts.parquet"),
            "--out",
            str(tmp_path / "s.csv"),
        ]
    )
    return read_table(tmp_path / "s.csv", "capeval")


def test_the_command_writes_the_table(tmp_path, monkeypatch):
    table = run(tmp_path, *tables(HAND), monkeypatch)
    assert table["captioner"].unique().tolist() == ["late"]
    assert table["C"][0] == 60 and np.isnan(table.set_index("group").loc["human", "P"])
    assert (tmp_path / "s.csv").read_text().count(",,") > 0  # missing is an empty cell, not 0
    assert read_run_record(tmp_path / "s.csv")["num_unjudged"] == 3


def test_too_many_unjudged_items_stop_with_the_figures(tmp_path, monkeypatch):
    message = r"captioner late: 3 of 13 checklist items \(23.1%\) are unjudged, on 2 images such as SO2; .*allows 20.0%"
    with pytest.raises(UserError, match=message):
        run(tmp_path, *tables(HAND), monkeypatch, max_unjudged_share=0.2)
    # As in the published code: SO2's item becomes not_mentioned, and only TI1 stays without an answer.
    table = run(tmp_path, *tables(HAND), monkeypatch, max_unjudged_share=0.2, missing_verdict="not_mentioned")
    assert table["num_unjudged"][0] == 2 and table["C"][0] == pytest.approx(600 / 11)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda v: v.iloc[1:], r"lacks verdicts on 1 checklist items, such as item 0 of SO1"),
        (lambda v: pd.concat([v, v.iloc[:2]]), r"2 checklist items have more than one verdict"),
        (
            lambda v: v.assign(item_index=v["item_index"] + (v["image_id"] == "PA2")),
            r"lacks verdicts on 1 .*item 0 of PA2",
        ),
        (lambda v: pd.concat([v, v.iloc[:1].assign(item_index=9)]), r"has verdicts on unknown 1 .*item 9 of SO1"),
    ],
)
def test_verdicts_that_are_not_one_an_item(tmp_path, monkeypatch, change, message):
    verdicts, benchmark = tables(HAND)
    with pytest.raises(UserError, match=message):
        run(tmp_path, change(verdicts), benchmark, monkeypatch)


def test_a_misspelt_verdict_is_unjudged_and_told(caplog):
    verdicts, _ = tables([("SO1", "instance", "t", "Yes"), ("SO1", "instance", "t", Y)])
    assert score.settle(verdicts, "unjudged")["verdict"].tolist() == [U, Y]
    assert "1 verdicts are none of" in caplog.text
