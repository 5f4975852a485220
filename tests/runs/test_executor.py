"""Runs side by side: failures are reported, a killed process does not stop the others."""

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import Future

import pytest

from dgdmn.config import override, resolve
from dgdmn.records import RunRecord, read_status
from dgdmn.runs.executor import Failure, LocalCluster, run_all
from dgdmn.runs.spec import RunSpec

FEW = {"samples_per_task": 16, "learner_epochs": 1, "min_steps": 4}


def spec(algorithm="nn", seed=0, device="cpu", **changes):
    options = override(resolve("quick", "embedded"), FEW | changes)
    return RunSpec("embedded", algorithm, "quick", options, seed=seed, device=device)


@pytest.mark.slow
def test_a_failure_longer_than_a_pipe_holds_is_reported(tmp_path):
    began = time.monotonic()

    def look(failures):
        assert time.monotonic() - began < 120, "it waits for a full pipe"

    (failure,) = run_all([spec(device="x" * 100_000)], tmp_path, LocalCluster(1), look)
    assert failure.run == spec().name
    assert failure.usage
    assert "xxx" in failure.message
    assert "xxx" in failure.trace


@pytest.mark.slow
def test_a_killed_run_is_reported_and_the_others_are_completed(tmp_path):
    slow, quick = spec(learner_epochs=100_000), spec(seed=1)
    killed = []

    def look(failures):
        status = read_status(tmp_path / slow.name)
        if status and status["phase"] == "learning" and not killed:
            killed.append(os.kill(status["pid"], signal.SIGKILL))

    (failure,) = run_all([slow, quick], tmp_path, LocalCluster(2), look, every=0.05)
    assert (failure.run, failure.usage) == (slow.name, False)
    assert "ended with code -9" in failure.message
    assert RunRecord.read(tmp_path / quick.name).complete


@pytest.mark.slow
def test_an_error_in_the_caller_stops_the_runs_and_saves_them(tmp_path):
    slow = spec(learner_epochs=100_000)

    def look(failures):
        status = read_status(tmp_path / slow.name)
        if status and status["phase"] == "learning":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_all([slow], tmp_path, LocalCluster(1), look, every=0.05)
    status = read_status(tmp_path / slow.name)
    assert (status["phase"], status["message"]) == (
        "stopped",
        "stopped; everything done so far is saved",
    )
    assert list((tmp_path / slow.name / "checkpoints").iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("number", ["SIGTERM", "SIGHUP"])
@pytest.mark.parametrize("send", [os.kill, os.killpg], ids=["parent", "process group"])
def test_a_signal_to_the_parent_saves_its_runs(tmp_path, number, send):
    words = ["run", "embedded", "--algorithm", "nn", "--preset", "quick", "--out", str(tmp_path)]
    words += ["--learner-epochs", "100000"]
    process = subprocess.Popen(
        [sys.executable, "-m", "dgdmn.cli", *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        until = time.monotonic() + 60
        while not any((read_status(p) or {}).get("step") for p in tmp_path.iterdir()):
            assert time.monotonic() < until
            time.sleep(0.05)
        send(process.pid, getattr(signal, number))
        _, errors = process.communicate(timeout=60)
    finally:
        process.kill()
    (run,) = (path for path in tmp_path.iterdir() if path.is_dir())
    assert read_status(run)["message"] == "stopped; everything done so far is saved"
    assert list((run / "checkpoints").iterdir())
    assert "interrupted; finished work is saved" in errors
    assert process.returncode == 1


class Recorder:
    """A cluster that executes nothing: runs with an odd seed fail."""

    slots = 2

    def __init__(self):
        self.calls, self.running = [], []

    def submit(self, spec, out):
        self.calls.append(spec.seed)
        self.running.append((spec, Future()))
        assert len(self.running) <= self.slots
        return self.running[-1][1]

    def end_first(self, failures):
        if self.running:
            spec, future = self.running.pop(0)
            future.set_result(Failure(spec.name, "no", False, "") if spec.seed % 2 else None)

    def stop(self):
        self.calls.append("stop")

    def shutdown(self):
        self.calls.append("shutdown")


def test_a_cluster_gets_as_many_runs_as_it_has_slots(tmp_path):
    cluster, specs = Recorder(), [spec(seed=seed) for seed in range(5)]
    failures = run_all(specs, tmp_path, cluster, cluster.end_first, every=0.01)
    assert cluster.calls == [0, 1, 2, 3, 4, "stop", "shutdown"]
    assert [failure.run for failure in failures] == [specs[1].name, specs[3].name]
