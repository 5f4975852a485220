"""A run that is killed at any instant, or meets a full disk, continues and ends with the same bits."""

import errno
import os
import random
import shutil
import signal
import time
import traceback
import warnings
from dataclasses import replace
from functools import cache
from itertools import cycle
from pathlib import Path

import pytest

from dgdmn.config import resolve
from dgdmn.core import files
from dgdmn.core.errors import DgdmnError
from dgdmn.records import RunRecord
from dgdmn.runs.checkpoint import Checkpoints
from dgdmn.runs.runner import execute
from dgdmn.runs.spec import RunSpec
from dgdmn.storage import directory as saved

TINY = {"samples_per_task": 16, "generator_epochs": 2, "learner_epochs": 2, "min_steps": 2}
TINY |= {"n_stm": 3, "generator_layers": (16,), "sttm_generator_layers": (8,)}


def spec(algorithm):
    return RunSpec("embedded", algorithm, "quick", replace(resolve("quick", "embedded"), **TINY))


def forked(what, out, sabotage=lambda: None, every=0.0):
    """Start the run in a process of its own, which never comes back into pytest."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of threads that are not forked: one is all a run uses
        pid = os.fork()
    if pid:
        return pid
    try:
        warnings.simplefilter("ignore")  # of a checkpoint that a kill cut short
        os.fsync = lambda descriptor: None  # what is written outlives a process without it
        sabotage()
        execute(what, out, every=every)
        os._exit(0)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(1)


def ended(pid):
    """Wait for a process: whether it was killed; that it failed is an error."""
    status = os.waitpid(pid, 0)[1]
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0, "the run failed: see stderr"
    return os.WIFSIGNALED(status)


def results(directory):
    """All that must not depend on kills."""
    record = RunRecord.read(directory)
    csv = {path.name: path.read_bytes() for path in directory.glob("*.csv")}
    events = [
        dict(event, time=0, seconds=0) for event in record.events if event["kind"] != "resumed"
    ]
    return (
        csv,
        events,
        record.artifacts,
        record.summary["samples_trained"],
        record.summary["sleeps"],
    )


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The results of an uninterrupted run, and the seconds it took; made here, so that forks need not warm up."""
    execute(spec("dgdmn"), tmp_path_factory.mktemp("warm"))

    @cache
    def run(what):
        since = time.monotonic()
        record = execute(what, tmp_path_factory.mktemp("whole"))
        return results(record.directory), time.monotonic() - since

    return run


def killed_until_done(what, out, rng, seconds):
    """Kill a run again and again after random times; how often it took."""
    kills = 0
    while True:
        pid = forked(what, out)
        time.sleep(rng.uniform(0.0, seconds))
        os.kill(pid, signal.SIGKILL)
        if not ended(pid):
            return kills
        kills += 1


@pytest.mark.parametrize("least", [20, pytest.param(200, marks=pytest.mark.slow)])
def test_a_run_survives_kills_at_random_times(least, tmp_path, whole):
    rng, kills = random.Random(least), 0
    for number, name in enumerate(cycle(["dgdmn", "si", "er", "dgdmn-recog"])):
        if kills >= least and number >= 3:
            return
        expected, seconds = whole(spec(name))
        kills += killed_until_done(spec(name), tmp_path / str(number), rng, seconds)
        assert results(tmp_path / str(number) / spec(name).name) == expected
        print(f"{kills} kills survived in {number + 1} runs")


def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)


