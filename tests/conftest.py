"""What every test may use."""

import os
from pathlib import Path

import pytest

# Before torch is imported, here and in what tests start: the order in which two threads add up would change sums.
os.environ["OMP_NUM_THREADS"] = "1"

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def root() -> Path:
    """The checkout."""
    return ROOT


@pytest.fixture(scope="session")
def shared_path() -> Path:
    """Real data for tests, outside the repository: $CAPSWEEP_SHARED, by default the folder `shared` beside it."""
    path = Path(os.environ.get("CAPSWEEP_SHARED", ROOT.parent / "shared"))
    if not path.is_dir():
        pytest.skip(f"no real data: {path} is absent (set CAPSWEEP_SHARED)")
    return path
