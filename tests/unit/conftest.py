"""What several unit tests take: models that are slow to build are built once."""

from functools import partial
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def scorer_folders(tmp_path_factory) -> dict[str, Path]:
    """The folder of each role's tiny model behind the generation scores."""
    from opened_scorers import build_all

    return build_all(tmp_path_factory.mktemp("scorers"))


@pytest.fixture
def opened(scorer_folders):
    """`opened(role, batch)`: that model."""
    from opened_scorers import open_scorer

    return partial(open_scorer, scorer_folders)
