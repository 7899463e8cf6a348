"""Real vLLM on tiny models: run by `make test` with the interpreter of .venv-serve."""

import os
from pathlib import Path

import pytest

os.environ["HF_HUB_OFFLINE"] = "1"


@pytest.fixture(scope="session")
def smollm(tmp_path_factory) -> Path:
    """A real instruction model of 135M parameters, as a Transformers folder."""
    from smollm import build_smollm

    return build_smollm(tmp_path_factory.mktemp("smollm"))
