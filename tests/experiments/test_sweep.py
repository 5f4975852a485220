"""Runs side by side: what a child has to say when it fails."""

import time

from dgdmn.experiments.spec import RunSpec
from dgdmn.experiments.sweep import run_all
from dgdmn.presets import preset


def test_a_failure_longer_than_a_pipe_takes_is_told_and_does_not_hang(tmp_path):
    began = time.monotonic()

    def look(failures):
        assert time.monotonic() - began < 120, "it waits for a pipe that nobody reads"

    spec = RunSpec("embedded", "nn", "quick", preset("quick", "embedded"), device="x" * 100_000)
    (failure,) = run_all([spec], tmp_path, 1, look)
    assert failure.run == spec.name
    assert "xxx" in failure.message
    assert "xxx" in failure.trace
