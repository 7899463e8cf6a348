"""BLIP-VQA's probability of yes against the authors' own code with the same weights (see make_blip.py)."""

import json
from pathlib import Path

import numpy as np
import pytest

from tests.golden import make_blip as made
from tests.unit.tiny_scorers import build_blip
from workflow_scripts.benchmarks.generation.models.blip import YesProbability
from workflow_scripts.spec import ScorerModel

GOLDEN = json.loads((Path(__file__).parent / "blip.json").read_text())


@pytest.mark.parametrize("batch", [1, 4, 15])
def test_probabilities_of_yes(tmp_path, batch):
    model = YesProbability(ScorerModel(through="blip", path=build_blip(tmp_path)), batch)
    asked = [(picture, question) for picture in made.pictures() for question in made.QUESTIONS]
    found = np.reshape(model.probabilities(asked), (len(GOLDEN), len(made.QUESTIONS)))
    assert np.abs(found - GOLDEN).max() < 1e-6 < np.ptp(GOLDEN, axis=1).min() and np.ptp(GOLDEN, axis=0).min() > 1e-3
