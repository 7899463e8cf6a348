"""A tiny text-to-image setting for tests: random pipelines, a few images, captions."""

import random
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from workflow_scripts.blocks.cell_autoencoder import CellCode
from workflow_scripts.blocks.t2i_model import BUILDERS
from workflow_scripts.blocks.world import Scene, describe, render, sample_scene, say
from workflow_scripts.captions.read import FINGERPRINT
from workflow_scripts.files import sha256_file, write_json
from workflow_scripts.records import write_table

MAX_TEXT_TOKENS = {"sd3": 1, "qwen-image": 64}


@cache
def scenes(count: int = 200) -> list[Scene]:
    rng = random.Random("tests")
    return [sample_scene(rng) for _ in range(count)]


def pixels_of(some: list[Scene]) -> torch.Tensor:
    return torch.from_numpy(np.stack([render(s) for s in some])).permute(0, 3, 1, 2).float() / 127.5 - 1


@cache
def fitted_code() -> CellCode:
    code = CellCode(8)
    code.fit(pixels_of(scenes()))
    return code


def save_base(family: str, folder: Path) -> Path:
    """A pipeline folder of random weights."""
    BUILDERS[family](fitted_code(), 0).save_pretrained(folder)
    return folder


def save_pool(folder: Path, count: int) -> Path:
    """A pool's table of `count` pictures."""
    rows = []
    for index, scene in enumerate(scenes()[:count]):
        path = folder / f"{index}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(render(scene, random.Random(index))).save(path)
        rows.append({"index": index, "image_id": sha256_file(path), "source": "blocks", "path": str(path)})
    write_table(
        folder / "images.parquet", [{**row, "width": 32, "height": 32, "notes": None} for row in rows], "images"
    )
    return folder / "images.parquet"


def save_captions(folder: Path, image_ids: list[str], changes: dict[int, dict[str, Any]] | None = None) -> Path:
    """captions.json of true captions; `changes` replaces columns of single rows."""
    rows: list[dict[str, Any]] = []
    for number, (image_id, scene) in enumerate(zip(image_ids, scenes(), strict=False)):
        row = {"image_id": image_id, "caption": say(describe(scene)), "num_tokens": 9, "finish_reason": "stop"}
        rows.append({**row, "num_attempts": 1, "error": None, **(changes or {}).get(number, {})})
    write_table(folder / "00000.parquet", rows, "captions", {FINGERPRINT: "tests"})
    shards = [{"path": "00000.parquet", "rows": len(rows), "sha256": sha256_file(folder / "00000.parquet")}]
    write_json(folder / "captions.json", {"shards": shards, "fingerprint": "tests", "leave_out": ["empty", "cut"]})
    return folder / "captions.json"


def training(**changes: Any) -> dict[str, Any]:
    """Settings of a short run."""
    made = {"learning_rate": 1e-3, "global_batch": 4, "per_device_batch": 4, "devices": 1, "steps": 6}
    return {**made, "precision": "fp32", "zero_stage": 0, "gradient_checkpointing": False, **changes}
