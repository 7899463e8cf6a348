"""A trained model's manifest and evaluation commands, for tests of real benchmarks' questions."""

import json
from pathlib import Path
from typing import Any

from vlm_helpers import model_spec

from workflow_scripts.model_folders import write_manifest
from workflow_scripts.spec import VlmModel
from workflow_scripts.vlm import evaluate
from workflow_scripts.vlm.model import load, save


def save_trained(base: Path, folder: Path, **settings: Any) -> Path:
    """The manifest of a model that training would leave from this base, if it learnt nothing."""
    model, processor = load(base, VlmModel.model_validate({**model_spec(base), **settings}))
    save(model, dict(model.named_parameters()), processor, folder / "model")
    write_manifest(folder / "model.json", folder / "model", "made")
    return folder / "model.json"


def evaluate_spec(base: Path, benchmarks: dict[str, Any], engine: str = "transformers", **changes: Any) -> dict:
    """A spec with each benchmark's folder, or its whole section."""
    sections = {name: one if isinstance(one, dict) else {"path": str(one)} for name, one in benchmarks.items()}
    model = {**model_spec(base), "pad_to_square": True}
    job = {"model": model, "benchmarks": sections, "engine": {"engine": engine, "max_model_len": 128}}
    return {**job, "max_new_tokens": 8, **changes}


def run_evaluate(manifest: Path, spec: dict[str, Any], out: Path, *more: str) -> None:
    """The command, into `out`/answers.parquet and `out`/scores.csv."""
    files = ["--model", str(manifest), "--answers", str(out / "answers.parquet"), "--out", str(out / "scores.csv")]
    evaluate.main(["--spec", json.dumps(spec), *files, *more])
