"""The generation benchmarks of the blocks world: pictures are read by the exact detector, scored by the real rules.

Files: `prompts.jsonl`, a row of `blocks.prompts` a line; a prompt's id is its line, five digits from 00000.
Pictures lie as GenEval's.
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from workflow_scripts.benchmarks.generation.base import (
    Generation,
    Mode,
    Models,
    Picture,
    PictureScore,
    Prompt,
    Scorer,
)
from workflow_scripts.benchmarks.generation.geneval import files
from workflow_scripts.blocks.scoring import score_picture
from workflow_scripts.blocks.world import detect, say
from workflow_scripts.errors import UserError
from workflow_scripts.files import read_jsonl


def read(folder: Path) -> list[Prompt]:
    """The prompts in file order; `facts` is the row. Raises UserError naming a row without a prompt."""
    path = folder / "prompts.jsonl"
    prompts = []
    for number, row in enumerate(read_jsonl(path)):
        if not str(row.get("prompt", "")).strip():
            raise UserError(f"{path}: row {number + 1} has no prompt")
        prompts.append(Prompt(f"{number:05d}", row["prompt"], row.get("tag") or row.get("category") or "dpg", row))
    return prompts


def _scorer(name: str, folder: Path, prompts: Sequence[Prompt], models: Models, mode: Mode) -> Scorer:
    """No models: what a picture shows is read exactly."""
    return lambda pictures: [_picture_score(name, picture) for picture in pictures]


def _picture_score(name: str, picture: Picture) -> PictureScore:
    prompt, shown = picture.prompt, detect(np.asarray(picture.image.convert("RGB")))
    score, reason = score_picture(name, prompt.facts, shown)
    return PictureScore(prompt.id, picture.index, prompt.category, score, reason, {"shows": say(shown)})


def _benchmark(name: str, title: str, metric: str) -> Generation:
    no_size: dict[str, Any] = {"commit": "", "categories": {}, "images_per_prompt": 0}
    return Generation(
        name, title, metric, "the blocks world", read=read, files=files, scorer=partial(_scorer, name), **no_size
    )


BENCHMARKS: dict[str, Generation] = {
    name: _benchmark(name, title, metric)
    for name, title, metric in (
        ("blocks_geneval", "blocks: GenEval", "mean accuracy of the tags"),
        ("blocks_dpg", "blocks: DPG", "score"),
        ("blocks_compbench", "blocks: CompBench", "mean of the categories"),
    )
}
