"""Results folders of lmms-eval and VLMEvalKit in their own shape, and every fault that they can have."""

import json
import random

import pandas as pd
import pytest

from workflow_scripts.benchmarks.understanding import BENCHMARKS, lmms_eval, vlmevalkit
from workflow_scripts.benchmarks.understanding.base import read_questions
from workflow_scripts.benchmarks.understanding.make_tiny import MAKERS
from workflow_scripts.errors import UserError
from workflow_scripts.records import read_table, write_table

# What lmms-eval 0.7.3 writes of a task, without the standard errors, and how many samples it has.
LMMS = {
    "pope": ({"pope_accuracy": 0.8, "pope_f1_score": 0.75, "pope_yes_ratio": 0.5}, 9000),
    "hallusion_bench_image": ({"aAcc": 60.0, "qAcc": 30.0, "fAcc": 45.0}, 951),
    "mme": ({"mme_perception_score": 1400.0, "mme_cognition_score": 280.0}, 2374),
    "mmbench_en_dev_static": ({"gpt_eval_score": 70.0, "submission": None}, 4329),
    "mmbench_cn_dev": ({"gpt_eval_score": 60.0, "submission": None}, 4329),
    "scienceqa_img": ({"exact_match": 0.7}, 2017),
    "mmstar": ({"math": 0.3, "average": 0.4}, 1500),
    "ocrbench": ({"ocrbench_accuracy": 0.55}, 1000),
    "realworldqa": ({"exact_match": 0.6}, 765),
    "mmvp": ({"mmvp_accuracy": 0.7, "mmvp_pair_accuracy": 0.5}, 300),
    "cv_bench_2d": ({"cv_bench_acc": 0.65}, 1438),
    "cv_bench_3d": ({"cv_bench_acc": 0.55}, 1200),
    "ai2d": ({"exact_match": 0.66}, 3088),
    "seedbench": ({"seed_image": 0.71, "seed_video": 0.4, "seed_all": 0.65}, 17990),
    "mmmu_val": ({"mmmu_acc": 0.36}, 900),
}
WITHOUT_AMBER = [name for name in BENCHMARKS if name != "amber"]


def lmms_file(folder, tasks, name="20260101_120000_results.json", limit=None):
    """A results file of some of the tasks."""
    model = folder / "org__model"
    model.mkdir(parents=True, exist_ok=True)
    results, counts = {}, {}
    for task in tasks:
        figures, number = LMMS[task]
        filter_name = "flexible-extract" if task == "ai2d" else "none"
        results[task] = {"alias": task, " ": " "}
        for metric, value in figures.items():
            results[task] |= {f"{metric},{filter_name}": value, f"{metric}_stderr,{filter_name}": "N/A"}
        counts[task] = {"original": number, "effective": min(limit or number, number)}
    content = {"results": results, "group_subtasks": {}, "configs": {}, "versions": {}, "n-shot": {},
               "higher_is_better": {}, "n-samples": counts, "config": {"model": "vllm"}}  # fmt: skip
    (model / name).write_text(json.dumps(content, indent=2))
    return model / name


def table_of(rows, tmp_path):
    write_table(tmp_path / "scores.csv", rows, "benchmark_scores")
    return read_table(tmp_path / "scores.csv", "benchmark_scores").set_index(["benchmark", "variant"])


