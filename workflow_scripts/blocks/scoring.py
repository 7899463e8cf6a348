"""Scores of generated blocks pictures, exactly, from what `detect` reads in them (the rules of the real benchmarks).

All functions are pure: a row of prompts.jsonl and a picture's description in, a score of 0-1 out.
"""

import re
from typing import Any

import numpy as np

from workflow_scripts.blocks.prompts import side_of
from workflow_scripts.blocks.world import CELLS, Description
from workflow_scripts.errors import UserError, unknown

Scored = tuple[float, str]  # 0-1, and why it is not 1, empty where it is


def _geneval(row: dict[str, Any], seen: Description) -> Scored:
    """GenEval: 1 if every `include` clause holds and no `exclude` clause does, else 0. Of a clause's class the first
    `count` objects matter; position needs every pair with the target clause to lie as asked."""
    by_class = {
        clause["class"]: [item for item in seen.objects if item[1]["shape"] == clause["class"]]
        for clause in row["include"]
    }
    faults, groups = [], []
    for clause in row["include"]:
        found = by_class[clause["class"]][: clause["count"]]
        groups.append(found)
        if len(found) < clause["count"]:
            faults.append(f"{len(found)} of {clause['count']} {clause['class']}")
            continue
        if "color" in clause:
            right = sum(values["color"] == clause["color"] for _, values in found)
            if right < clause["count"]:
                faults.append(f"{right} of {clause['count']} {clause['class']} {clause['color']}")
        if "position" in clause:
            relation, target = clause["position"]
            placed = all(side_of(a, b) == relation for a, _ in found for b, _ in groups[target])
            if not placed or not groups[target]:
                faults.append(f"{clause['class']} not {relation} {row['include'][target]['class']}")
    for clause in row.get("exclude", []):
        if len(by_class[clause["class"]]) >= clause["count"]:
            faults.append(f"{clause['count']} or more {clause['class']}")
    return float(not faults), "; ".join(faults)


_DPG_FORMS = [
    re.compile(r"Is there a (?P<shape>\w+)\?"),
    re.compile(r"Is there a (?P<shape>\w+) in the (?P<cell>\w+)\?"),
    re.compile(r"Is the (?P<shape>\w+) in the (?P<cell>\w+) (?P<value>\w+)\?"),
    re.compile(r"Is the background (?P<background>\w+)\?"),
]


def answer_dpg(question: str, seen: Description) -> bool:
    """The true answer to a question of `blocks_dpg` about a picture. Raises UserError for another form."""
    asked = next((match.groupdict() for form in _DPG_FORMS if (match := form.fullmatch(question))), None)
    if asked is None:
        raise UserError(f"the exact scorer reads questions of blocks_dpg only, it cannot read {question!r}")
    if "background" in asked:
        return seen.background == asked["background"]
    return any(
        values["shape"] == asked["shape"]
        and asked.get("cell") in (None, CELLS[cell])
        and asked.get("value") in (None, *values.values())
        for cell, values in seen.objects
    )


def _dpg(row: dict[str, Any], seen: Description) -> Scored:
    """DPG-Bench: the mean over the questions, in file order, where a question counts 0 once one of its parents
    (0: none) counts 0."""
    scores: dict[int, bool] = {}
    for question in row["questions"]:
        right = answer_dpg(question["question_natural_language"], seen)
        parents = [parent for parent in question["dependency"] if parent != 0]
        scores[question["proposition_id"]] = right and all(scores[parent] for parent in parents)
    wrong = [
        question["question_natural_language"] for question in row["questions"] if not scores[question["proposition_id"]]
    ]
    return float(np.mean(list(scores.values()))), " ".join(wrong)


def _compbench(row: dict[str, Any], seen: Description) -> Scored:
    """T2I-CompBench's attribute binding: the product over the noun phrases of whether the picture shows them."""
    missing = [
        chunk
        for chunk in row["chunks"]
        if not any(set(chunk.split()) <= set(values.values()) for _, values in seen.objects)
    ]
    return float(not missing), "; ".join(f"no {chunk}" for chunk in missing)


_SCORERS = {"blocks_geneval": _geneval, "blocks_dpg": _dpg, "blocks_compbench": _compbench}


def score_picture(benchmark: str, row: dict[str, Any], seen: Description) -> Scored:
    """Score one generated picture: `row` of prompts.jsonl, `seen` = `detect(picture)`."""
    if benchmark not in _SCORERS:
        raise unknown("generation benchmark", benchmark, _SCORERS)
    return _SCORERS[benchmark](row, seen)
