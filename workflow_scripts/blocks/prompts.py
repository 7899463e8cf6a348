"""Generation benchmarks of the blocks world, in the forms of GenEval, DPG-Bench and T2I-CompBench.

Prompts are captions of scenes that no training picture shows. They always name the cells, which the pictures are
made of, and the sizes and the background, so that only what a benchmark asks about is left open or told.
"""

import random
from collections.abc import Callable
from typing import Any

from workflow_scripts.blocks.world import (
    CELLS,
    Description,
    Scene,
    describe,
    sample_scene,
    say,
)

Prompt = dict[str, Any]
GENEVAL_TAGS = ("single_object", "two_object", "counting", "colors", "position", "color_attr")
COMPBENCH_CATEGORIES = ("color", "size", "complex")


def _scene(rng: random.Random, count: int) -> Scene:
    return sample_scene(rng, counts=(count,), split="test")


def _without_color(scene: Scene) -> Description:
    full = describe(scene)
    kept = [(cell, {k: v for k, v in values.items() if k != "color"}) for cell, values in full.objects]
    return Description(full.background, tuple(kept))


def side_of(cell: int, other: int) -> str | None:
    """Where `cell` lies from `other`, in GenEval's words; None for diagonal neighbours and the same cell."""
    (row, column), (other_row, other_column) = divmod(cell, 2), divmod(other, 2)
    if row == other_row and column != other_column:
        return "left of" if column < other_column else "right of"
    if column == other_column and row != other_row:
        return "above" if row < other_row else "below"
    return None


def _geneval(index: int, rng: random.Random) -> Prompt:
    """`{"tag", "include": [{"class", "count", "color"?, "position"?}], "exclude"?, "prompt"}`. The class is the shape;
    tags that do not ask for colours leave them out of the prompt."""
    tag = GENEVAL_TAGS[index % len(GENEVAL_TAGS)]
    count = {"single_object": 1, "colors": 1, "counting": 2 + index // len(GENEVAL_TAGS) % 3}.get(tag, 2)
    while True:
        scene = _scene(rng, count)
        shapes = {block.shape for block in scene.blocks}
        first, second = scene.blocks[0], scene.blocks[-1]
        if tag == "counting":
            if len(shapes) == 1:
                break
        elif len(shapes) == count and (tag != "position" or side_of(second.cell, first.cell)):
            break
    include: list[dict[str, Any]]
    exclude = {}
    if tag == "counting":
        include = [{"class": first.shape, "count": count}]
        exclude = {"exclude": [{"class": first.shape, "count": count + 1}]}
    else:
        include = [{"class": block.shape, "count": 1} for block in scene.blocks]
    if tag in ("colors", "color_attr"):
        for clause, block in zip(include, scene.blocks, strict=True):
            clause["color"] = block.color
    if tag == "position":
        include[1]["position"] = [side_of(second.cell, first.cell), 0]
    told = describe(scene) if tag in ("colors", "color_attr") else _without_color(scene)
    return {"tag": tag, "include": include, **exclude, "prompt": say(told)}


def _dpg(index: int, rng: random.Random) -> Prompt:
    """`{"item_id", "prompt", "questions"}`; a question has the columns of DPG-Bench's table. The parent of "Is there a
    circle in the topleft?" is "Is there a circle?", that of "Is the circle in the topleft red?" the former."""
    scene = _scene(rng, 3 + index % 2)
    questions: list[dict[str, Any]] = []

    def add(broad: str, detailed: str, about: str, text: str, parent: int) -> int:
        number = len(questions) + 1
        questions.append(
            {
                "proposition_id": number,
                "dependency": [parent],
                "category_broad": broad,
                "category_detailed": detailed,
                "tuple": f"{broad} - {detailed} ({about})",
                "question_natural_language": text,
            }
        )
        return number

    for block in scene.blocks:
        shape, place = block.shape, CELLS[block.cell]
        there = add("entity", "whole", shape, f"Is there a {shape}?", 0)
        placed = add("relation", "spatial", f"{shape}, {place}", f"Is there a {shape} in the {place}?", there)
        for name in ("color", "size"):
            value = getattr(block, name)
            add("attribute", name, f"{shape}, {value}", f"Is the {shape} in the {place} {value}?", placed)
    add("global", "background", scene.background, f"Is the background {scene.background}?", 0)
    return {"item_id": f"blocks_{index:04d}", "prompt": say(describe(scene)), "questions": questions}


def _compbench(index: int, rng: random.Random) -> Prompt:
    """`{"category", "chunks", "prompt"}`: two objects whose attributes must not be swapped; the chunks are the noun
    phrases that are asked about, as T2I-CompBench's attribute binding does."""
    category = COMPBENCH_CATEGORIES[index % len(COMPBENCH_CATEGORIES)]
    while True:
        scene = _scene(rng, 2)
        a, b = scene.blocks
        if a.shape != b.shape and a.color != b.color and (category == "color" or a.size != b.size):
            break
    chunks = {
        "color": [f"{block.color} {block.shape}" for block in scene.blocks],
        "size": [f"{block.size} {block.shape}" for block in scene.blocks],
        "complex": [f"{block.size} {block.color} {block.shape}" for block in scene.blocks],
    }[category]
    return {"category": category, "chunks": chunks, "prompt": say(describe(scene))}


_WRITERS: dict[str, Callable[[int, random.Random], Prompt]] = {
    "blocks_geneval": _geneval,
    "blocks_dpg": _dpg,
    "blocks_compbench": _compbench,
}
GENERATION_BENCHMARKS = tuple(_WRITERS)


def write_prompts(benchmark: str, count: int, rng: random.Random) -> list[Prompt]:
    """`count` different prompts of a benchmark, its tags or categories in turn."""
    rows: dict[str, Prompt] = {}
    while len(rows) < count:
        row = _WRITERS[benchmark](len(rows), rng)
        rows.setdefault(row["prompt"], row)
    return list(rows.values())
