"""Understanding benchmarks of the blocks world, in the forms of POPE, MMBench, counting, attributes, position, MMVP.

A question is `{"id", "image", "question", "options", "answer", "kind", "group"}`. With `options` null the model
answers freely, with a list the option of the highest log-likelihood is the answer; `group` joins the two questions
of a pair (MMVP) and is null elsewhere. All pictures show test scenes, all words occur.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, replace

from workflow_scripts.blocks.questions import Question, ask
from workflow_scripts.blocks.world import ATTRIBUTES, CELLS, Scene, describe, held_out, sample_scene

_NUM_OPTIONS = 4


@dataclass(frozen=True)
class Item:
    """A question about a picture."""

    scene: Scene
    question: str
    options: list[str] | None
    answer: str
    kind: str
    group: str | None = None


def _draw(kind: str, rng: random.Random) -> tuple[Scene, Question]:
    while True:
        scene = sample_scene(rng, split="test")
        question = ask(describe(scene), kind, rng)
        if question is not None:
            return scene, question


def _free(kinds: tuple[str, ...]) -> Callable[[int, random.Random], list[Item]]:
    """Freely answered questions, the kinds in turn."""

    def write(index: int, rng: random.Random) -> list[Item]:
        scene, question = _draw(kinds[index % len(kinds)], rng)
        return [Item(scene, question.text, None, question.answer, question.kind)]

    return write


def _pope(index: int, rng: random.Random) -> list[Item]:
    """POPE: is it there? As many yes as no."""
    while True:
        scene, question = _draw("existence", rng)
        if question.answer == ("yes", "no")[index % 2]:
            return [Item(scene, question.text, None, question.answer, question.kind)]


def _choice(kinds: tuple[str, ...]) -> Callable[[int, random.Random], list[Item]]:
    """MMBench: one of up to four options, in random order."""

    def write(index: int, rng: random.Random) -> list[Item]:
        scene, question = _draw(kinds[index % len(kinds)], rng)
        wrong = [option for option in question.options if option != question.answer]
        options = [question.answer, *rng.sample(wrong, min(_NUM_OPTIONS - 1, len(wrong)))]
        rng.shuffle(options)
        return [Item(scene, question.text, options, question.answer, question.kind)]

    return write


def _pair(index: int, rng: random.Random) -> list[Item]:
    """MMVP: two pictures that differ in one attribute of one block, the same question and options, other answers."""
    name = tuple(ATTRIBUTES)[index % len(ATTRIBUTES)]
    while True:
        first = sample_scene(rng, split="test")
        position = rng.randrange(len(first.blocks))
        block = first.blocks[position]
        value = getattr(block, name)
        other = rng.choice([v for v in ATTRIBUTES[name] if v != value])
        changed = replace(block, **{name: other})
        second = replace(first, blocks=(*first.blocks[:position], changed, *first.blocks[position + 1 :]))
        if held_out(second):
            break
    text, options = f"what {name} {CELLS[block.cell]}", sorted((value, other))
    group = f"pair-{index:04d}"
    return [Item(first, text, options, value, name, group), Item(second, text, options, other, name, group)]


_WRITERS: dict[str, Callable[[int, random.Random], list[Item]]] = {
    "blocks_pope": _pope,
    "blocks_choice": _choice(("color", "shape", "size", "background", "count")),
    "blocks_counting": _free(("count",)),
    "blocks_attributes": _free(("color", "shape", "size")),
    "blocks_position": _choice(("position",)),
    "blocks_pairs": _pair,
}
UNDERSTANDING_BENCHMARKS = tuple(_WRITERS)


def write_questions(benchmark: str, count: int, rng: random.Random) -> list[Item]:
    """`count` questions of a benchmark (an even number, so that pairs are whole)."""
    items: list[Item] = []
    index = 0
    while len(items) < count:
        items += _WRITERS[benchmark](index, rng)
        index += 1
    return items