def test_lmms_eval_gives_all_but_amber(tmp_path):
    half = len(LMMS) // 2
    lmms_file(tmp_path, list(LMMS)[:half])
    lmms_file(tmp_path, list(LMMS)[half:], "20260102_120000_results.json")
    rows = table_of(lmms_eval.read_scores(tmp_path, WITHOUT_AMBER), tmp_path)
    scores = {"pope": 75, "hallusionbench": 30, "mme": 60, "mmbench_en": 70, "mmbench_cn": 60, "scienceqa": 70,
              "mmstar": 40, "ocrbench": 55, "realworldqa": 60, "mmvp": 70, "cvbench_2d": 65, "cvbench_3d": 55,
              "ai2d": 66, "seedbench_image": 71, "mmmu": 36}  # fmt: skip
    published = rows.xs("published", level="variant")
    assert published.score.to_dict() == pytest.approx(scores)
    assert rows.loc[("hallusionbench", "overall"), "score"] == pytest.approx(45)
    assert rows.loc[("mmvp", "overall"), "score"] == pytest.approx(50)
    assert rows.loc[("mme", "overall"), "raw"] == pytest.approx(1680)
    assert rows.loc[("ocrbench", "overall"), "raw"] == pytest.approx(550)
    assert set(rows.harness) == {"lmms-eval"}
    # Its metric or its rule is another one, or the paper's part of the benchmark is unknown.
    assert set(published.index[~published.comparable]) == {
        "pope", "hallusionbench", "mmbench_en", "mmbench_cn", "scienceqa", "mmstar", "mmvp", "cvbench_2d", "mmmu",
    }  # fmt: skip
    overall = rows.xs("overall", level="variant")
    assert set(overall.index[~overall.comparable]) == {
        "pope", "hallusionbench", "mmbench_cn", "mmstar", "mmvp", "cvbench_2d",
    }  # fmt: skip
    assert rows.loc[("mmstar", "overall"), "metric"] == "mean accuracy of eighteen details"
    assert rows.loc[("mmvp", "corrected"), "comparable"]
    assert published.num_items.to_dict()["ai2d"] == 3088 and pd.isna(published.num_items["seedbench_image"])


def test_a_limited_run_is_not_comparable(tmp_path):
    lmms_file(tmp_path, ["ai2d"], limit=100)
    row = lmms_eval.read_scores(tmp_path, ["ai2d"])[0]
    assert row["num_items"] == 100 and row["comparable"] is False


def test_what_a_task_hands_in_is_no_result(tmp_path):
    lmms_file(tmp_path, ["mmbench_en_dev_static"])
    (tmp_path / "submissions").mkdir()
    (tmp_path / "submissions/mmbench_en_dev_static_results.json").write_text('{"overall_acc": 0.7}')
    assert lmms_eval.read_scores(tmp_path, ["mmbench_en"])[0]["score"] == pytest.approx(70)


def edit(file, change):
    content = json.loads(file.read_text())
    change(content)
    file.write_text(json.dumps(content))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c["results"].pop("mme"), r"no results of mme \(MME\)"),
        (lambda c: c["results"]["mme"].pop("mme_cognition_score,none"), "task mme: no figure 'mme_cognition_score'"),
        (lambda c: c["results"]["mme"].update({"mme_cognition_score,none": None}), "task mme: .* is no number: None"),
        (lambda c: c["results"]["mme"].update({"mme_cognition_score,none": "N/A"}), "task mme: .* no number: 'N/A'"),
        (lambda c: c["results"]["mme"].update({"mme_cognition_score,none": 4e3}), "task mme: .* expected 0 to 2800"),
        (lambda c: c["results"]["mme"].update({"mme_cognition_score,none": float("nan")}), "task mme: .* makes nan"),
        (lambda c: c["results"]["mme"].update({"mme_cognition_score,x": 1.0}), "task mme: .* more than one filter"),
        (lambda c: c["n-samples"].clear(), "task mme: no count of its samples"),
        (lambda c: c.pop("results"), "lacks 'results' or 'n-samples'"),
    ],
)
def test_faults_of_lmms_eval_name_file_and_task(change, message, tmp_path):
    edit(lmms_file(tmp_path, ["mme"]), change)
    with pytest.raises(UserError, match=message) as error:
        lmms_eval.read_scores(tmp_path, ["mme"])
    assert str(tmp_path) in str(error.value)


