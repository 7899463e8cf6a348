"""Baselines, submissions and diagnoses in a small blocks world, where every right number is known."""

import json
import re

import pandas as pd
import pytest
import yaml

from workflow_scripts.blocks.make_world import write_world
from workflow_scripts.blocks.settings import World
from workflow_scripts.capeval import baselines, canaries, diagnose, export, judge, score, submit
from workflow_scripts.capeval.benchmark import read_benchmark
from workflow_scripts.capeval.score import coverage_precision
from workflow_scripts.collect import baselines as collect_baselines
from workflow_scripts.config import check_config
from workflow_scripts.errors import UserError
from workflow_scripts.plan import BaselinesJob, DiagnoseJob, judge_job, score_captions_job
from workflow_scripts.records import read_table, write_table

NUM_IMAGES = 40


@pytest.fixture(scope="module")
def config(root, tmp_path_factory):
    """The blocks sweep with a small world of its own; the path of the config."""
    folder = tmp_path_factory.mktemp("world")
    small = {"align_conversations": 1, "instruct_conversations": 1, "understanding_questions": 8}
    write_world(folder / "world", World(pool_images=1, capeval_images=NUM_IMAGES, generation_prompts=4, **small))
    text = (root / "resources/sweeps/blocks.yaml").read_text().replace("results/blocks", str(folder))
    (folder / "blocks.yaml").write_text(text)
    return folder / "blocks.yaml"


@pytest.fixture(scope="module")
def sweep(config):
    return check_config(yaml.safe_load(config.read_text()))


@pytest.fixture(scope="module")
def judged(sweep, tmp_path_factory):
    """Folder of all three baselines, judged and scored as the rules do it."""
    folder = tmp_path_factory.mktemp("capeval")
    job = BaselinesJob(data=sweep.capeval.data, seed=0)
    baselines.main(["--spec", job.model_dump_json(), "--out-dir", str(folder)])
    for name in ("human", "shuffled", "template"):
        files = {table: str(folder / name / f"{table}.parquet") for table in ("captions", "verdicts", "votes")}
        judge.main(
            [
                *("--spec", judge_job(sweep).model_dump_json(), "--captions", files["captions"]),
                *("--out", files["verdicts"], "--votes", files["votes"]),
                *("--flagged", str(folder / name / "flagged.csv")),
            ]
        )
        spec = score_captions_job(sweep, name).model_dump_json()
        score.main(["--spec", spec, "--verdicts", files["verdicts"], "--out", str(folder / name / "scores.csv")])
    return folder


def test_baselines_are_where_they_must_be(judged):
    """People say all and nothing wrong, the template nothing; other images' captions are wrong about much."""
    tables = [str(judged / name / "scores.csv") for name in ("human", "shuffled", "template")]
    collect_baselines.main(["--tables", *tables, "--out", str(judged / "baselines.csv")])
    table = read_table(judged / "baselines.csv", "capeval").query("group_kind == 'overall'").set_index("captioner")
    assert list(table.index) == ["human", "shuffled", "template"]
    assert table.loc["human", ["C", "P"]].tolist() == [100, 100]
    assert table.loc["template", "C"] == 0 and pd.isna(table.loc["template", "P"])
    assert 20 < table.loc["shuffled", "C"] < 90 and table.loc["shuffled", "P"] < 70
    assert table["num_unjudged"].sum() == 0


def test_shuffled_captions_are_all_captions_each_of_another_image():
    captions = {f"i{n}": f"c{n}" for n in range(50)}
    orders = [baselines.shuffled(captions, seed) for seed in range(20)]
    for order in orders:
        assert list(order) == list(captions) and sorted(order.values()) == sorted(captions.values())
        assert all(order[name] != caption for name, caption in captions.items())
    assert orders[3] == baselines.shuffled(captions, 3) and len({tuple(o.values()) for o in orders}) == 20
    with pytest.raises(UserError, match="one image only"):
        baselines.shuffled({"a": "b"}, 0)


def test_human_captions_must_be_there(sweep, tmp_path):
    rows = [{"img_path": "a.png", "gt_caption": "x"}, {"img_path": "b.png", "gt_caption": ""}]
    (tmp_path / "gt_caption.jsonl").write_text("\n".join(map(json.dumps, rows)))
    with pytest.raises(UserError, match=r"gt_caption.jsonl: no gt_caption of 2 images, such as b.png"):
        baselines.read_human_captions(tmp_path, ["a.png", "b.png", "c.png"])


def test_a_captioner_cannot_bear_a_baselines_name(config):
    raw = yaml.safe_load(config.read_text())
    raw["captioners"]["human"] = raw["captioners"]["dial-perfect"]
    with pytest.raises(UserError, match=r"captioners.human: the name of a baseline"):
        check_config(raw)


def submit_file(tmp_path, config, rows, name="theirs"):
    (tmp_path / "submission.json").write_text(json.dumps(rows))
    out = tmp_path / name
    arguments = ["--captions", str(tmp_path / "submission.json"), "--name", name, "--config", str(config)]
    submit.main([*arguments, "--out-dir", str(out)])
    return out


