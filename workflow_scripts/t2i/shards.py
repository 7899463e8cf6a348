"""Tensors of many items in safetensors shards, read an item at a time: a shard is mapped into memory, never loaded."""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from workflow_scripts.files import atomic


def write_shard(path: Path, tensors: dict[str, torch.Tensor], items: list[str]) -> None:
    """Write a shard whole or not at all. `items` names what it holds."""
    with atomic(path) as temporary:
        save_file(tensors, temporary, metadata={"items": json.dumps(items)})


def items_of(path: Path) -> list[str] | None:
    """What a shard holds; None where there is none, or only a part of one."""
    try:
        with safe_open(path, "pt") as shard:
            return json.loads(shard.metadata()["items"])
    except (OSError, SafetensorError):
        return None


class Shards:
    """Shards by number, each opened when it is first read, by every process for itself."""

    def __init__(self, paths: list[Path]) -> None:
        self._paths = paths
        self._open: dict[int, Any] = {}

    def __getitem__(self, number: int) -> Any:
        if number not in self._open:
            self._open[number] = safe_open(self._paths[number], "pt")
        return self._open[number]

    def __getstate__(self) -> dict[str, Any]:
        return {"_paths": self._paths, "_open": {}}
