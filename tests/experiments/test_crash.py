"""The suite in crash.py, in a process of its own with one thread.

It forks, and a fork of a process that ever used several torch threads may wait for them for ever.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SUITE = Path(__file__).with_name("crash.py")


@pytest.mark.parametrize("which", ["not slow", pytest.param("slow", marks=pytest.mark.slow)])
def test_a_run_survives_kills_and_full_disks(which):
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
        "-m",
        which,
    ]
    result = subprocess.run(
        words, cwd=SUITE.parents[2], env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True,
        timeout=900,
    )  # fmt: skip
    assert result.returncode == 0, result.stdout
    assert " passed" in result.stdout
