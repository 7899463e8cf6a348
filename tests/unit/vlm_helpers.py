"""A tiny random LLaVA, data in LLaVA's shape and specs for the tests of workflow_scripts/vlm."""

import json
import random
from pathlib import Path
from typing import Any

from PIL import Image

from workflow_scripts.blocks.vlm_model import build_model, save_checkpoint
from workflow_scripts.blocks.world import describe, render, sample_scene, say
from workflow_scripts.vlm import index
from workflow_scripts.vlm.conversations import Conversations
from workflow_scripts.vlm.data import Samples

MODEL = {"vision_feature_layer": -1, "image_size": 32, "pad_to_square": False, "chat_template": "blocks"}
STRATEGIES = {"clip-llama": "default", "siglip-qwen3": "full"}
STAGE = {
    "train": ["projector", "language"], "learning_rate": 1e-3, "warmup_steps": 2, "weight_decay": 0.1,
    "betas": [0.9, 0.98], "global_batch": 4, "per_device_batch": 4, "steps": 8, "max_length": 64,
    "precision": "fp32", "zero_stage": 0, "gradient_checkpointing": False, "devices": 1,
}  # fmt: skip


# What a loss curve tells that does not depend on the machine.
SETTLED = ["step", "epoch", "loss", "learning_rate", "grad_norm", "share_truncated"]


def make_base(folder: Path, architecture: str = "clip-llama") -> Path:
    """A base of random weights."""
    save_checkpoint(build_model(architecture, 0), architecture, folder)
    return folder


def make_conversations(folder: Path, count: int) -> Path:
    """Captions of `count` pictures as conversations."""
    (folder / "images").mkdir(parents=True)
    rows, rng = [], random.Random(0)
    for number in range(count):
        scene = sample_scene(rng)
        Image.fromarray(render(scene)).save(folder / "images" / f"{number}.png")
        turns = [
            {"from": "human", "value": "<image>\ndescribe"},
            {"from": "gpt", "value": say(describe(scene))},
        ]
        rows.append({"id": str(number), "image": f"{number}.png", "conversations": turns})
    (folder / "data.json").write_text(json.dumps(rows))
    return folder


def index_of(data: Path) -> Path:
    """The index of the conversations in a folder, made where there is none yet."""
    out = data.with_name(f"{data.name}-index") / "index.parquet"
    if not out.exists():
        index.main(["--spec", json.dumps({"data": {"path": str(data)}}), "--out", str(out)])
    return out


def indexed(spec: dict[str, Any]) -> list[str]:
    """The words of a training command about the conversations of its spec."""
    return ["--conversations", str(index_of(Path(spec["stage"]["data"]["path"])))]


def conversations(data: Path) -> Samples:
    """The conversations in a folder as samples."""
    return Samples(Conversations(index_of(data), data / "data.json"))


def model_spec(base: Path, architecture: str = "clip-llama") -> dict[str, Any]:
    strategy = STRATEGIES[architecture]
    return {"base": {"path": str(base)}, "vision_feature_select_strategy": strategy, **MODEL}


def align_spec(base: Path, data: Path, architecture: str = "clip-llama", **changes: Any) -> dict[str, Any]:
    stage = {"data": {"path": str(data)}, **STAGE, **changes}
    return {"model": model_spec(base, architecture), "stage": stage, "seed": 0}
