"""A checkout to plan in, and one where a small sweep is done."""

import shutil
from pathlib import Path

import dryrun
import pytest
import yaml

PARTS = ("Snakefile", "config.yaml", "rules", "workflow_scripts", "envs", "profiles", "slurm", "resources")
SMALL = ("small/report.html", "--configfile", "small.yaml")


@pytest.fixture(scope="session")
def checkout(root, tmp_path_factory) -> Path:
    """A copy of what the DAG is made of: nothing of it is downloaded or made yet."""
    folder = tmp_path_factory.mktemp("checkout")
    for part in PARTS:
        source = root / part
        if source.is_symlink() or source.is_file():
            shutil.copy(source, folder / part, follow_symlinks=False)
        else:
            shutil.copytree(source, folder / part, ignore=shutil.ignore_patterns("__pycache__", "blocks.safetensors"))
    return folder


@pytest.fixture
def small(root) -> dict:
    """The paper's config with two captioners and a small pool."""
    config = yaml.safe_load((root / "config.yaml").read_text())
    config.update(results="small", assets="small-assets")
    config["captioners"] = {name: config["captioners"][name] for name in ("qwen3-vl-4b", "glm-4.6v-flash")}
    config["pool"]["size"] = 40_000
    config["captioning"]["shards_per_job"] = 2
    for pipeline in config["generation"]["pipelines"].values():
        pipeline["num_images"] = 100
    config["analysis"]["sensitivity"] = {}
    return config


@pytest.fixture
def done(checkout, small) -> Path:
    """The checkout with every output of the small sweep in place, recorded as made by the config that stands."""
    (checkout / "small.yaml").write_text(yaml.safe_dump(small))
    if not (checkout / "small").exists():
        for path in dryrun.outputs(checkout, *SMALL):
            (checkout / path).parent.mkdir(parents=True, exist_ok=True)
            (checkout / path).write_text('{"lines": []}' if path.endswith("summary.json") else "made")
        dryrun.snakemake(checkout, *SMALL, "--touch", "--forceall", "--cores", "1")
    return checkout