def test_an_exported_captioner_is_a_submission_with_the_same_scores(judged, config, tmp_path, capsys):
    export.main(["--captions", str(judged / "shuffled/captions.parquet"), "--out", str(tmp_path / "export.json")])
    rows = json.loads((tmp_path / "export.json").read_text())
    assert len(rows) == NUM_IMAGES and rows[0].keys() == {"image_id", "caption"}
    stems = [{**row, "image_id": row["image_id"].removesuffix(".png")} for row in reversed(rows)]
    for name, given in (("exported", rows), ("stems", stems)):
        out = submit_file(tmp_path, config, given, name)
        scores = read_table(out / "scores.csv", "capeval")
        expected = read_table(judged / "shuffled/scores.csv", "capeval").assign(captioner=name)
        pd.testing.assert_frame_equal(scores, expected)
        assert json.loads(capsys.readouterr().out)["C"] == pytest.approx(scores["C"][0])


def test_every_fault_of_a_submission_is_named(judged, config, tmp_path):
    captions = read_table(judged / "human/captions.parquet", "captions")
    rows = captions[["image_id", "caption"]].to_dict("records")
    rows[3]["image_id"] = rows[4]["image_id"].removesuffix(".png")
    rows[5]["image_id"] += "x"
    with pytest.raises(UserError) as caught:
        submit_file(tmp_path, config, rows)
    lines = str(caught.value).split("\n")
    names = captions["image_id"]
    assert lines[0].endswith("submission.json: 4 faults") and len(lines) == 5
    assert f"row 5: {names[4]} stands twice" in lines[1]
    assert re.search(rf"row 6: {names[5]}x is no image of .*, did you mean {names[5]}\?", lines[2])
    assert {line.strip() for line in lines[3:]} == {f"{names[3]} is missing", f"{names[5]} is missing"}


def test_diagnosis_says_what_stands_out(judged, sweep):
    job = DiagnoseJob(captioners=["human", "shuffled", "template"], data=sweep.capeval.data, num_examples=2)
    diagnose.main(["--spec", job.model_dump_json(), "--folder", str(judged)])
    assert len(read_table(judged / "human/diagnosis.csv", "diagnosis")) == 0  # no fault, no example
    template = read_table(judged / "template/diagnosis.csv", "diagnosis")
    assert (
        set(template["fault"]) == {"missed"}
        and set(template["share"]) == {100.0}
        and set(template["example"]) == {1, 2}
    )
    shuffled = read_table(judged / "shuffled/diagnosis.csv", "diagnosis")
    scores = {
        name: read_table(judged / name / "scores.csv", "capeval").query("group_kind == 'dimension'").set_index("group")
        for name in job.captioners
    }
    verdicts = read_table(judged / "shuffled/verdicts.parquet", "verdicts").set_index(["image_id", "item_index"])[
        "verdict"
    ]
    captions = read_table(judged / "shuffled/captions.parquet", "captions").set_index("image_id")["caption"]
    for row in shuffled.itertuples():
        column = {"missed": "C", "wrong": "P"}[row.fault]
        assert row.share == pytest.approx(100 - scores["shuffled"].loc[row.dimension, column])
        mean = pd.Series([scores[name].loc[row.dimension, column] for name in job.captioners]).mean()
        assert row.mean_share == pytest.approx(100 - mean)
        assert verdicts[row.image_id, row.item_index] == {"missed": "not_mentioned", "wrong": "no"}[row.fault]
        assert pd.isna(row.sentence) or row.sentence in captions[row.image_id]
    excess = shuffled["share"] - shuffled["mean_share"]
    assert excess.is_monotonic_decreasing
    assert {"attribute", "instance", "image"} <= set(shuffled.query("fault == 'wrong'")["dimension"])


def test_the_nearest_sentence():
    caption = "A park at noon. Two brown dogs chase a ball!\nBehind them stands a kiosk"
    assert diagnose.nearest_sentence(caption, "Does the caption mention a brown dog?") == "Two brown dogs chase a ball!"
    assert diagnose.nearest_sentence(caption, "Is a kiosk described?") == "Behind them stands a kiosk"
    assert diagnose.nearest_sentence(caption, "Does the caption mention a car?") is None
    assert diagnose.nearest_sentence(None, "Is a kiosk described?") is None


def test_shares_of_a_dimension_without_judged_items_are_missing():
    table = pd.DataFrame({"dimension": ["text"] * 4, "verdict": ["yes", "no", "not_mentioned", "unjudged"]})
    shares = diagnose.fault_shares(table)
    assert shares.loc["text"].tolist() == pytest.approx((100 - coverage_precision([1, 1, 1])).tolist())
    assert shares.drop(index="text").isna().all().all()


def test_submission_keeps_the_order_of_the_benchmark(judged, sweep, tmp_path):
    benchmark = read_benchmark(sweep.capeval.data.path)
    rows = [{"image_id": name, "caption": name} for name in reversed(benchmark.images.index)]
    (tmp_path / "s.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert list(submit.read_submission(tmp_path / "s.jsonl", benchmark)) == list(benchmark.images.index)


def test_export_leaves_out_what_has_no_caption(judged, tmp_path, caplog):
    table = read_table(judged / "human/captions.parquet", "captions").astype({"caption": object})
    table.loc[2, "caption"] = None
    write_table(tmp_path / "captions.parquet", table, "captions")
    export.main(["--captions", str(tmp_path / "captions.parquet"), "--out", str(tmp_path / "export.json")])
    assert len(json.loads((tmp_path / "export.json").read_text())) == NUM_IMAGES - 1
    assert f"1 of {NUM_IMAGES} images have no caption and are left out: {table['image_id'][2]}" in caplog.text


def test_canaries_are_for_models(sweep, tmp_path):
    with pytest.raises(UserError, match="canaries are for a model"):
        canaries.main(["--spec", judge_job(sweep).model_dump_json(), "--out", str(tmp_path / "c.csv")])
