"""The models behind the generation scores, tiny and random, of the real classes: each picture alone or in batches, one
encoding a picture, what the benchmarks' rules take, and canaries that stop random models."""

import json

import numpy as np
import pytest
import torch
from opened_scorers import ASK, CLASSES, PICTURES, TINY, flat, labels
from told_models import ToldModels

from workflow_scripts.benchmarks.generation import BENCHMARKS, canaries
from workflow_scripts.benchmarks.generation.base import Picture, Prompt
from workflow_scripts.benchmarks.generation.models import (
    engine,
    open_models,
    owlv2,
)
from workflow_scripts.benchmarks.generation.roles import MODELS
from workflow_scripts.errors import UserError
from workflow_scripts.spec import ScorerModel


@pytest.mark.parametrize("role", list(TINY))
def test_a_picture_gets_the_same_alone_and_in_any_batch(opened, role):
    pictures = [p for p in PICTURES if p.size == (64, 64)] if role == "colors" else PICTURES
    alone = ASK[role](opened(role, 1), pictures)
    together = ASK[role](opened(role, 3), pictures)
    assert labels(alone) == labels(together)
    assert flat(alone) == pytest.approx(flat(together), abs=1e-2 if role == "depth" else 1e-5, rel=1e-4)
    assert len(set(np.round(flat(alone), 6))) > 3 or role == "colors"  # pictures make a difference


@pytest.mark.parametrize("role", list(TINY))
def test_where_memory_runs_out_batches_are_halved_for_good(opened, role):
    pictures = PICTURES[:1] + PICTURES[3:] if role in ("colors", "instances") else PICTURES
    expected, model = ASK[role](opened(role), pictures), opened(role, 5)
    module = model._model.owlv2 if role == "objects" else model._model
    if role not in ("instances", "depth"):
        module = module.vision_model
    seen = []

    def refuse(module, args, kwargs):
        seen.append(len(kwargs["pixel_values"]))
        if seen[-1] > 2:
            raise torch.OutOfMemoryError

    module.register_forward_pre_hook(refuse, with_kwargs=True)
    found = ASK[role](model, pictures)
    assert labels(found) == labels(expected) and flat(found) == pytest.approx(flat(expected), abs=1e-2, rel=1e-3)
    assert max(seen) > 2 and model._in_batches.size <= 2
    seen.clear()
    ASK[role](model, pictures)
    assert max(seen) <= 2


def test_a_picture_that_memory_does_not_hold_is_an_error(opened):
    def refuse(module, args, kwargs):
        raise torch.OutOfMemoryError

    model = opened("depth")
    model._model.register_forward_pre_hook(refuse, with_kwargs=True)
    with pytest.raises(UserError, match=r"dpt: one picture exceeds the GPU's memory"):
        model.depths(PICTURES, (8, 8))


def test_nothing_asked_is_nothing_said(opened):
    assert opened("similarity").similarities([]) == opened("colors").colors([]) == []
    assert opened("attributes").probabilities([]) == opened("instances").detect([]) == []
    assert opened("objects").detect([], []) == opened("depth").depths([], (8, 8)) == []
    assert opened("objects").detect([PICTURES[0]], [[]]) == [[]]


def test_a_benchmarks_models_are_opened_together(scorer_folders):
    benchmark = {
        role: ScorerModel(through=TINY[role][0], path=scorer_folders[role]) for role in MODELS["t2i_compbench"]
    }
    assert {role: type(model) for role, model in open_models("t2i_compbench", benchmark, 2).items()} == {
        role: CLASSES[role] for role in MODELS["t2i_compbench"]
    }


@pytest.mark.parametrize("mode", ["official", "fixed"])
def test_the_benchmarks_rules_take_what_the_models_say(scorer_folders, mode):
    """Two pictures of a prompt a category, through each benchmark's own scorer."""
    rows = [
        {"tag": "colors", "include": [{"class": "cow", "count": 1, "color": "red"}], "prompt": "a red cow"},
        {"tag": "counting", "include": [{"class": "cup", "count": 2}], "exclude": [], "prompt": "two cups"},
    ]
    texts = {
        "color": "a red apple and a green vase",
        "shape": "a round clock and a square box",
        "texture": "a wooden table and a metallic chair",
        "spatial": "a clock on the left of a cow",
        "3d_spatial": "a cow in front of a clock",
        "numeracy": "two cows and three clocks",
        "non_spatial": "a man reads a book",
        "complex": "a red clock next to a small cow",
    }
    prompts = {
        "geneval": [Prompt(f"{number:05d}", row["prompt"], row["tag"], row) for number, row in enumerate(rows)],
        "t2i_compbench": [
            Prompt(f"{category}_000", text, category, "spatialaction" if category == "complex" else None)
            for category, text in texts.items()
        ],
    }
    for name, some in prompts.items():
        models = open_models(
            name, {role: ScorerModel(through=TINY[role][0], path=scorer_folders[role]) for role in MODELS[name]}, 3
        )
        scorer = BENCHMARKS[name].scorer(None, some, models, mode)
        pictures = [Picture(prompt, index, PICTURES[index]) for prompt in some for index in range(2)]
        scores = scorer(pictures)
        assert [(one.prompt_id, one.index) for one in scores] == [(one.prompt.id, one.index) for one in pictures]
        assert all(-1 <= one.score <= 1 for one in scores) and json.dumps([one.seen for one in scores])


def test_a_picture_is_encoded_once_however_much_is_asked(opened, monkeypatch):
    seen = []
    similarity, attributes = opened("similarity"), opened("attributes")
    for model in (similarity._model, attributes._model):
        model.vision_model.register_forward_pre_hook(
            lambda module, args, kwargs: seen.append(len(kwargs["pixel_values"])), with_kwargs=True
        )
    pairs = [(picture, text) for picture in PICTURES[:2] for text in ("a", "b", "c")]
    similarity.similarities(pairs)
    attributes.probabilities(pairs)
    assert seen == [2, 2]


@pytest.mark.parametrize(
    ("benchmark", "role"),
    [(benchmark, role) for benchmark in ("geneval", "t2i_compbench") for role in MODELS[benchmark]],
)
def test_a_random_model_does_not_pass_its_canary(opened, benchmark, role):
    models = {**ToldModels(lambda *asked: None).roles, role: opened(role)}
    if role == "depth":
        models["objects"].frame = owlv2.FRAME
    with pytest.raises(UserError, match=f"{benchmark}: the model random for {role} does not see what a test picture"):
        canaries.check(benchmark, models, dict.fromkeys(models, "random"))


def test_a_random_answerer_does_not_pass_its_canary(root):
    source = ScorerModel(through="transformers", path=root / "resources/blocks/clip-llama")
    models = {"answers": engine.QuestionAnswerer(source, 4, None)}
    with pytest.raises(UserError, match=r"dpg_bench: the model random for answers does not see"):
        canaries.check("dpg_bench", models, {"answers": "random"})