def test_lmms_eval_refuses_cut_files_second_runs_and_what_it_lacks(tmp_path):
    with pytest.raises(UserError, match=r"no file \*_results.json of lmms-eval"):
        lmms_eval.read_scores(tmp_path, ["mme"])
    file = lmms_file(tmp_path, ["mme"])
    second = lmms_file(tmp_path, ["mme"], "20260103_120000_results.json")
    with pytest.raises(UserError, match=r"task mme is in .*20260101.* too"):
        lmms_eval.read_scores(tmp_path, ["mme"])
    second.write_text(file.read_text()[:-20])
    with pytest.raises(UserError, match=r"20260103_120000_results.json: not JSON, perhaps cut short"):
        lmms_eval.read_scores(tmp_path, ["mme"])
    with pytest.raises(UserError, match="AMBER has no results here"):
        lmms_eval.read_scores(tmp_path, ["amber"])
    with pytest.raises(UserError, match="did you mean 'mme'"):
        lmms_eval.read_scores(tmp_path, ["mmee"])


def samples_file(folder, task, questions, raw):
    """Samples as lmms-eval writes them: an answer once, or beside it what a filter made of it."""
    lines = []
    for number, (question, text) in enumerate(zip(questions, raw, strict=True)):
        line = {"doc_id": number, "target": question.answers[0], "filtered_resps": text, "doc_hash": "0",
                "input": f"{question.text}\nAnswer."}  # fmt: skip
        lines.append(line | ({"resps": [text], "filtered_resps": text[:1]} if number % 2 else {}))
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"20260101_120000_samples_{task}.jsonl"
    file.write_text("\n".join(map(json.dumps, reversed(lines))) + "\n")
    return file


def test_samples_of_lmms_eval_are_scored_by_our_rules(tmp_path):
    MAKERS["pope"](tmp_path, 12, random.Random(0))
    questions = read_questions(BENCHMARKS["pope"], tmp_path)
    file = samples_file(tmp_path / "model", "pope", questions, [f"{q.answers[0].title()}." for q in questions])
    rows = lmms_eval.read_answers(tmp_path, "pope", questions)
    assert [row["question_id"] for row in rows] == [q.id for q in questions]
    assert all(row["correct"] and row["raw_answer"].endswith(".") for row in rows)

    lines = file.read_text().splitlines()
    for change, message in (
        (lines[:-1], "11 samples for 12 questions"),
        ([*lines[:-1], lines[0]], "sample 11 occurs more than once"),
        ([lines[0][:-9], *lines[1:]], r"samples_pope.jsonl:1: not valid JSON"),
        ([lines[0].replace('["', '["x", "'), *lines[1:]], "sample 11 has no single answer"),
    ):
        file.write_text("\n".join(change))
        with pytest.raises(UserError, match=message):
            lmms_eval.read_answers(tmp_path, "pope", questions)
    file.write_text("\n".join(lines))
    with pytest.raises(UserError, match="is not of question"):
        lmms_eval.read_answers(tmp_path, "pope", questions[::-1])
    file.unlink()
    with pytest.raises(UserError, match="0 files of samples of pope, expected one"):
        lmms_eval.read_answers(tmp_path, "pope", questions)


def mcq(*splits, **more):
    return [{"split": split, "Overall": value, "attribute_reasoning": 0.1} | more for split, value in splits]


