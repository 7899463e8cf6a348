"""The commands of the analysis from files to files."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from workflow_scripts.analysis.plot import main as plot
from workflow_scripts.analysis.published import main as tabulate
from workflow_scripts.analysis.regress import main as regress
from workflow_scripts.analysis.settings import AnalysisJob, figure_names, published_pipelines
from workflow_scripts.errors import UserError
from workflow_scripts.files import read_json, read_run_record
from workflow_scripts.records import read_table, write_table

NAMES = [f"{family}-{size}" for family in ("alpha", "beta", "gamma") for size in ("small", "medium", "large")]
SPEC = {
    "pipelines": {
        "vlm": {"objective": "understanding", "benchmarks": ["pope", "mme"]},
        "t2i": {"objective": "generation", "benchmarks": ["geneval"]},
    },
    "composites": {"hallucination": {"benchmarks": ["pope"], "pipelines": ["vlm"]}},
    "sensitivity": {"without_alpha": {"without_captioners": NAMES[:3]}},
    "seeds": [0, 1],
    "simex_draws": 40,
}
TABLES = {
    "regression": "regression",
    "models": "regression_models",
    "influence": "regression_influence",
    "sensitivity": "regression_sensitivity",
}


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, rng = tmp_path_factory.mktemp("inputs"), np.random.default_rng(0)
    families = [name.split("-")[0] for name in NAMES]
    c = rng.uniform(30, 70, len(NAMES))
    p = 40 + 0.5 * c + rng.normal(0, 5, len(NAMES))
    write_table(
        folder / "captioners.csv", pd.DataFrame({"captioner": NAMES, "family": families, "label": NAMES}), "captioners"
    )
    capeval = pd.DataFrame(
        {
            "captioner": NAMES,
            "group_kind": "overall",
            "group": "all",
            "C": c,
            "C_low": c - 1,
            "C_high": c + 1,
            "P": p,
            "P_low": p - 1.5,
            "P_high": p + 1.5,
            "num_yes": 5,
            "num_no": 5,
            "num_not_mentioned": 5,
            "num_unjudged": 0,
        }
    )
    write_table(folder / "capeval.csv", capeval, "capeval")
    rows = [
        {
            "captioner": name,
            "family": family,
            "pipeline": pipeline,
            "objective": need["objective"],
            "seed": seed,
            "benchmark": benchmark,
            "variant": None,
            "metric": "accuracy",
            "raw": 0.5,
            "chance": 25.0,
            "num_items": 100,
            "num_unparsed": 0,
            "std_error": None,
            "score": 20 + 0.3 * c[i] + 0.1 * p[i] + rng.normal(0, 1),
            "harness": "capsweep",
            "comparable": True,
        }
        for i, (name, family) in enumerate(zip(NAMES, families, strict=True))
        for pipeline, need in SPEC["pipelines"].items()
        for benchmark in need["benchmarks"]
        for seed in SPEC["seeds"]
    ]
    write_table(folder / "scores.csv", pd.DataFrame(rows), "scores")
    return folder


def reads(folder: Path) -> list[str]:
    return [word for name in ("capeval", "scores", "captioners") for word in (f"--{name}", str(folder / f"{name}.csv"))]


def run_regress(inputs: Path, out: Path, spec: dict) -> None:
    writes = [word for name, table in TABLES.items() for word in (f"--{name}", str(out / f"{table}.csv"))]
    regress(["--spec", json.dumps(spec), *reads(inputs), *writes, "--summary", str(out / "summary.json")])


@pytest.fixture(scope="module")
def results(inputs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("results")
    run_regress(inputs, out, SPEC)
    return out


def test_tables_have_their_columns_and_records(results: Path):
    for table in TABLES.values():
        assert len(read_table(results / f"{table}.csv", table))
        assert read_run_record(results / f"{table}.csv")["spec"]["seeds"] == [0, 1]
    assert len(read_json(results / "summary.json")["lines"]) == 3


def test_specs_and_corrections_stand_where_they_belong(results: Path):
    table = read_table(results / "regression.csv", "regression")
    assert set(table.spec) == {"published", "robust", "without_alpha", "simex"}
    declared = table.outcome.isin(["vlm", "t2i", "hallucination"])
    single = table.outcome.str.contains("/")
    tested = table.term != "intercept"
    assert table.p_value_holm[declared & tested].notna().all()
    assert table.p_value_holm[~declared | ~tested].isna().all()
    assert table.q_value_bh[single & tested].notna().all()
    assert table.q_value_bh[~single | ~tested].isna().all()
    assert (table.p_value_holm >= table.p_value)[declared & tested].all()
    with_wild = tested & table.spec.isin(["robust", "without_alpha"])
    assert table.p_value_wild[with_wild].notna().all()
    assert table.p_value_wild[~with_wild].isna().all()
    robust = table[(table.spec == "robust") & tested]
    assert (robust.loo_min <= robust.estimate).all()
    assert (robust.estimate <= robust.loo_max).all()


def test_seed_spread_is_reported(results: Path):
    models = read_table(results / "regression_models.csv", "regression_models").set_index(["outcome", "spec"])
    assert models.loc[("t2i", "robust")].num_seeds == 2
    assert 0.2 < models.loc[("t2i", "robust")].seed_sd < 3


def test_same_inputs_give_the_same_bytes(inputs: Path, results: Path, tmp_path: Path):
    run_regress(inputs, tmp_path, SPEC)
    for table in TABLES.values():
        assert (tmp_path / f"{table}.csv").read_bytes() == (results / f"{table}.csv").read_bytes()


def test_nothing_is_written_when_a_score_is_missing(inputs: Path, tmp_path: Path):
    with pytest.raises(UserError, match=r"scores\.csv lacks 27 of 81 scores:\n  alpha-small, vlm, pope, seed 2"):
        run_regress(inputs, tmp_path, {**SPEC, "seeds": [0, 1, 2]})
    assert not list(tmp_path.iterdir())


def test_figures_are_drawn(inputs: Path, results: Path, tmp_path: Path):
    plot(
        [
            "--spec",
            json.dumps(SPEC),
            *reads(inputs),
            "--regression",
            str(results / "regression.csv"),
            "--influence",
            str(results / "regression_influence.csv"),
            "--out-dir",
            str(tmp_path),
        ]
    )
    names = figure_names(AnalysisJob(**SPEC))
    assert names[-1] == "hallucination"
    for name in names:
        assert (tmp_path / f"{name}.png").read_bytes()[:4] == b"\x89PNG"
        assert (tmp_path / f"{name}.svg").read_text().rstrip().endswith("</svg>")
    assert read_run_record(tmp_path / "figures")["figures"] == names


def test_published_tables_become_a_sweeps_tables(root: Path, tmp_path: Path):
    tables = root / "resources" / "published"
    paths = {name: tmp_path / f"{name}.csv" for name in ("captioners", "capeval", "scores")}
    words = [word for name, path in paths.items() for word in (f"--{name}", str(path))]
    tabulate(["--spec", json.dumps({"tables": str(tables)}), *words])
    capeval = read_table(paths["capeval"], "capeval")
    assert len(capeval) == 14 * 5
    row = capeval[(capeval.captioner == "llava-ov-1.5-8b") & (capeval.group == "TI")].iloc[0]
    assert (row.C, row.P) == (30.2, 59.7)
    assert capeval[["C_low", "P_high", "num_yes", "num_unjudged"]].isna().all().all()
    scores = read_table(paths["scores"], "scores")
    assert len(scores) == 10 * (2 * 16 + 2 * 3)
    assert not scores.duplicated(["captioner", "pipeline", "benchmark", "seed"]).any()
    assert scores.set_index("captioner").family["glm-4.6v-flash"].unique().tolist() == ["GLM-4.6V"]
    pipelines = published_pipelines(tables)
    assert [len(pipeline.benchmarks) for pipeline in pipelines.values()] == [16, 16, 3, 3]
    assert read_table(paths["captioners"], "captioners").label.tolist()[0] == "Qwen3-VL-4B"


def test_copies_equal_the_transcription(root: Path, shared_path: Path):
    for copy in (root / "resources" / "published").glob("*.csv"):
        assert copy.read_bytes() == (shared_path / "paper" / copy.name).read_bytes()
