"""Make model outputs on which the generation scorers are compared with the authors' code.

    python tests/golden/make_generation.py

prints how many cases there are. The same cases come every time: what detectors, depth and VQA models might have said
about made-up pictures. generation.json holds what the authors' scorers (GenEval af4902f, ELLA 3c228f1, T2I-CompBench
1b70949, with spaCy 3.8.18 and en_core_web_sm 3.8.0) make of them; these were run in a folder of their own, with a
stand-in for each model.
"""

import csv
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

SEED = 7
FRAME = 479  # pixels, each side, of T2I-CompBench++'s detector
CLASSES = ("bench", "cow", "stop sign", "sports ball", "traffic light")
COLORS = ("red", "green", "blue", "black")
DPG_COLUMNS = (
    *("item_id", "text", "keywords", "proposition_id", "dependency", "category_broad", "category_detailed"),
    *("tuple", "question_natural_language"),
)
RELATIONS = ("left of", "right of", "above", "below")

Found = tuple[str, float, tuple[float, float, float, float]]  # label, confidence, box


@dataclass(frozen=True)
class Case:
    """A prompt and what was found on its picture, best first; `extra` is what one benchmark needs beside that."""

    prompt: str
    found: list[Found]
    extra: Any = None


def _box(rng: random.Random, side: int = FRAME) -> tuple[float, float, float, float]:
    width, height = rng.uniform(0.1, 0.8) * side, rng.uniform(0.1, 0.8) * side
    left, top = rng.uniform(0, side - width), rng.uniform(0, side - height)
    return (round(left, 2), round(top, 2), round(left + width, 2), round(top + height, 2))


def _found(rng: random.Random, labels: tuple[str, ...], most: int, least_score: float = 0.1) -> list[Found]:
    scores = sorted((round(rng.uniform(least_score, 1), 4) for _ in range(rng.randint(1, most))), reverse=True)
    return [(rng.choice(labels), score, _box(rng)) for score in scores]


def geneval_boxes() -> list[tuple[tuple[float, ...], tuple[float, ...]]]:
    """Pairs of boxes."""
    rng = random.Random(f"{SEED} boxes")
    return [(_box(rng), _box(rng)) for _ in range(200)]


def geneval() -> list[Case]:
    """`extra` is the row of the prompt and the colour of each detection."""
    rng = random.Random(f"{SEED} geneval")
    cases = []
    tags = ("single_object", "two_object", "counting", "colors", "position", "color_attr")
    for number in range(480):
        tag = tags[number % len(tags)]
        first, second = rng.sample(CLASSES, 2)
        row: dict[str, Any] = {"tag": tag, "include": [{"class": first, "count": 1}], "prompt": f"prompt {number}"}
        if tag == "counting":
            row["include"][0]["count"] = count = rng.randint(2, 4)
            row["exclude"] = [{"class": first, "count": count + 1}]
        if tag in ("two_object", "position", "color_attr"):
            row["include"].append({"class": second, "count": 1})
        if tag in ("colors", "color_attr"):
            for clause in row["include"]:
                clause["color"] = rng.choice(COLORS[:2])
        if tag == "position":
            row["include"][1]["position"] = [rng.choice(RELATIONS), 0]
        found = _found(rng, (first, first, second), 24 if number % 40 == 2 else 6, 0.8 if tag == "counting" else 0.1)
        cases.append(Case(row["prompt"], found, (row, [rng.choice(COLORS[:2]) for _ in found])))
    return cases


def dpg(folder: Path) -> dict[str, list[dict[int, str]]]:
    """Write `dpg_bench.csv` into a folder and return the answers: item -> a mapping of question -> answer a tile. The
    first row is a parent; some children stand before their parents."""
    rng = random.Random(f"{SEED} dpg")
    answers = {}
    kinds = ("entity - whole", "attribute - color", "attribute - size", "relation - spatial", "global - ")
    with (folder / "dpg_bench.csv").open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(DPG_COLUMNS)
        for number in range(60):
            count = rng.randint(3, 12)
            order = list(range(1, count + 1))
            if number and number % 3 == 0:
                rng.shuffle(order)
            for question in order:
                parents = rng.sample(range(1, question), min(question - 1, rng.randint(1, 2))) if question > 1 else [0]
                kind = rng.choice(kinds)
                broad, detailed = kind.split(" - ")
                text = f"Is {number} {question} there?"
                dependency = ",".join(map(str, parents or [0]))
                rows.writerow(
                    [f"item{number}", "", "", question, dependency, broad, detailed, f"{kind} ({question})", text]
                )
            answers[f"item{number}"] = [
                {question: rng.choices(("yes", "no", "Yes"), (0.75, 0.2, 0.05))[0] for question in order}
                for _ in range(4)
            ]
    return answers


