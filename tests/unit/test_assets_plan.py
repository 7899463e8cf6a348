"""What of a config becomes a download, a lock and a list of licences."""

import copy
import json

import pandas as pd
import pytest

from workflow_scripts.assets import licences
from workflow_scripts.assets.contents import choose
from workflow_scripts.assets.lockfile import Locked, read_lock
from workflow_scripts.config import check_config, load_config, read_yaml
from workflow_scripts.errors import UserError
from workflow_scripts.plan import absent_paths, assets_of, caption_job, fetch_job, licences_job, lock_job, report_job

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture(scope="module")
def raw(root):
    return read_yaml(root / "config.yaml")


def edited(raw, edit):
    config = copy.deepcopy(raw)
    edit(config)
    return check_config(config)


def test_a_lock_pins_only_the_revision_that_it_was_made_for(raw):
    config, hub = check_config(raw), "Qwen/Qwen3-VL-8B-Instruct"
    asset = "Qwen--Qwen3-VL-8B-Instruct"
    assert fetch_job(config, asset, {}).commit is None
    lock = {hub: Locked(kind="model", revision="main", commit=COMMIT, files={})}
    assert fetch_job(config, asset, lock).commit == COMMIT
    other = edited(raw, lambda c: c["captioners"]["qwen3-vl-8b"]["model"].update(revision="v2"))
    assert fetch_job(other, asset, lock).commit is None and fetch_job(other, asset, lock).revision == "v2"


def test_what_is_not_there_is_listed_by_its_key(raw, tmp_path):
    there = edited(raw, lambda c: c["generation"]["benchmarks"]["geneval"].update(path=str(tmp_path)))
    keys = [key for key, _ in absent_paths(there)]
    assert "generation.benchmarks.dpg_bench" in keys and "pool.sources.coco" in keys
    assert "generation.benchmarks.geneval" not in keys
    assert not any("captioners" in key for key in keys)  # repositories are fetched


def test_every_repository_is_locked_once(raw):
    repositories = lock_job(check_config(raw)).repositories
    assert len(repositories) == len(set(repositories)) == 41
    assert ("nyu-visionx/CV-Bench", "dataset", "main") in repositories


def test_models_and_data_sets_are_told_apart(raw):
    config = check_config(raw)
    for asset, uses in assets_of(config).items():
        data = any(("benchmarks" in key and ".models." not in key) or key.endswith(".data") for key in uses)
        assert fetch_job(config, asset, {}).kind == ("dataset" if data else "model"), asset


def test_two_uses_of_a_repository_fetch_what_either_needs(raw):
    def edit(config):
        benchmarks = config["understanding"]["benchmarks"]
        benchmarks["cvbench_2d"]["files"] = ["2D/*"]
        benchmarks["cvbench_3d"]["files"] = ["3D/*"]

    config = edited(raw, edit)
    assert fetch_job(config, "nyu-visionx--CV-Bench", {}).files == ["2D/*", "3D/*"]
    assert list(assets_of(config)["nyu-visionx--CV-Bench"]) == [
        "understanding.benchmarks.cvbench_2d",
        "understanding.benchmarks.cvbench_3d",
    ]
    config = edited(raw, lambda c: c["understanding"]["benchmarks"]["cvbench_2d"].update(files=["2D/*"]))
    assert fetch_job(config, "nyu-visionx--CV-Bench", {}).files == ["*", "2D/*"]


def test_two_uses_must_agree(raw):
    with pytest.raises(
        UserError, match=r"cvbench_3d: revision 'v2', but understanding.benchmarks.cvbench_2d has 'main'"
    ):
        edited(raw, lambda c: c["understanding"]["benchmarks"]["cvbench_3d"].update(revision="v2"))


def test_remote_code_fetches_exactly_the_commit_opted_in_to(raw):
    config = edited(raw, lambda c: c["captioners"]["llava-ov-1.5-8b"].update(remote_code=COMMIT))
    job = fetch_job(config, "lmms-lab--LLaVA-OneVision-1.5-8B-Instruct", {})
    assert job.revision == job.remote_code == COMMIT
    assert fetch_job(config, "lmms-lab--LLaVA-OneVision-1.5-4B-Instruct", {}).remote_code is None

    def disagree(config):
        config["captioners"]["llava-ov-1.5-8b"].update(remote_code=COMMIT)
        config["captioners"]["llava-ov-1.5-8b"]["model"]["revision"] = "v1"

    with pytest.raises(UserError, match=f"model.revision is 'v1', remote_code opts in to the commit {COMMIT}"):
        edited(raw, disagree)


def test_how_files_come_is_no_business_of_the_jobs_that_read_them(raw):
    config = edited(raw, lambda c: c["captioners"]["qwen3-vl-8b"]["model"].update(files=["*.safetensors", "*.json"]))
    assert caption_job(config, "qwen3-vl-8b") == caption_job(check_config(raw), "qwen3-vl-8b")


def test_a_folder_takes_the_place_of_a_download(raw):
    config = edited(raw, lambda c: c["captioners"]["qwen3-vl-8b"].update(model={"path": "models/qwen"}))
    assert "Qwen--Qwen3-VL-8B-Instruct" not in assets_of(config)
    assert str(caption_job(config, "qwen3-vl-8b").engine.model.path) == "models/qwen"


def test_licences_of_what_the_sweep_does_not_make_itself(root, raw, tmp_path, monkeypatch):
    monkeypatch.chdir(root)
    blocks = load_config("resources/sweeps/blocks.yaml")
    assert {row["asset"] for row in licences_job(blocks, {}).rows} == {
        f"resources/blocks/{name}"
        for name in ("captioner-early", "captioner-late", "clip-llama", "siglip-qwen3", "sd3", "qwen-image")
    }
    assert set(report_job(blocks).licences.values()) == {"apache-2.0"}

    lock = {"Qwen/Qwen3-4B": Locked(kind="model", revision="main", commit=COMMIT, files={})}
    job = licences_job(check_config(raw), lock)
    licences.main(["--spec", json.dumps(job.model_dump()), "--out", str(tmp_path / "licences.csv")])
    table = pd.read_csv(tmp_path / "licences.csv").set_index("asset")
    assert table.loc["Qwen/Qwen3-4B"].to_dict() == {
        "kind": "model",
        "used_by": "understanding.pipelines.siglip-qwen3.model.language",
        "revision": COMMIT,
        "licence": "apache-2.0",
    }
    assert table.loc["data/coco/train2017", "kind"] == "folder" and len(table) == 41 + 7


def test_a_broken_lock_is_named(tmp_path):
    path = tmp_path / "assets.lock.yaml"
    path.write_text("owner/name: {kind: model, revision: main, commit: main, files: {}}\n")
    with pytest.raises(UserError, match="not a lock of assets, make it anew with"):
        read_lock(path)


PICKLED = ["config.json", "pytorch_model.bin.index.json", "pytorch_model-00001-of-00002.bin", "training_args.bin"]


def test_a_pickle_comes_only_by_its_whole_name():
    shard = PICKLED[2]
    assert choose(PICKLED, "model", ["*.json", shard]).pickled == [shard]
    assert choose(PICKLED, "model", ["*.json", shard]).wanted == ["config.json", shard]
    with pytest.raises(UserError, match=shard):
        choose(PICKLED, "model", ["*"])
    assert choose(PICKLED, "model", ["*.json"]).wanted == ["config.json"]
    assert choose([*PICKLED, "run.py"], "model", [shard, "run.py"]).left_out == ["run.py"]
    with pytest.raises(UserError, match="no file to fetch"):
        choose(["a.pkl"], "dataset", ["a.pkl"])
