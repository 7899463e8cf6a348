"""The DAG of the paper's sweep: how many jobs, and what reruns after which edit."""

import os
import sys

import pytest
import yaml
from conftest import SMALL
from dryrun import FINAL, SELECTION, job_counts, pending, snakemake

PAPER = {
    "fetch_asset": 41,
    "build_pool": 1,
    "caption_shards": 10 * 10,
    "collect_captions": 10,
    "caption_statistics": 10,
    "select_images": 1,
    "settle_selection": 4,
    "caption_capeval": 10,
    "judge_captions": 10,
    "score_captions": 10,
    "assemble_vlm": 2,
    "index_conversations": 2,
    "align_vlm": 2,
    "train_vlm": 2 * 10,
    "evaluate_vlm": 2 * 10,
    "encode_latents": 2,
    "finetune_t2i": 2 * 10,
    "generate_images": 2 * 10 * 3,
    "score_images": 2 * 10 * 3,
    "collect_captioner": 10,
    "compare_selections": 1,
    "collect_sweep": 1,
    "regress": 1,
}


def test_paper_sweep_on_a_fresh_clone(checkout):
    assert job_counts(checkout, "results/regression.csv") == PAPER


def test_the_report_needs_the_baselines_and_a_check_of_the_judge(checkout):
    """Three baselines are judged and scored, one of them twice; the judge answers canaries; none is trained on."""
    more = {
        "caption_baselines": 1,
        "judge_captions": 10 + 3,
        "score_captions": 10 + 3,
        "judge_captions_again": 1,
    }
    more |= {"judge_canaries": 1, "collect_baselines": 1, "measure_reliability": 1, "diagnose_captions": 1}
    assert job_counts(checkout, "results/report.html") == PAPER | more | {
        "plot": 1,
        "plot_captions": 1,
        "write_report": 1,
    }


def test_a_second_judge_reads_the_captioners(checkout, small):
    small["capeval"]["second_judge"] = {"engine": "server", "server": {"url": "http://localhost:8000/v1", "model": "m"}}
    (checkout / "second.yaml").write_text(yaml.safe_dump(small | {"results": "second"}))
    counts = job_counts(checkout, "second/reliability.csv", "--configfile", "second.yaml")
    assert counts["judge_captions_again"] == 2 + 1 and "train_vlm" not in counts


def test_the_literal_slurm_command(checkout):
    assert job_counts(checkout, "--profile", "slurm", "results/regression.csv") == PAPER


def test_training_over_several_nodes_is_one_launcher_a_node(checkout, small):
    """srun starts the launchers, as Slurm's executor asks for an MPI job; on one node all is as it was."""
    needs = {"gpus": 8, "nodes": 2, "mem_gb": 512, "hours": 72, "threads": 64}
    small["understanding"]["pipelines"]["clip-vicuna"]["sft"] |= {"devices": 16, "needs": needs}
    (checkout / "nodes.yaml").write_text(yaml.safe_dump(small | {"results": "nodes"}))
    targets = [f"nodes/understanding/{name}/seed-0/qwen3-vl-4b/model.json" for name in ("clip-vicuna", "siglip-qwen3")]
    text = snakemake(checkout, *targets, "--configfile", "nodes.yaml", "--dry-run", "--printshellcmds", "--cores", "64")
    starts = {
        "siglip" if "siglip-qwen3" in line else "clip": line.removeprefix("Shell command: ").partition(" -m workflow")[
            0
        ]
        for line in text.splitlines()
        if " -m workflow_scripts.vlm.train " in line
    }
    python = sys.executable
    assert starts["siglip"] == f"{python} -m torch.distributed.run --standalone --nproc-per-node=8"
    assert starts["clip"] == (
        "srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --cpus-per-task=64 --gres=gpu:8 --kill-on-bad-exit=1 "
        f"{python} -m torch.distributed.run --nnodes=2 --nproc-per-node=8 --rdzv-backend=c10d --rdzv-id=$SLURM_JOB_ID "
        "--rdzv-endpoint=$(hostname):$((20000 + SLURM_JOB_ID % 10000))"
    )


