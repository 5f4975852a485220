"""The suite in crash.py, in a process of its own with one thread.

It forks. A fork of a process that has used several torch threads may wait for them forever.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SUITE = Path(__file__).with_name("crash.py")


@pytest.mark.slow
@pytest.mark.parametrize("which", ["not slow", "slow"])
def test_a_run_survives_kills_and_full_disks(which):
    options = ["-q", "-p", "no:xdist", "-p", "no:cacheprovider", str(SUITE), "-m", which]
    result = subprocess.run(
        [sys.executable, "-m", "pytest", *options],
        cwd=SUITE.parents[2],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert result.returncode == 0, result.stdout
    assert " passed" in result.stdout
