"""Profiles hold only what Snakemake reads: it passes over a misspelt key or resource without a word."""

import re

import pytest
import yaml
from snakemake.cli import get_argument_parser

PROFILES = ("default", "slurm", "local", "blocks")
# What Snakemake and the Slurm executor read of a job's resources, and the two of our own rules.
RESOURCES = {
    "mem_mb", "mem_mb_per_cpu", "disk_mb", "runtime", "nodes", "tasks", "tasks_per_node", "tasks_per_gpu", "gpu",
    "gpu_model", "gres", "cpus_per_task", "cpus_per_gpu", "constraint", "qos", "mpi", "slurm_account",
    "slurm_partition", "slurm_cluster", "slurm_extra",
} | {"python"}  # fmt: skip


def faults(profile: dict, rules: set[str]) -> list[str]:
    """Keys that no option of Snakemake has, rules that are not ours, and resources that nobody reads."""
    options = {option.lstrip("-") for action in get_argument_parser()._actions for option in action.option_strings}
    found = [f"unknown key {key}" for key in profile if key not in options]
    found += [f"unknown resource {name}" for name in profile.get("default-resources", {}) if name not in RESOURCES]
    for rule, resources in profile.get("set-resources", {}).items():
        found += [f"unknown rule {rule}"] if rule not in rules else []
        found += [f"unknown resource {name}" for name in resources if name not in RESOURCES]
    found += [f"unknown rule {rule}" for rule in profile.get("set-threads", {}) if rule not in rules]
    return found


@pytest.fixture(scope="module")
def rules(root) -> set[str]:
    text = "".join(path.read_text() for path in (root / "rules").glob("*.smk"))
    return set(re.findall(r"^ *rule (\w+):", text, re.MULTILINE))


@pytest.mark.parametrize("name", PROFILES)
def test_profile_is_read_whole(root, rules, name):
    assert faults(yaml.safe_load((root / f"profiles/{name}/config.yaml").read_text()), rules) == []


def test_a_misspelling_is_found(rules):
    wrong = {"executor": "slurm", "set-resource": {}, "default-resources": {"gpus": 1},
             "set-resources": {"caption_shard": {"slurm_partion": "gpu"}}}  # fmt: skip
    assert faults(wrong, rules) == [
        "unknown key set-resource", "unknown resource gpus", "unknown rule caption_shard",
        "unknown resource slurm_partion",
    ]  # fmt: skip


def test_rules_ask_for_nothing_that_nobody_reads(root):
    """Resources that rules name: the executor's, or text for their own shell command."""
    own = {
        "launch",
        "srun",
        "loader_workers",
        "embedding_disk_gb",
        "batch",
        "shards",
        "start",
        "data",
        "serving",
        "used_by",
        "licence",
    }
    blocks = []
    for path in (root / "rules").glob("*.smk"):
        blocks += re.findall(r"^( +)resources:\n((?:\1    .*\n)+)", path.read_text(), re.MULTILINE)
    names = {name for _, block in blocks for name in re.findall(r"^\s+(\w+)=", block, re.MULTILINE)}
    assert len(blocks) > 10 and names <= RESOURCES | own, names - RESOURCES - own


def test_slurm_is_a_link_so_that_the_plain_name_works(root):
    assert (root / "slurm").is_symlink() and (root / "slurm").resolve() == root / "profiles/slurm"


def test_slurm_profile_retries_with_growing_time(root):
    profile = yaml.safe_load((root / "slurm/config.yaml").read_text())
    assert profile["slurm-status-command"] == "squeue" and profile["slurm-no-requeue"] is True
    assert profile["retries"] >= 2 and "attempt" in profile["default-resources"]["runtime"]
    assert profile["default-resources"]["nodes"] == 1
