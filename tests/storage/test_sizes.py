"""The size cases of test_fuzz.py, in a process of its own with one thread: they fork (see test_crash.py)."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SUITE = Path(__file__).with_name("test_fuzz.py")


@pytest.mark.parametrize("marked", ["not slow", pytest.param("slow", marks=pytest.mark.slow)])
def test_sizes_that_are_lies_cost_nothing(marked):
    words = ["-q", "-p", "no:xdist", "-p", "no:cacheprovider", str(SUITE), "-k", "is_a_lie", "-m", marked]
    result = subprocess.run(
        [sys.executable, "-m", "pytest", *words],
        cwd=SUITE.parents[2],
        env={**os.environ, "OMP_NUM_THREADS": "1", "DGDMN_MAY_FORK": "yes"},
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert result.returncode == 0, result.stdout
    assert " passed" in result.stdout
