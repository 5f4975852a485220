"""Every example runs unchanged, with warnings as errors."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

TRAINS = {"own_arrays", "own_generator", "watch_it_sleep"}
EXAMPLES = [
    pytest.param(path, id=path.stem, marks=pytest.mark.slow if path.stem in TRAINS else ())
    for path in sorted((Path(__file__).parents[1] / "examples").glob("*.py"))
]


@pytest.mark.parametrize("script", EXAMPLES)
def test_an_example_runs_and_is_short(script, tmp_path):
    assert len(script.read_text().splitlines()) <= 60
    result = subprocess.run(
        [sys.executable, "-W", "error", script],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=240,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip()
