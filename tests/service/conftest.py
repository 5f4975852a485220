"""A run directory with one row and dreams, and a heartbeat of this very process."""

import os

import numpy as np
import pytest

from dgdmn.records import RunWriter

STATUS = {"task": "a", "step": 1, "steps": 2, "share": 0.25, "seconds": 10.0, "seconds_left": 30.0}
STATUS |= {"acc": 0.5, "message": "", "pid": os.getpid()}


@pytest.fixture
def writer(tmp_path):
    """The writer of tmp_path/run, which is learning."""
    writer = RunWriter(tmp_path / "run", {"key": "k", "tasks": ["a", "b"]})
    writer.row("accuracy", "a", [1.0, 0.0])
    images = np.arange(48, dtype=np.uint8).reshape(3, 4, 4)
    writer.artifact("dreams-001", x=images, y=np.array([2, 0, 1]))
    writer.status("learning", **STATUS)
    return writer


@pytest.fixture
def status():
    """The fields of a status."""
    return dict(STATUS)
