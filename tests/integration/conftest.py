"""Real vLLM on tiny models: run by `make test` with the interpreter of .venv-serve.

Starting vLLM takes 10 to 30 seconds: tests of a module share an engine, and only one runs at a time.
"""

import os
from pathlib import Path

import pytest
from PIL import Image

os.environ["HF_HUB_OFFLINE"] = "1"

LARGEST = "SO109.jpeg"  # 8000 x 5333
PHOTOGRAPHS = ("DK001.jpg", "DK005.webp", "PA005.jpg", "PA049.jpg", LARGEST, "SO020.png", "SO068.jpeg", "TI011.jpeg")


@pytest.fixture(scope="session")
def smollm(tmp_path_factory) -> Path:
    """A real instruction model of 135M parameters, as a Transformers folder."""
    from smollm import build_smollm

    return build_smollm(tmp_path_factory.mktemp("smollm"))


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory):
    """A folder with tiny random weights of a captioner's real class: `tiny_model(name)`."""
    from tiny_models import BUILDERS

    made = {}

    def build(name: str) -> Path:
        if name not in made:
            made[name] = BUILDERS[name](tmp_path_factory.mktemp(name))
        return made[name]

    return build


@pytest.fixture(scope="session")
def photographs(shared_path) -> dict[str, Image.Image]:
    """Some of CAPEval's photographs by file name: tall and wide ones, small ones, the largest."""
    folder = shared_path / "data/capeval/image"
    return {name: Image.open(folder / name).convert("RGB") for name in PHOTOGRAPHS}
