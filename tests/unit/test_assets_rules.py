"""The rules against a test double of the hub: Snakemake locks, fetches, and fetches no more."""

import json
import os
import subprocess
import sys

import pytest
from hub_double import HubDouble, Repo

from workflow_scripts.assets.lockfile import read_lock
from workflow_scripts.config import load_config
from workflow_scripts.plan import assets_of, fetch_job

ASSET = "assets/liuhaotian--LLaVA-Instruct-150K.json"  # its licence has an apostrophe


@pytest.fixture
def double(root):
    """A hub with a small repository for each of the paper's sweep."""
    server = HubDouble()
    config = load_config(root / "config.yaml")
    for asset in assets_of(config):
        job = fetch_job(config, asset, {})
        server.repos[job.hub] = repo = Repo(kind=job.kind)
        repo.push({pattern.replace("*", "x"): asset.encode() for pattern in job.files or ["config.json"]})
    yield server
    server.close()


def snakemake(folder, url, *arguments):
    command = [sys.executable, "-m", "snakemake", "--cores", "1", "--show-failed-logs", *arguments]
    done = subprocess.run(
        command, cwd=folder, env=os.environ | {"HF_ENDPOINT": url}, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.slow
def test_lock_then_fetch_then_nothing(root, tmp_path, double):
    for part in ("Snakefile", "config.yaml", "rules", "workflow_scripts", "envs", "resources"):
        (tmp_path / part).symlink_to(root / part)
    code, text = snakemake(tmp_path, double.url, "-f", "assets.lock.yaml", ASSET)
    assert code == 0, text
    lock = read_lock(tmp_path / "assets.lock.yaml")
    assert lock.keys() == double.repos.keys()

    # The lock stands now, so that the fetching is planned with it.
    code, text = snakemake(tmp_path, double.url, ASSET)
    manifest = json.loads((tmp_path / ASSET).read_text())
    assert code == 0 and manifest["revision"] == lock["liuhaotian/LLaVA-Instruct-150K"].commit, text
    assert manifest["licence"] == "cc-by-4.0 with its images' licences"
    code, text = snakemake(tmp_path, double.url, ASSET)
    assert code == 0 and "Nothing to be done" in text

    double.repos["Qwen/Qwen3-4B"].refusal = (403, "GatedRepo")
    before = (tmp_path / "assets.lock.yaml").read_text()
    code, text = snakemake(tmp_path, double.url, "-f", "assets.lock.yaml")
    assert code != 0 and "Qwen/Qwen3-4B is gated" in text
    assert (tmp_path / "assets.lock.yaml").read_text() == before
