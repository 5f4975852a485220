"""The committed results, loaded once."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))  # the package is not installed


@pytest.fixture(scope="session")
def root():
    return ROOT


@pytest.fixture(scope="session")
def results(root):
    from reproduction.results import load_results

    found, problems = load_results(root / "results")
    assert not problems
    return found