# What VLMEvalKit writes of a data set: the ending, its rows, and how many answers there are.
VLMEVALKIT = {
    "POPE": ("score.csv", [{"split": "Overall", "Overall": 80.0, "acc": 82.0, "precision": 90.0, "recall": 72.0},
                           {"split": "random", "Overall": 85.0, "acc": 86.0, "precision": 95.0, "recall": 77.0}], 9000),
    "HallusionBench": ("score.csv", [{"split": "Overall", "aAcc": 50.0, "fAcc": 20.0, "qAcc": 11.0},
                                     {"split": "VD", "aAcc": 51.0, "fAcc": 21.0, "qAcc": 12.0}], 951),
    "AMBER": ("score.csv", [{"Attribute": 80.0, "Existence": 90.0, "Relation": 70.0, "Avg ACC": 80.0}], 14216),
    "MME": ("score.csv", [{"perception": 1400.0, "reasoning": 280.0, "OCR": 100.0}], 2374),
    "MMBench_DEV_EN": ("acc.csv", mcq(("dev", 0.7)), 4329),
    "MMBench_DEV_CN": ("acc.json", mcq(("dev", 0.6)), 4329),
    "ScienceQA_TEST": ("acc.csv", mcq(("test", 0.7)), 2017),
    "MMStar": ("acc.csv", mcq(("none", 0.4)), 1500),
    "OCRBench": ("score.json", {"Text Recognition": 200, "Final Score": 550, "Final Score Norm": 55.0}, 1000),
    "RealWorldQA": ("acc.csv", mcq(("none", 0.6)), 765),
    "MMVP": ("acc.csv", [{"Average": 0.7, "Overall": 0.5}], 300),
    "CV-Bench-2D": ("acc.csv", [{"split": "2D", "COCO": 0.6, "ADE20K": 0.7, "Overall": 0.65}], 1438),
    "CV-Bench-3D": ("acc.csv", mcq(("3D", 0.55)), 1200),
    "AI2D_TEST": ("acc.xlsx", mcq(("none", 0.66)), 3088),
    "SEEDBench_IMG": ("acc.csv", mcq(("none", 0.71)), 14232),
    "MMMU_DEV_VAL": ("acc.csv", mcq(("dev", 0.5), ("validation", 0.36)), 1050),
}  # fmt: skip


def write(file, rows):
    file.parent.mkdir(parents=True, exist_ok=True)
    if file.suffix == ".json":
        file.write_text(json.dumps(rows))
    elif file.suffix == ".xlsx":
        pd.DataFrame(rows).to_excel(file, index=False)
    else:
        pd.DataFrame(rows).to_csv(file, index=False, sep="\t" if file.suffix == ".tsv" else ",")


def vlmevalkit_folder(folder, data_sets=VLMEVALKIT, answers=".tsv"):
    for data_set in data_sets:
        ending, rows, number = VLMEVALKIT[data_set]
        run = folder / "T20260101_G12345678"
        write(run / f"model_{data_set}_{ending}", rows)
        write(run / f"model_{data_set}{answers}", {"index": range(number), "prediction": ["A"] * number})
    return folder


def test_vlmevalkit_gives_all_sixteen(tmp_path):
    folder = vlmevalkit_folder(tmp_path / "model")
    (folder / "T20260101_G12345678/model_MMStar_exact_matching_result.pkl").write_bytes(b"")
    link = folder / "model_MME_score.csv"
    link.symlink_to(folder / "T20260101_G12345678/model_MME_score.csv")  # VLMEvalKit links the newest run
    rows = table_of(vlmevalkit.read_scores(folder, list(BENCHMARKS)), tmp_path)
    scores = {"pope": 80, "hallusionbench": 11, "amber": 80, "mme": 60, "mmbench_en": 70, "mmbench_cn": 60,
              "scienceqa": 70, "mmstar": 40, "ocrbench": 55, "realworldqa": 60, "mmvp": 70, "cvbench_2d": 65,
              "cvbench_3d": 55, "ai2d": 66, "seedbench_image": 71, "mmmu": 38}  # fmt: skip
    published = rows.xs("published", level="variant")
    assert published.score.to_dict() == pytest.approx(scores)
    overall = rows.xs("overall", level="variant")
    assert overall.score["hallusionbench"] == pytest.approx(27) and overall.score["mmvp"] == pytest.approx(50)
    assert overall.score["mmmu"] == pytest.approx(36)
    assert set(published.index[~published.comparable]) == {"mmbench_en", "mmbench_cn", "scienceqa"}
    assert set(overall.index[~overall.comparable]) == {"amber"}  # it has no F1
    assert published.harness["mmstar"] == "VLMEvalKit, exact matching" and published.harness["mme"] == "VLMEvalKit"