def blip() -> list[list[float]]:
    """Probabilities of yes for the chunks of a picture's prompt."""
    rng = random.Random(f"{SEED} blip")
    return [[rng.random() ** 0.3 for _ in range(rng.randint(1, 8))] for _ in range(200)]


def spatial() -> list[Case]:
    """Prompts of `spatial`."""
    rng = random.Random(f"{SEED} spatial")
    phrases = ("next to", "near", "on side of", *(f"on the {side} of" for side in ("left", "right", "top", "bottom")))
    labels = ("person", "cow", "lamp", "dog", "dining table", "vase")
    cases = []
    for _ in range(300):
        first, second = rng.sample(("boy", "cow", "lamp", "dog", "table", "vase", "girl"), 2)
        prompt = f"a {first} {rng.choice(phrases)} a {second}"
        cases.append(Case(prompt, _found(rng, labels, 8, 0.5)))
    return cases


def complex_spatial() -> list[Case]:
    """Prompts of `complex` with a relation."""
    rng = random.Random(f"{SEED} complex")
    phrases = ("next to", "near", "on top of", "on the left of", "on the right of")
    things = ("hat", "bottle", "chair", "lamp", "pillow", "dog")
    cases = []
    for _ in range(100):
        (first, second), (one, other) = rng.sample(things, 2), rng.sample(("red", "blue", "green", "black"), 2)
        prompt = f"The {one} {first} was {rng.choice(phrases)} the {other} {second}."
        cases.append(Case(prompt, _found(rng, things, 8, 0.5)))
    return cases


def spatial_3d() -> list[Case]:
    """Prompts of `3d_spatial`; `extra` is the depth map, (FRAME, FRAME), 0-1."""
    rng = random.Random(f"{SEED} 3d")
    labels = ("person", "cow", "carrot", "car", "table, desk", "vase")
    cases = []
    for _ in range(200):
        first, second = rng.sample(("boy", "cow", "car", "desk", "vase", "girl"), 2)
        prompt = f"a {first} {rng.choice(('in front of', 'behind', 'hidden by'))} a {second}"
        across, down = np.linspace(0, rng.uniform(-1, 1), FRAME), np.linspace(0, rng.uniform(-1, 1), FRAME)
        cases.append(Case(prompt, _found(rng, labels, 8), (down[:, None] + across[None, :]).astype(np.float32)))
    return cases


def numeracy() -> list[Case]:
    """Prompts of `numeracy`; some detections stand twice, slightly moved."""
    rng = random.Random(f"{SEED} numeracy")
    things = {
        "boy": "boys", "woman": "women", "ship": "ships", "television": "televisions", "painting": "paintings",
        "pen": "pens", "fish": "fish", "mouse": "mice", "tomato": "tomatoes", "couch": "couches",
    }  # fmt: skip
    labels = ("person", "boat", "tv", "picture, frame", "pen, pencil", "fish", "mouse2, mouse", "tomato", "couch")
    words = ("one", "two", "three", "four")
    cases = []
    for _ in range(300):
        named = []
        for thing in rng.sample(list(things), rng.randint(1, 4)):
            number = rng.choice(words)
            named.append(f"{number} {thing if number == 'one' else things[thing]}")
        prompt = ", ".join(named[:-1]) + " and " + named[-1] if len(named) > 1 else named[0]
        found = _found(rng, labels, 12)
        label, score, box = found[0]
        found.insert(1, (label, score, (box[0] + 1, *box[1:])))
        cases.append(Case(prompt, found))
    return cases


def complex_scores() -> list[tuple[str, float, float, float]]:
    """A complex prompt's kind, its attribute binding, 2D relation and CLIP cosine."""
    rng = random.Random(f"{SEED} three in one")
    return [
        (rng.choice(("spatial", "action", "spatialaction")), *(round(rng.random(), 4) for _ in range(3)))
        for _ in range(60)
    ]


if __name__ == "__main__":
    made = (geneval, blip, spatial, complex_spatial, spatial_3d, numeracy, complex_scores)
    print({make.__name__: len(make()) for make in made})
