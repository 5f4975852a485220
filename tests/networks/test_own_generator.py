"""The example of a user's own generator: it keeps the contract, and it runs."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

from dgdmn.testing import check_generator

EXAMPLE = Path(__file__).parents[2] / "examples" / "own_generator.py"


@pytest.mark.parametrize("shape", [(8, 8), (5,), (6, 4, 3)])
def test_it_keeps_the_contract(shape):
    spec = importlib.util.spec_from_file_location("own_generator", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    check_generator(module.Principal, shape)


def test_it_runs_and_remembers():
    done = subprocess.run(
        [sys.executable, "-W", "error", EXAMPLE], capture_output=True, text=True, check=True, timeout=120
    )
    accuracy = float(re.search(r"components: (0\.\d+)", done.stdout)[1])
    assert accuracy > 0.7, "a memory without dreams would know no more than the last five of ten tasks"