def test_training_over_several_nodes_needs_slurm(checkout, small, monkeypatch):
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    needs = {"gpus": 8, "nodes": 2, "mem_gb": 512, "hours": 72, "threads": 64}
    small["understanding"]["pipelines"]["clip-vicuna"]["sft"] |= {"devices": 16, "needs": needs}
    (checkout / "alone.yaml").write_text(yaml.safe_dump(small | {"results": "alone"}))
    text = snakemake(checkout, "alone/report.html", "--configfile", "alone.yaml", "--cores", "1", check=False)
    assert "understanding.pipelines.clip-vicuna.sft.needs.nodes: more than one node needs Slurm, this run has" in text
    assert "executor 'local': `snakemake --profile slurm`" in text and not (checkout / "alone").exists()


@pytest.mark.parametrize("train_on", ["intersection", "own"])
def test_one_captioners_scores_plan_that_captioner_alone(checkout, train_on):
    """But for the others' captions, where all are trained on the same images."""
    config = yaml.safe_load((checkout / "config.yaml").read_text())
    config["captioning"]["train_on"] = train_on
    (checkout / "one.yaml").write_text(yaml.safe_dump(config))
    targets = ("results/scores/qwen3-vl-8b.csv", "results/capeval/qwen3-vl-8b/scores.csv")
    counts = job_counts(checkout, *targets, "--configfile", "one.yaml")
    per_captioner = {rule: n // 10 for rule, n in PAPER.items() if n % 10 == 0}
    if train_on == "intersection":
        per_captioner |= {rule: PAPER[rule] for rule in ("caption_shards", "collect_captions", "caption_statistics")}
    assert {rule: n for rule, n in counts.items() if rule in per_captioner} == per_captioner
    assert counts["select_images"] == 1
    assert counts["align_vlm"] == counts["encode_latents"] == counts["index_conversations"] == 2
    assert counts["build_pool"] == 1
    assert not FINAL & counts.keys()


def test_stage_1_and_latents_run_once_a_pipeline_and_seed(checkout, small):
    small["seeds"] = [0, 1]
    (checkout / "seeds.yaml").write_text(yaml.safe_dump(small | {"results": "seeds"}))
    counts = job_counts(checkout, "seeds/regression.csv", "--configfile", "seeds.yaml")
    assert counts["align_vlm"] == 2 * 2 and counts["encode_latents"] == counts["index_conversations"] == 2
    assert counts["train_vlm"] == 2 * 2 * 2 and counts["collect_captions"] == 2


def test_nothing_to_do_when_done(done):
    assert job_counts(done, *SMALL) == {}


@pytest.mark.parametrize(
    ("updated", "failed", "behind"),
    [
        ("capeval/qwen3-vl-4b/captions.parquet", "capeval/qwen3-vl-4b/verdicts.parquet", "score_captions"),
        (
            "understanding/siglip-qwen3/seed-0/qwen3-vl-4b/model.json",
            "understanding/siglip-qwen3/seed-0/qwen3-vl-4b/scores.csv",
            "collect_captioner",
        ),
    ],
)
def test_a_failed_job_runs_again_though_what_lies_behind_it_stands(done, updated, failed, behind):
    """Its output is gone, its input is new, and Snakemake has noted the input's checksum when the job began."""
    updated, failed = done / "small" / updated, done / "small" / failed
    before = {path: path.stat().st_mtime for path in (updated, failed)}
    failed.unlink()
    updated.touch()
    try:
        again = pending(done, *SMALL)
        planned = {path for paths in again.values() for path in paths}
        assert str(failed.relative_to(done)) in planned
        assert again.keys() >= {behind, "collect_sweep", "regress", "write_report"}
    finally:
        failed.write_text("made")
        for path, time in before.items():
            os.utime(path, (time, time))


def edited(done, small, edit):
    edit(small)
    (done / "small.yaml").write_text(yaml.safe_dump(small))
    return pending(done, *SMALL)


def test_a_prompt_reruns_its_captioners_chain_and_the_final_tables(done, small):
    again = edited(done, small, lambda c: c["captioners"]["qwen3-vl-4b"].update(prompt="Describe."))
    assert again.keys() >= FINAL
    chain = {path for rule, paths in again.items() if rule not in FINAL | SELECTION for path in paths}
    assert all("qwen3-vl-4b" in path for path in chain), chain
    assert {
        *SELECTION,
        "caption_shards",
        "collect_captions",
        "caption_statistics",
        "caption_capeval",
        "judge_captions",
        "score_captions",
        "train_vlm",
        "evaluate_vlm",
        "finetune_t2i",
        "generate_images",
        "score_images",
        "collect_captioner",
    } == again.keys() - FINAL


def test_leaving_faulty_conversations_out_indexes_that_data_set_and_trains_on_it(done, small):
    def edit(config):
        for pipeline in config["understanding"]["pipelines"].values():
            pipeline["sft"]["faulty_samples"] = "leave_out"

    again = edited(done, small, edit)
    assert again["index_conversations"] == ["small/conversations/liuhaotian--LLaVA-Instruct-150K/index.parquet"]
    assert again.keys() - FINAL == {"index_conversations", "train_vlm", "evaluate_vlm", "collect_captioner"}


def test_order_of_keys_labels_and_needs_rerun_no_stage(done, small):
    def edit(config):
        config["captioners"] = dict(reversed(config["captioners"].items()))
        config["captioners"]["qwen3-vl-4b"]["label"] = "Another label"
        config["captioners"]["qwen3-vl-4b"]["needs"]["hours"] = 99

    assert edited(done, small, edit).keys() <= FINAL


def test_a_comment_in_a_gpu_stage_reruns_nothing(done):
    for module in ("vlm/train.py", "captions/caption.py", "t2i/finetune.py", "capeval/judge.py"):
        with (done / "workflow_scripts" / module).open("a") as file:
            file.write("# an edited comment\n")
    assert pending(done, *SMALL) == {}


@pytest.mark.parametrize(
    ("file", "again"),
    [
        (
            "collect/sweep.py",
            FINAL - {"plot_captions", "measure_reliability", "diagnose_captions", "compare_selections"},
        ),
        ("captions/figures.py", {"plot_captions", "write_report"}),
        ("report/templates/sections/captions.html.j2", {"write_report"}),
        ("report/templates/style.css", {"write_report"}),
    ],
)
def test_code_of_a_cheap_stage_reruns_it(done, file, again):
    path = done / "workflow_scripts" / file
    before, times = path.read_text(), path.stat()
    path.write_text(before + "\n")
    try:
        assert pending(done, *SMALL).keys() == again
    finally:
        path.write_text(before)
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def test_pictures_made_at_once_are_no_other_pictures(done, small):
    def edit(config):
        for pipeline in config["generation"]["pipelines"].values():
            pipeline["generate"]["batch"] = 1

    assert edited(done, small, edit) == {}


def test_a_new_captioner_reruns_no_other(done, small):
    def edit(config):
        config["captioners"]["newcomer"] = config["captioners"]["qwen3-vl-4b"] | {
            "label": "New",
            "family": "New",
        }

    again = edited(done, small, edit)
    chain = {path for rule, paths in again.items() if rule not in FINAL | SELECTION for path in paths}
    assert chain and all("newcomer" in path for path in chain)
    assert any("train_vlm" in rule for rule in again) and again.keys() >= SELECTION


@pytest.mark.parametrize("rule", ["select_images", "settle_selection"])
def test_a_failed_selection_is_made_again_and_trains_no_other_captioner(done, small, rule):
    """Its outputs are gone, but for the settled copies: Snakemake trains all whose `ancient` input is missing."""
    folder = done / "small/selection/intersection"
    kept = {path: path.stat() for path in folder.rglob("*.*") if path.is_file()}
    if rule == "select_images":
        for path in kept:
            if path.parent == folder:
                path.unlink()
    try:
        again = edited(done, small, lambda c: c["captioners"]["qwen3-vl-4b"].update(prompt="Describe."))
        assert again.keys() >= SELECTION
        assert all("qwen3-vl-4b" in path for path in again["train_vlm"] + again["finetune_t2i"])
    finally:
        for path, stat in kept.items():
            path.write_text("made")
            os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


def test_captions_of_its_own_or_of_all_is_an_input_of_training(done, small):
    again = edited(done, small, lambda c: c["captioning"].update(train_on="own"))
    assert len(again["train_vlm"]) == len(again["finetune_t2i"]) == 2 * 2 * 3, "three outputs each"
    assert "caption_shards" not in again and "align_vlm" not in again


def lock(checkout, commit: str) -> None:
    entry = {"kind": "model", "revision": "main", "commit": commit * 40, "files": {}}
    (checkout / "assets.lock.yaml").write_text(yaml.safe_dump({"Qwen/Qwen3-4B": entry}))


def test_a_new_lock_fetches_what_it_changes_alone(done):
    try:
        lock(done, "a")
        again = pending(done, *SMALL)
        assert again["fetch_asset"] == ["small-assets/Qwen--Qwen3-4B.json"] and "caption_shards" not in again
        assert all("siglip-qwen3" in path for path in again["align_vlm"])
    finally:
        (done / "assets.lock.yaml").unlink()


def test_licences_of_an_asset_fetch_nothing(done, small):
    again = edited(done, small, lambda c: c["captioners"]["qwen3-vl-4b"]["model"].update(licence="another"))
    assert again.keys() <= FINAL


def test_lock_and_licences_are_made_when_asked_for(checkout):
    counts = job_counts(checkout, "assets.lock.yaml", "results/licences.csv", "fetch_assets")
    assert counts == {"lock_assets": 1, "list_licences": 1, "fetch_assets": 1, "fetch_asset": 41}


def test_a_benchmark_reruns_no_training(done, small):
    again = edited(
        done,
        small,
        lambda c: c["understanding"]["benchmarks"].pop("pope") and c["analysis"].update(composites={}),
    )
    assert again.keys() - FINAL == {"evaluate_vlm", "collect_captioner"}


def test_a_scorers_model_is_fetched_and_reruns_the_scoring_alone(done, small):
    def edit(config):
        config["generation"]["benchmarks"]["geneval"]["models"]["colors"]["hub"] = "openai/another-clip"

    again = edited(done, small, edit)
    assert again.keys() - FINAL == {"fetch_asset", "score_images", "collect_captioner"}
    assert again["fetch_asset"] == ["small-assets/openai--another-clip.json"]
    assert all("geneval" in path for path in again["score_images"])


def test_configfile_replaces_the_default(checkout):
    counts = job_counts(checkout, "--configfile", "resources/sweeps/published.yaml")
    assert counts.keys() == {"all", "read_published", "regress", "plot", "write_report"}


def test_faults_stop_before_any_job(checkout, small):
    small["captioners"]["qwen3-vl-4b"]["engin"] = "vllm"
    (checkout / "wrong.yaml").write_text(yaml.safe_dump(small))
    text = snakemake(checkout, "--configfile", "wrong.yaml", "--dry-run", check=False)
    assert "captioners.qwen3-vl-4b.engin: unknown key, did you mean 'engine'?" in text
    assert "Traceback" not in text


@pytest.mark.parametrize("target", ["results/scores/qwen3-vl-9b.csv", "results/capeval/qwen/scores.csv"])
def test_unknown_captioner_is_no_target(checkout, target):
    assert "MissingRuleException" in snakemake(checkout, target, "--dry-run", check=False)
