"""The size cases of test_fuzz.py, in a process of its own with one thread: they fork (see test_crash.py)."""

import os
import subprocess
import sys
from pathlib import Path

SUITE = Path(__file__).with_name("test_fuzz.py")


def test_sizes_that_are_lies_cost_nothing():
    words = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:xdist",
        "-p",
        "no:cacheprovider",
        str(SUITE),
        "-k",
        "is_a_lie",
    ]
    result = subprocess.run(
        words, cwd=SUITE.parents[2], env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True,
        timeout=300,
    )  # fmt: skip
    assert result.returncode == 0, result.stdout
    assert " passed" in result.stdout