@pytest.mark.parametrize("answers", [".csv", ".tsv", ".json", ".xlsx"])
def test_failed_requests_in_vlmevalkit_s_answers_stop(answers, tmp_path):
    folder = vlmevalkit_folder(tmp_path, ["MMVP"])
    (folder / "T20260101_G12345678/model_MMVP.tsv").unlink()
    lines = [{"index": 0, "prediction": "A"}, {"index": 1, "prediction": "Failed to obtain answer via API."}]
    write(folder / f"T20260101_G12345678/model_MMVP{answers}", lines)
    with pytest.raises(UserError, match=r"model_MMVP.*: 1 of 2 requests of MMVP failed"):
        vlmevalkit.read_scores(folder, ["mmvp"])


def test_a_part_of_a_data_set_or_unseen_answers_are_not_comparable(tmp_path):
    folder = vlmevalkit_folder(tmp_path, ["AI2D_TEST"])
    answers = folder / "T20260101_G12345678/model_AI2D_TEST.tsv"
    write(answers, [{"index": 0, "prediction": "A"}])
    row = vlmevalkit.read_scores(folder, ["ai2d"])[0]
    assert row["num_items"] == 1 and row["comparable"] is False
    answers.unlink()
    row = vlmevalkit.read_scores(folder, ["ai2d"])[0]
    assert row["num_items"] is None and row["comparable"] is False


def test_faults_of_vlmevalkit_name_file_and_data_set(tmp_path):
    with pytest.raises(UserError, match=r"0 tables \*_POPE_score of data set POPE, expected one"):
        vlmevalkit.read_scores(tmp_path, ["pope"])
    folder = vlmevalkit_folder(tmp_path, ["POPE", "AI2D_TEST", "MMVP"])
    run = folder / "T20260101_G12345678"
    write(run / "model_POPE_score.csv", [{"split": "random", "Overall": 1.0}, {"split": "popular", "Overall": 1.0}])
    with pytest.raises(UserError, match=r"model_POPE_score.csv: data set POPE: no figure 'Overall: Overall'"):
        vlmevalkit.read_scores(folder, ["pope"])
    write(run / "model_POPE_score.csv", [{"Overall": 1.0}, {"Overall": 2.0}])
    with pytest.raises(UserError, match=r"model_POPE_score.csv: 2 rows without a column 'split'"):
        vlmevalkit.read_scores(folder, ["pope"])
    write(run / "model_MMVP_acc.csv", [{"Average": 70.0, "Overall": 50.0}])  # percent, where shares are due
    with pytest.raises(UserError, match=r"data set MMVP: Average makes 70, expected 0 to 1"):
        vlmevalkit.read_scores(folder, ["mmvp"])
    (run / "model_AI2D_TEST_acc.xlsx").write_bytes(b"PK no workbook")
    with pytest.raises(UserError, match=r"model_AI2D_TEST_acc.xlsx: not a table"):
        vlmevalkit.read_scores(folder, ["ai2d"])
    write(folder / "T20260202_G1/model_MMVP_acc.csv", [{"Average": 0.7, "Overall": 0.5}])
    with pytest.raises(UserError, match=r"2 tables .* of data set MMVP, expected one\n  .*T20260101"):
        vlmevalkit.read_scores(folder, ["mmvp"])
    write(run / "model_POPE.tsv", [{"index": 0}])
    write(run / "model_POPE_score.csv", VLMEVALKIT["POPE"][1])
    with pytest.raises(UserError, match=r"model_POPE.tsv: no column 'prediction'"):
        vlmevalkit.read_scores(folder, ["pope"])
