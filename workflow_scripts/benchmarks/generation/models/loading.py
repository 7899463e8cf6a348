"""Folders of transformers' models into memory, and pictures into what they take."""

import logging
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from PIL import Image

from workflow_scripts.engines.weights import require_safetensors
from workflow_scripts.errors import UserError
from workflow_scripts.files import read_json
from workflow_scripts.model_folders import local_folder
from workflow_scripts.spec import ScorerModel

log = logging.getLogger("capsweep")

CLIP_MEAN, CLIP_STD = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)
Item, Value = TypeVar("Item"), TypeVar("Value")


def device() -> torch.device:
    """The GPU where there is one."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def load(source: ScorerModel, model_class: Any, unused: str = r"$^") -> Any:
    """The model of a folder in float32, ready to look.

    Raises UserError where the folder is not there, holds another kind of model, no safetensors, or lacks weights; those
    whose names fit `unused` do not count in what we ask.
    """
    folder = local_folder(source)
    require_kind(folder, model_class.config_class.model_type)
    require_safetensors(folder)
    model, told = model_class.from_pretrained(
        folder, use_safetensors=True, local_files_only=True, dtype=torch.float32, output_loading_info=True
    )
    for key, what in (("missing_keys", "lacks"), ("mismatched_keys", "has a wrong shape of")):
        names = [name for name in sorted(map(str, told[key])) if not re.search(unused, name)]
        if names:
            raise UserError(f"{folder}: the checkpoint {what} {len(names)} weights, such as {names[0]}")
    return model.to(device()).eval()


def require_kind(folder: Path, kind: str) -> None:
    """Raise UserError where a folder is not of a kind of transformers' models."""
    config = folder / "config.json"
    found = read_json(config).get("model_type") if config.is_file() else None
    if found != kind:
        raise UserError(f"{folder}: holds {f'a model of type {found!r}' if found else 'no model'}, expected {kind!r}")


def pixels(picture: Image.Image, mean: Sequence[float], std: Sequence[float]) -> torch.Tensor:
    """An RGB picture as (3, height, width): float32, 0-1, less the mean, by the deviation."""
    values = np.asarray(picture.convert("RGB"), dtype=np.float32) / 255
    return torch.from_numpy((values - np.float32(mean)) / np.float32(std)).permute(2, 0, 1)


class Batches:
    """Work on items in runs of up to `size`, which is halved for good when the GPU's memory runs out."""

    def __init__(self, size: int, folder: Path) -> None:
        self.size, self._folder = size, folder

    def __call__(self, items: Sequence[Item], work: Callable[[Sequence[Item]], Iterable[Value]]) -> list[Value]:
        """All that `work` makes of runs of the items. Raises UserError where the memory does not hold one item."""
        made: list[Value] = []
        start = 0
        while start < len(items):
            some = items[start : start + self.size]
            try:
                made += work(some)
                start += len(some)
            except torch.OutOfMemoryError:
                if len(some) == 1:
                    raise UserError(f"{self._folder}: one picture exceeds the GPU's memory") from None
                self.size = len(some) // 2
                torch.cuda.empty_cache()
                log.warning("%s: GPU memory ran out, from now on %d at once", self._folder, self.size)
        return made


def once(items: Sequence[Item], make: Callable[[list[Item]], Sequence[Value]]) -> list[Value]:
    """What `make` makes of all items, each object of which it sees once however often it occurs."""
    distinct = {id(item): item for item in items}
    made = dict(zip(distinct, make(list(distinct.values())), strict=True))
    return [made[id(item)] for item in items]
