"""GenEval: objects, counts, colours and positions that a detector can check (Ghosh et al., NeurIPS 2023).

Files: `evaluation_metadata.jsonl`, a row {tag, include, exclude?, prompt} a line, and `object_names.txt`; pictures lie
in `<line, five digits>/samples/<number, five digits>.png`, the row beside them in `<line>/metadata.jsonl`.

A picture is right if every `include` clause holds and no `exclude` clause does. The authors' arithmetic has no fault
that we know of: both modes are the same.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from workflow_scripts.benchmarks.generation.base import (
    Generation,
    Mode,
    Models,
    OfficialFile,
    Picture,
    PictureScore,
    Prompt,
    Scorer,
)
from workflow_scripts.benchmarks.generation.boxes import Box
from workflow_scripts.benchmarks.generation.roles import Detection
from workflow_scripts.errors import UserError
from workflow_scripts.files import read_jsonl

COLORS = ("red", "orange", "yellow", "green", "blue", "purple", "pink", "brown", "black", "white")
RELATIONS = ("left of", "right of", "above", "below")
NUM_CLASSES = 80
MIN_SCORE, MIN_SCORE_COUNTING = 0.3, 0.9  # a detection counts above this
MAX_PER_CLASS = 16
MARGIN = 0.1  # of both objects' sizes: how far apart they must be for a relation


def read(folder: Path) -> list[Prompt]:
    """The prompts in file order; the id is the line's number from 00000, `facts` the row."""
    path = folder / "evaluation_metadata.jsonl"
    prompts = []
    for number, row in enumerate(read_jsonl(path)):
        missing = {"tag", "include", "prompt"} - set(row)
        if missing:
            raise UserError(f"{path}: line {number + 1} has no {', '.join(sorted(missing))}")
        prompts.append(Prompt(f"{number:05d}", row["prompt"], row["tag"], row))
    return prompts


def read_object_names(folder: Path) -> list[str]:
    """GenEval's names of the detector's 80 classes, in the detector's order: several are not COCO's own."""
    path = folder / "object_names.txt"
    names = path.read_text(encoding="utf-8").split("\n")
    names = [name.strip() for name in names if name.strip()]
    if len(names) != NUM_CLASSES:
        raise UserError(f"{path}: {len(names)} names, expected {NUM_CLASSES}")
    return names


def files(prompts: Sequence[Prompt], images_per_prompt: int) -> list[OfficialFile]:
    """One file a picture."""
    return [
        OfficialFile(PurePosixPath(prompt.id, "samples", f"{index:05d}.png"), prompt.id, (index,))
        for prompt in prompts
        for index in range(images_per_prompt)
    ]


def notes(prompt: Prompt) -> dict[PurePosixPath, str]:
    """The row beside the pictures."""
    return {PurePosixPath(prompt.id, "metadata.jsonl"): json.dumps(prompt.facts)}


def keep(detections: Sequence[Detection], tag: str) -> dict[str, list[Detection]]:
    """The detections that count, by class, best first."""
    least = MIN_SCORE_COUNTING if tag == "counting" else MIN_SCORE
    kept: dict[str, list[Detection]] = {}
    for detection in sorted(detections, key=lambda detection: -detection.score):
        of_class = kept.setdefault(detection.label, [])
        if detection.score > least and len(of_class) < MAX_PER_CLASS:
            of_class.append(detection)
    return kept


def to_color(row: Mapping[str, Any], kept: Mapping[str, list[Detection]]) -> list[Detection]:
    """The objects whose colour `judge` will want: the first `count` of a clause with a colour, if there are as many."""
    wanted = []
    for clause in row["include"]:
        found = kept.get(clause["class"], [])[: clause["count"]]
        if "color" in clause and len(found) == clause["count"]:
            wanted += [detection for detection in found if detection not in wanted]
    return wanted


