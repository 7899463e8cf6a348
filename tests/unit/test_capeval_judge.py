"""From pictures to verdicts in a small blocks world: captioning, judging, resuming, scoring."""

import shutil

import pandas as pd
import pytest
from engine_helpers import caption_job, engine_job

from workflow_scripts.blocks.make_world import write_world
from workflow_scripts.blocks.settings import World
from workflow_scripts.capeval import caption, judge, score
from workflow_scripts.errors import UserError
from workflow_scripts.files import read_run_record
from workflow_scripts.plan import JudgeJob, ScoreCaptionsJob
from workflow_scripts.records import read_table, write_table

NUM_IMAGES = 60


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("world") / "world"
    small = {
        "align_conversations": 1,
        "instruct_conversations": 1,
        "understanding_questions": 8,
        "generation_prompts": 4,
    }
    write_world(folder, World(pool_images=1, capeval_images=NUM_IMAGES, **small))
    return folder / "capeval"


def captions_of(data, out, drop=0.0, falsify=0.0):
    job = caption_job(engine_job("exact", dial={"drop": drop, "falsify": falsify}), shard_size=None)
    caption.main(["--spec", job.model_dump_json(), "--data", str(data), "--out", str(out)])
    return out


def judge_job(data, **changes):
    return JudgeJob(engine={"engine": "exact", "max_model_len": 1000}, data={"path": str(data)}, **changes)


def verdicts_of(data, captions, out):
    more = ["--votes", str(out.with_name("votes.parquet")), "--flagged", str(out.with_name("flagged.csv"))]
    judge.main(["--spec", judge_job(data).model_dump_json(), "--captions", str(captions), "--out", str(out), *more])
    return read_table(out, "verdicts")


def scores_of(data, verdicts, out):
    job = ScoreCaptionsJob(
        captioner="x", data={"path": str(data)}, missing_verdict="unjudged", max_unjudged_share=1, resamples=100,
        confidence=0.95, seed=0,
    )  # fmt: skip
    score.main(["--spec", job.model_dump_json(), "--verdicts", str(verdicts), "--out", str(out)])
    return read_table(out, "capeval").iloc[0]


def test_a_perfect_captioner_covers_all_and_errs_nowhere(data, tmp_path):
    captions = captions_of(data, tmp_path / "perfect" / "captions.parquet")
    verdicts = verdicts_of(data, captions, tmp_path / "verdicts.parquet")
    assert (verdicts["verdict"] == "yes").all() and (verdicts["judge"] == "exact").all()
    overall = scores_of(data, tmp_path / "verdicts.parquet", tmp_path / "scores.csv")
    assert overall[["C", "C_low", "C_high", "P", "P_low", "P_high"]].tolist() == [100.0] * 6
    assert read_run_record(tmp_path / "verdicts.parquet")["verdicts"] == {"yes": len(verdicts)}


def test_dials_lower_what_they_should(data, tmp_path):
    overall = {}
    for name, drop, falsify in (("drop", 0.5, 0.0), ("falsify", 0.0, 0.3)):
        captions = captions_of(data, tmp_path / name / "captions.parquet", drop, falsify)
        verdicts_of(data, captions, tmp_path / name / "verdicts.parquet")
        overall[name] = scores_of(data, tmp_path / name / "verdicts.parquet", tmp_path / name / "scores.csv")
    assert overall["drop"]["P"] == 100 and 30 < overall["drop"]["C"] < 70
    assert overall["falsify"]["C"] == 100 and 65 < overall["falsify"]["P"] < 90
    assert overall["drop"]["num_unjudged"] == 0  # empty captions among them are judged: they mention nothing
    empty = read_table(tmp_path / "drop" / "captions.parquet", "captions").query("error == 'empty'")["image_id"]
    verdicts = read_table(tmp_path / "drop" / "verdicts.parquet", "verdicts")
    assert len(empty) and set(verdicts.loc[verdicts["image_id"].isin(empty), "verdict"]) == {"not_mentioned"}


def test_an_image_without_a_caption_is_unjudged_and_says_why(data, tmp_path):
    table = read_table(captions_of(data, tmp_path / "x" / "captions.parquet"), "captions")
    table["error"] = table["error"].astype(object)
    table.loc[3, ["caption", "error"]] = [None, "unreadable image: OSError"]
    write_table(tmp_path / "captions.parquet", table, "captions")
    verdicts = verdicts_of(data, tmp_path / "captions.parquet", tmp_path / "verdicts.parquet")
    failed = verdicts["image_id"] == table["image_id"][3]
    assert set(verdicts.loc[failed, "verdict"]) == {"unjudged"} and set(verdicts.loc[~failed, "verdict"]) == {"yes"}
    assert set(verdicts.loc[failed, "reasoning"]) == {"no caption: unreadable image: OSError"}
    assert (verdicts.loc[failed, "votes"] == 0).all()
    overall = scores_of(data, tmp_path / "verdicts.parquet", tmp_path / "scores.csv")
    assert (overall["C"], overall["num_unjudged"]) == (100, failed.sum())


def test_captions_that_are_not_those_of_the_benchmark(data, tmp_path):
    table = read_table(captions_of(data, tmp_path / "x" / "captions.parquet"), "captions")
    for changed, message in (
        (table.iloc[2:], r"lacks 2 images, such as FO001.png"),
        (table.assign(image_id=table["image_id"].where(table.index > 0, "no.png")), "lacks 1 images"),
        (pd.concat([table, table.iloc[:1].assign(image_id="no.png")]), "has unknown 1 images, such as no.png"),
        (pd.concat([table, table.iloc[:1]]), "1 images stand more than once"),
    ):
        write_table(tmp_path / "captions.parquet", changed, "captions")
        with pytest.raises(UserError, match=message.replace("FO001.png", r"\w+.png")):
            verdicts_of(data, tmp_path / "captions.parquet", tmp_path / "verdicts.parquet")


def test_absent_images_stop_an_engine_that_looks_at_them(data, tmp_path):
    shutil.copytree(data, tmp_path / "capeval")
    victim = min((tmp_path / "capeval" / "image").iterdir())
    victim.unlink()
    with pytest.raises(UserError, match=rf"1 of {NUM_IMAGES} images are absent: {victim.name}"):
        captions_of(tmp_path / "capeval", tmp_path / "x" / "captions.parquet")
