"""T2I-CompBench++: as many objects as asked? Each of a prompt's n objects gives 1/n: half for being there, half for the
exact count.

Which words are objects follows from the benchmark's own prompts: those that a number from two to eight stands before,
in the plural, and their singulars. Faults of the authors' scorer, which `fixed` mends:
- an object that no label equals takes every label with its name within a word (`pen` in `pencil`);
- two men and three women are sought as two persons and as three, so five persons are neither;
- `television` is sought under its own name only, as the alias for `tv` is misspelt.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from workflow_scripts.benchmarks.generation.base import Mode
from workflow_scripts.benchmarks.generation.boxes import areas, iou
from workflow_scripts.benchmarks.generation.compbench_names import canonical, names_in
from workflow_scripts.benchmarks.generation.roles import Detection

NUMBERS = {
    "a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8,
}  # fmt: skip
IRREGULAR = {"men": "man", "women": "woman", "people": "person", "mice": "mouse", "knives": "knife"}
UNCHANGED = {"fish", "goldfish", "sheep", "deer", "shrimp"}
ALIASES = {"ship": "boat", "goldfish": "fish", "painting": "picture"}
DUPLICATE = 0.9  # two boxes of one label that overlap by more are one object
LAST_PIXEL = 1.0  # the authors take right and bottom for the last pixel inside here

Wanted = list[tuple[str, int]]  # objects in the singular and their numbers, in the prompt's order


def singular(plural: str) -> str:
    """The singular of an object's plural."""
    if plural in UNCHANGED:
        return plural
    if plural in IRREGULAR:
        return IRREGULAR[plural]
    if plural.endswith("ies"):
        return plural[:-3] + "y"
    return plural[:-2] if re.search(r"(ch|sh|ss|o|x)es$", plural) else plural[:-1]


def vocabulary(prompts: Iterable[str]) -> dict[str, str]:
    """The objects that the prompts count, plural -> singular."""
    numbers = "|".join(word for word, number in NUMBERS.items() if number > 1)
    plurals = (plural for text in prompts for plural in re.findall(rf"\b(?:{numbers}) (\w+)", text))
    return {plural: singular(plural) for plural in plurals}


def wanted(text: str, plurals: Mapping[str, str]) -> Wanted:
    """The objects of `plurals` that a prompt names right after a number word, and how many."""
    words = re.findall(r"\w+|[^\w\s]", text)
    found = []
    for number, name in pairwise(words):
        if number not in NUMBERS:
            continue
        if NUMBERS[number] == 1 and name in plurals.values():
            found.append((name, 1))
        elif name in plurals:
            found.append((plurals[name], NUMBERS[number]))
    return found


def score(objects: Wanted, detections: Sequence[Detection], mode: Mode) -> float:
    """A picture's score, 0-1, from what a prompt wants and what was detected. Raises ValueError for a prompt that wants
    nothing."""
    if not objects:
        raise ValueError("a prompt of numeracy names no object")
    labels = _without_duplicates(detections)
    return _score_official(objects, labels) if mode == "official" else _score_fixed(objects, labels)


def _score_official(objects: Wanted, labels: list[str]) -> float:
    total = 0.0
    for name, number in objects:
        sought = canonical(ALIASES.get(name, name), "official")
        if sought not in labels:
            labels = [sought if sought in label else label for label in labels]
        if sought in labels:
            total += 0.5 / len(objects)
            if labels.count(sought) == number:
                total += 0.5 / len(objects)
    return total


def _score_fixed(objects: Wanted, labels: list[str]) -> float:
    """Objects of one canonical name are wanted together."""
    numbers: Counter[str] = Counter()
    for name, number in objects:
        numbers[canonical(name, "fixed")] += number
    counts = Counter(name for label in labels for name in names_in(label))
    points = [
        (counts[name] > 0) + (counts[name] == numbers[name]) for name in (canonical(o, "fixed") for o, _ in objects)
    ]
    return sum(points) / (2 * len(points))


def _without_duplicates(detections: Sequence[Detection]) -> list[str]:
    """The labels of the detections without those that cover an earlier one of the same label."""
    kept: list[Detection] = []
    for detection in detections:
        if not any(detection.label == other.label and _is_duplicate(detection, other) for other in kept):
            kept.append(detection)
    return [detection.label for detection in kept]


def _is_duplicate(a: Detection, b: Detection) -> bool:
    area_a, area_b, shared = areas(a.box, b.box, LAST_PIXEL)
    return iou(a.box, b.box, LAST_PIXEL) > DUPLICATE or shared > DUPLICATE * area_a or shared > DUPLICATE * area_b
