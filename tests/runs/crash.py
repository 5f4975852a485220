"""A run that is killed at any instant, or meets a full disk, continues and ends with the same bits.

DGDMN_KILLS says how many kills are tried in total. Kinds of memory are found in the registry and the presets.
"""

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

import pytest

from dgdmn.config import PRESETS, resolve
from dgdmn.config.registry import ALGORITHMS
from dgdmn.core import files
from dgdmn.core.errors import DgdmnError
from dgdmn.records import RunRecord
from dgdmn.runs.checkpoint import Checkpoints
from dgdmn.runs.runner import execute
from dgdmn.runs.spec import RunSpec
from dgdmn.storage import directory as saved

TINY = {"samples_per_task": 16, "generator_epochs": 2, "learner_epochs": 2, "min_steps": 2}
TINY |= {"n_stm": 3, "generator_layers": (16,), "sttm_generator_layers": (8,)}


KILLS = int(os.environ.get("DGDMN_KILLS", "20"))
KINDS = [(name, "quick") for name in ALGORITHMS]
KINDS += [
    (name, preset)
    for preset in PRESETS
    for name, info in ALGORITHMS.items()
    if info.short_term and preset != "quick"
]


def spec(algorithm, preset="quick"):
    return RunSpec("embedded", algorithm, preset, replace(resolve(preset, "embedded"), **TINY))


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
    except DgdmnError as error:
        print(error, flush=True)
        os._exit(3)
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


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS, ids="-".join)
def test_a_run_survives_kills_at_random_times(kind, tmp_path, whole):
    what, rng, kills = spec(*kind), random.Random(KILLS), 0
    expected, seconds = whole(what)
    for number in range(KILLS):
        kills += killed_until_done(what, tmp_path / str(number), rng, seconds)
        assert results(tmp_path / str(number) / what.name) == expected
        if kills * len(KINDS) >= KILLS:
            break
    print(f"{kills} kills survived in {number + 1} runs of {what.name}")


@pytest.mark.slow
@pytest.mark.parametrize("writers", [2, 8])
@pytest.mark.parametrize("kind", [k for k in KINDS if ALGORITHMS[k[0]].generative], ids="-".join)
def test_several_writers_of_one_run_leave_one_run(kind, writers, tmp_path, whole):
    """Each one completes the run, finds it complete, or is refused in one line."""
    what, expected = spec(*kind), whole(spec(*kind))[0]
    pids = [forked(what, tmp_path) for _ in range(writers)]
    codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]
    assert 0 in codes
    assert set(codes) <= {0, 3}, "3: refused"
    assert results(tmp_path / what.name) == expected
    assert "resumed" not in {event["kind"] for event in RunRecord.read(tmp_path / what.name).events}


def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)


def half_a_file(path, content, **_):
    path.with_name(f".{path.name}.{'0' * 16}.tmp").write_bytes(content[: len(content) // 2])
    die()


def half_a_line(path, content, **_):
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
    "an empty checkpoint": at(os, "mkdir", "checkpoints/", 13, after=die),
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
    at(files, "truncate_file", "events", 1, before=die),
    at(files, "truncate_file", "events", 1, after=die),
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
    "making a directory": (os, "mkdir", "checkpoints/", 13),
    "writing": (files, "_open_regular", ".safetensors", 30),
    "flushing": (os, "fsync", "", 75),
    "renaming": (os, "replace", "checkpoints/", 35),
    "a row": (files, "_open_regular", "accuracy.csv", 4),
    "an event": (files, "_open_regular", "events", 40),
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
