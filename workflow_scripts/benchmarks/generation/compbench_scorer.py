"""T2I-CompBench++: which models each category asks about a picture, and its rule put to what they say."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from workflow_scripts.benchmarks.generation import compbench_attributes, compbench_numeracy, compbench_spatial
from workflow_scripts.benchmarks.generation.base import Mode, Models, Picture, PictureScore, Prompt, Scorer
from workflow_scripts.benchmarks.generation.compbench_parsing import Parse, open_parser
from workflow_scripts.benchmarks.generation.roles import Detection
from workflow_scripts.errors import UserError

ATTRIBUTES = ("color", "shape", "texture")


@dataclass(frozen=True)
class Wants:
    """What is asked about the pictures of one prompt; None and empty: nothing.

    `questions` go to BLIP-VQA, `related` and `counted` name the objects that are sought, `text` is compared by CLIP.
    """

    questions: tuple[str, ...] = ()
    related: tuple[str, str] | None = None
    counted: tuple[tuple[str, int], ...] = ()
    text: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The objects that are sought."""
        return self.related or tuple(name for name, _ in self.counted)


@dataclass(frozen=True)
class Told:
    """What the models said of one picture."""

    probabilities: tuple[float, ...] = ()
    detections: tuple[Detection, ...] = ()
    depth: np.ndarray | None = None
    similarity: float | None = None


def wants(prompt: Prompt, parse: Parse, plurals: dict[str, str], mode: Mode) -> Wants:
    """What is asked about the pictures of a prompt. `plurals` are the objects that are counted, plural -> singular.
    Raises UserError for a prompt of numeracy without an object, and for one in depth without two."""
    category = prompt.category
    questions = tuple(compbench_attributes.questions(parse.chunks, mode))
    if category in ATTRIBUTES:
        return Wants(questions)
    if category == "spatial":
        return Wants(related=parse.outer_nouns)
    if category == "3d_spatial":
        if parse.outer_nouns is None:
            raise UserError(f"t2i_compbench: prompt {prompt.id} names no objects: {prompt.text!r}")
        return Wants(related=parse.outer_nouns)
    if category == "numeracy":
        counted = tuple(compbench_numeracy.wanted(prompt.text, plurals))
        if not counted:
            raise UserError(f"t2i_compbench: prompt {prompt.id} counts no objects: {prompt.text!r}")
        return Wants(counted=counted)
    if category == "non_spatial":
        return Wants(text=prompt.text)
    related = parse.related if prompt.facts != "action" else None
    text = parse.without_adjectives if prompt.facts != "spatial" else None
    return Wants(questions, related, text=text)


def scorer(folder: Path, prompts: Sequence[Prompt], models: Models, mode: Mode) -> Scorer:
    """Models: `attributes`, `objects`, `depth`, `similarity`."""
    plurals = compbench_numeracy.vocabulary(prompt.text for prompt in prompts if prompt.category == "numeracy")
    parse = open_parser()
    wanted = {prompt.id: wants(prompt, parse(prompt.text), plurals, mode) for prompt in prompts}

    def scores(pictures: Sequence[Picture]) -> list[PictureScore]:
        asked = [wanted[picture.prompt.id] for picture in pictures]
        told = _ask(pictures, asked, models)
        return [_picture_score(*one, mode) for one in zip(pictures, asked, told, strict=True)]

    return scores


def three_in_one(kind: str, attributes: float, spatial: float, similarity: float) -> float:
    """A complex prompt's score, 0-1: the mean of attribute binding (BLIP-VQA) and what else its kind asks for, 2D
    relation, CLIP cosine of the prompt without adjectives, or both."""
    parts = {
        "spatial": (spatial, attributes),
        "action": (similarity, attributes),
        "spatialaction": (attributes, spatial, similarity),
    }[kind]
    return sum(parts) / len(parts)


def _ask(pictures: Sequence[Picture], asked: Sequence[Wants], models: Models) -> list[Told]:
    """Every model once for all pictures that want it."""
    pairs = list(zip(pictures, asked, strict=True))
    questions = [(picture.image, question) for picture, some in pairs for question in some.questions]
    probabilities = iter(models["attributes"].probabilities(questions) if questions else [])
    seeking = [(picture.image, some.names) for picture, some in pairs if some.names]
    detections = iter(models["objects"].detect(*map(list, zip(*seeking, strict=True))) if seeking else [])
    deep = [picture.image for picture in pictures if picture.prompt.category == "3d_spatial"]
    depths = iter(models["depth"].depths(deep, models["objects"].frame) if deep else [])
    texts = [(picture.image, some.text) for picture, some in pairs if some.text is not None]
    similarities = iter(models["similarity"].similarities(texts) if texts else [])
    return [
        Told(
            tuple(next(probabilities) for _ in some.questions),
            tuple(next(detections)) if some.names else (),
            next(depths) if picture.prompt.category == "3d_spatial" else None,
            next(similarities) if some.text is not None else None,
        )
        for picture, some in pairs
    ]


def _picture_score(picture: Picture, asked: Wants, told: Told, mode: Mode) -> PictureScore:
    prompt = picture.prompt
    seen: dict[str, Any] = {
        "probabilities": [list(pair) for pair in zip(asked.questions, told.probabilities, strict=True)],
        "detections": [{"label": d.label, "score": d.score, "box": list(d.box)} for d in told.detections],
        "similarity": told.similarity,
    }
    return PictureScore(
        prompt.id,
        picture.index,
        prompt.category,
        _score(prompt, asked, told, mode),
        seen={name: value for name, value in seen.items() if value or value == 0},
    )


def _score(prompt: Prompt, asked: Wants, told: Told, mode: Mode) -> float:
    if prompt.category in ATTRIBUTES:
        return compbench_attributes.score(told.probabilities, mode)
    if prompt.category == "spatial":
        return compbench_spatial.score_2d(prompt.text, asked.related, told.detections, mode)
    if prompt.category == "3d_spatial":
        return compbench_spatial.score_3d(prompt.text, asked.related, told.detections, told.depth, mode)
    if prompt.category == "numeracy":
        return compbench_numeracy.score(list(asked.counted), told.detections, mode)
    if prompt.category == "non_spatial":
        return told.similarity
    attributes = compbench_attributes.score(told.probabilities, mode)
    spatial = compbench_spatial.score_2d(prompt.text, asked.related, told.detections, mode)
    return three_in_one(prompt.facts, attributes, spatial, told.similarity or 0.0)