def relations(a: Box, b: Box) -> set[str]:
    """How A lies from B: none, one or two of `RELATIONS`. What counts is the distance of the centres beyond a tenth of
    both sizes, each axis on its own, as a share of the whole distance."""
    corners_a, corners_b = np.reshape(a, (2, 2)), np.reshape(b, (2, 2))
    offset = corners_a.mean(axis=0) - corners_b.mean(axis=0)
    sizes = np.abs(corners_a[1] - corners_a[0]) + np.abs(corners_b[1] - corners_b[0])
    beyond = np.maximum(np.abs(offset) - MARGIN * sizes, 0) * np.sign(offset)
    if np.all(np.abs(beyond) < 1e-3):
        return set()
    x, y = beyond / np.linalg.norm(offset)
    holds = {"left of": x < -0.5, "right of": x > 0.5, "above": y < -0.5, "below": y > 0.5}
    return {relation for relation, true in holds.items() if true}


def judge(
    row: Mapping[str, Any], kept: Mapping[str, list[Detection]], colors: Mapping[Detection, str]
) -> tuple[bool, str]:
    """Whether a picture shows what its row asks for, and what is wrong. `colors` are those of `to_color`."""
    faults: list[str] = []
    groups: list[list[Detection] | None] = []  # what matched each clause, None where the clause fails
    for clause in row["include"]:
        found = kept.get(clause["class"], [])[: clause["count"]]
        fault = _clause_fault(clause, found, groups, colors)
        groups.append(None if fault else found)
        if fault:
            faults.append(fault)
    for clause in row.get("exclude", []):
        count = len(kept.get(clause["class"], []))
        if count >= clause["count"]:
            faults.append(f"{count} {clause['class']}, expected fewer than {clause['count']}")
    return not faults, "; ".join(faults)


def _clause_fault(
    clause: Mapping[str, Any],
    found: Sequence[Detection],
    groups: Sequence[list[Detection] | None],
    colors: Mapping[Detection, str],
) -> str:
    """What is wrong with one clause, empty where nothing is."""
    name, count = clause["class"], clause["count"]
    if len(found) < count:
        return f"{len(found)} {name}, expected {count}"
    if "color" in clause:
        seen = [colors[detection] for detection in found]
        if seen.count(clause["color"]) < count:
            return f"{name} {', '.join(seen)}, expected {clause['color']}"
    if "position" in clause:
        relation, target = clause["position"]
        if groups[target] is None:
            return f"nothing for {name} to be {relation}"
        if not all(relation in relations(a.box, b.box) for a in found for b in groups[target]):
            return f"{name} not {relation} its target"
    return ""


def scorer(folder: Path, prompts: Sequence[Prompt], models: Models, mode: Mode) -> Scorer:
    """1 for a right picture, else 0. Models: `instances`, `colors`."""

    def scores(pictures: Sequence[Picture]) -> list[PictureScore]:
        detected = models["instances"].detect([picture.image for picture in pictures])
        kept = [keep(found, picture.prompt.category) for picture, found in zip(pictures, detected, strict=True)]
        colored = [
            (picture.image, thing)
            for picture, found in zip(pictures, kept, strict=True)
            for thing in to_color(picture.prompt.facts, found)
        ]
        named = models["colors"].colors(colored) if colored else []
        colors = {thing: color for (_, thing), color in zip(colored, named, strict=True)}
        return [_picture_score(picture, found, colors) for picture, found in zip(pictures, kept, strict=True)]

    return scores


def _picture_score(
    picture: Picture, kept: Mapping[str, list[Detection]], colors: Mapping[Detection, str]
) -> PictureScore:
    right, reason = judge(picture.prompt.facts, kept, colors)
    seen = [
        {"label": d.label, "score": d.score, "box": list(d.box), **({"color": colors[d]} if d in colors else {})}
        for found in kept.values()
        for d in found
    ]
    prompt = picture.prompt
    return PictureScore(prompt.id, picture.index, prompt.category, float(right), reason, {"detections": seen})


BENCHMARK = Generation(
    name="geneval",
    title="GenEval",
    metric="mean accuracy of six tags",
    source="djghosh13/geneval",
    commit="af4902f24d3ca90ebbb446dd9891a59e0f82725f",
    categories={
        "single_object": 80,
        "two_object": 99,
        "counting": 80,
        "colors": 94,
        "position": 100,
        "color_attr": 100,
    },
    images_per_prompt=4,
    read=read,
    files=files,
    scorer=scorer,
    notes=notes,
)