def half_a_file(path, content):
    path.with_name(f".{path.name}.tmp").write_bytes(content[: len(content) // 2])
    die()


def half_a_line(path, content):
    with path.open("ab") as file:
        file.write(content[: len(content) // 2])
    die()


def half_removed(pattern):
    return lambda place: (next(place.glob(pattern)).unlink(), die())


def at(owner, name, only="", nth=12, before=None, after=None):
    """Something happens before or after the nth call of a function whose first argument has this in it."""

    def sabotage(patch=setattr):
        real, left = getattr(owner, name), [nth]

        def replaced(*given, **named):
            left[0] -= only in str(given[0])
            now = only in str(given[0]) and left[0] == 0
            if now and before:
                before(*given)
            result = real(*given, **named)
            if now and after:
                after(*given)
            return result

        patch(owner, name, replaced)

    return sabotage


CHOSEN = {
    "before a tensor file": at(saved, "write_atomic", ".safetensors", 30, before=die),
    "half a tensor file": at(saved, "write_atomic", ".safetensors", 30, before=half_a_file),
    "before the manifest": at(saved, "write_atomic", "manifest", before=die),
    "half the manifest": at(saved, "write_atomic", "manifest", before=half_a_file),
    "after the manifest": at(saved, "write_atomic", "manifest", after=die),
    "before a flush": at(os, "fsync", "", 75, before=die),
    "after a flush": at(os, "fsync", "", 76, after=die),
    "before a rename": at(os, "replace", "checkpoints", 35, before=die),
    "after a rename": at(os, "replace", "checkpoints", 35, after=die),
    "an empty checkpoint": at(os, "mkdir", "checkpoints/", after=die),
    "pruning, the manifest gone": at(
        shutil, "rmtree", "checkpoints", before=half_removed("manifest.json")
    ),
    "pruning, tensors gone": at(
        shutil, "rmtree", "checkpoints", before=half_removed("*.safetensors")
    ),
    "half a row": at(files, "append_bytes", "accuracy.csv", 4, before=half_a_line),
    "between two rows": at(files, "append_bytes", "accuracy_ltm.csv", 4, before=die),
    "half an event": at(files, "append_bytes", "events", 40, before=half_a_line),
    "half the summary": at(files, "write_atomic", "summary", 1, before=half_a_file),
}
RESUMING = [
    at(files, "write_atomic", "accuracy.csv", 1, after=die),
    at(files, "write_atomic", "accuracy_ltm.csv", 1, after=die),
    at(files, "write_atomic", "events", 1, before=half_a_file),
    at(files, "write_atomic", "events", 1, after=die),
    at(files, "write_atomic", "config", 1, before=half_a_file),
    at(files, "append_bytes", "events", 1, before=half_a_line),
]


@pytest.mark.parametrize("instant", CHOSEN)
def test_a_run_survives_a_kill_at_a_chosen_instant(instant, tmp_path, whole):
    what = spec("dgdmn")
    assert ended(forked(what, tmp_path, CHOSEN[instant])), "killed"
    assert not ended(forked(what, tmp_path, every=60.0))
    assert results(tmp_path / what.name) == whole(what)[0]
    resumed = [
        event for event in RunRecord.read(tmp_path / what.name).events if event["kind"] == "resumed"
    ]
    assert resumed[-1]["steps"] > 0, "not from the beginning"
    assert not (tmp_path / what.name / "checkpoints").exists()


def test_a_run_survives_kills_while_it_is_taken_up_again(tmp_path, whole):
    what = spec("dgdmn")
    assert ended(forked(what, tmp_path, CHOSEN["half an event"]))
    for sabotage in RESUMING:
        assert ended(forked(what, tmp_path, sabotage)), "killed"
    assert not ended(forked(what, tmp_path, every=60.0))
    assert results(tmp_path / what.name) == whole(what)[0]


def full(*_):
    raise OSError(errno.ENOSPC, "No space left on device")


FULL = {
    "making a directory": (os, "mkdir", "checkpoints/", 12),
    "writing": (Path, "open", ".safetensors.tmp", 30),
    "flushing": (os, "fsync", "", 75),
    "renaming": (os, "replace", "checkpoints/", 35),
    "a row": (Path, "open", "accuracy.csv", 4),
    "an event": (Path, "open", "events", 40),
}


@pytest.mark.parametrize("step", FULL)
def test_a_full_disk_is_reported_and_the_run_continues_when_there_is_space(
    step, tmp_path, whole, monkeypatch
):
    what, (owner, name, only, nth) = spec("dgdmn"), FULL[step]
    for calls in (nth, 1, 1):
        with monkeypatch.context() as patch, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the checkpoint that was cut short
            at(owner, name, only, calls, before=full)(patch.setattr)
            with pytest.raises(DgdmnError, match="No space left on device; free space there"):
                execute(what, tmp_path, every=0.0)
            places = tmp_path / what.name / "checkpoints"
            assert Checkpoints(places).latest().steps > 0
            assert len(list(places.iterdir())) <= 3, "what was cut short does not pile up"
    assert not ended(forked(what, tmp_path, every=60.0))
    assert results(tmp_path / what.name) == whole(what)[0]
