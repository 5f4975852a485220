"""The peak of a run is its own: not that of its process before, nor of the process that started it."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from dgdmn.experiments import peak
from dgdmn.experiments.peak import forget_peak, peak_mb
from dgdmn.experiments.run import execute
from dgdmn.experiments.spec import RunSpec
from dgdmn.presets import overridden, preset

linux = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a process has one peak")
LARGE = 600
"""MiB: more than any of these tests takes beside it."""


def take(mb: int) -> None:
    """Fill so much memory, and give it back."""
    np.ones(mb << 20, np.uint8)


@linux
def test_what_was_taken_before_a_run_is_not_its_peak(tmp_path):
    forget_peak()
    before = peak_mb()
    take(LARGE)
    assert peak_mb() > before + 0.9 * LARGE
    few = {"samples_per_task": 16, "learner_epochs": 1, "min_steps": 4}
    record = execute(
        RunSpec("embedded", "nn", "quick", overridden(preset("quick", "embedded"), few)), tmp_path
    )
    assert 0 < record.summary["peak_rss_mb"] < before + 0.5 * LARGE


@linux
def test_what_a_parent_took_is_not_its_childs_peak():
    take(LARGE)
    script = "from dgdmn.experiments.peak import peak_mb; print(peak_mb())"
    said = subprocess.check_output([sys.executable, "-c", script], text=True)
    assert 0 < float(said) < LARGE / 2


def test_without_proc_it_is_what_the_system_counts(monkeypatch, tmp_path):
    monkeypatch.setattr(peak, "_OURS", Path(tmp_path / "nowhere"))
    forget_peak()
    assert peak_mb() > 10
