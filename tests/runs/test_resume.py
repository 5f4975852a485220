"""A run that is interrupted again and again ends with the same bits as one that was not."""

import itertools
import os
import random
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from dgdmn import storage
from dgdmn.algorithms import algorithm
from dgdmn.algorithms.estimator import ContinualClassifier
from dgdmn.config import resolve
from dgdmn.config.registry import ALGORITHMS
from dgdmn.core.errors import DgdmnError, Interrupted
from dgdmn.networks.optimizer import RMSProp
from dgdmn.networks.train import TrainingState
from dgdmn.runs.checkpoint import Checkpoints, Progress
from dgdmn.runs.runner import execute
from dgdmn.runs.spec import RunSpec
from dgdmn.testing import find_rows

TINY = {"samples_per_task": 16, "generator_epochs": 2, "learner_epochs": 2, "joint_epochs": 2}
TINY |= {"min_steps": 4, "n_stm": 3, "generator_layers": (16,), "sttm_generator_layers": (8,)}
DEEP = {"code_buffer": True, "prior_components": 12, "latent_noise": 1.0, "momentum": 0.9}
DEEP |= {"lr_schedule": "one_cycle", "resample_dreams": True, "recognition": "density"}
DEEP |= {"predict_with": "learner+prior", "sttm_min_steps": 5}


def spec(algorithm, revise=(), threads=1, **changes):
    options = replace(resolve("quick", "embedded"), **TINY, **changes)
    return RunSpec("embedded", algorithm, "quick", options, revise=revise, threads=threads)


@pytest.fixture(autouse=True)
def quick_and_unchanged(monkeypatch):
    """No process is killed here, so nothing has to reach the disk."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    """The record of each run without an interruption, made once."""
    out = tmp_path_factory.mktemp("whole")
    return lambda what: execute(what, out)


def stop_after(epochs, look=lambda: None):
    """Asks to stop when so many epochs, or tasks, have ended."""
    left = itertools.count(epochs - 1, -1)
    return lambda: (look(), next(left) <= 0)[1]


def interrupted(what, out, lengths, look=lambda: None):
    """The record of a run that was stopped after each of these numbers of epochs, and how often it was."""
    for times, epochs in enumerate(lengths):
        try:
            return execute(what, out, every=0.0, stop=stop_after(epochs, look)), times
        except Interrupted:
            pass
    raise AssertionError("the run does not come to an end")


def seeded(seed):
    rng = random.Random(seed)
    return [rng.randint(1, 24) for _ in range(100)]


def events_of(record):
    return [dict(event, time=0, seconds=0) for event in record.events if event["kind"] != "resumed"]


def check_same(record, whole):
    for name in {path.name for one in (record, whole) for path in one.directory.glob("*.csv")}:
        assert (record.directory / name).read_bytes() == (whole.directory / name).read_bytes()
    assert events_of(record) == events_of(whole)
    for key in ("samples_trained", "sleeps", "acc", "memory_bytes", "exemplar_bytes", "chosen"):
        assert record.summary[key] == whole.summary[key]
    assert record.artifacts == whole.artifacts
    for name in whole.artifacts:
        once, again = whole.artifact(name), record.artifact(name)
        assert once.keys() == again.keys()
        assert all(np.array_equal(once[key], again[key]) for key in once), name
    assert not (record.directory / "checkpoints").exists()


SOON = ("nn", "er", "dgdmn")
EACH = [pytest.param(name, marks=() if name in SOON else pytest.mark.slow) for name in ALGORITHMS]
"""Every algorithm; in the quick suite those that differ in what they keep between two steps."""


@pytest.mark.parametrize("name", EACH)
def test_an_interrupted_run_has_the_same_bits(name, tmp_path, uninterrupted):
    places, kept = tmp_path / spec(name).name / "checkpoints", []
    look = lambda: kept.append(len(list(places.glob("*"))))  # noqa: E731
    record, times = interrupted(spec(name), tmp_path, seeded(0), look)
    check_same(record, uninterrupted(spec(name)))
    assert times >= 3
    assert sum(event["kind"] == "resumed" for event in record.events) == times
    assert max(kept) == 2, "the newest, and the one before it"


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("dgdmn", {"generator": "mixture", "features": "none", "code_dim": 16}),
        ("slda", {"features": "none"}),
    ],
)
def test_an_interrupted_run_of_sums_has_the_same_bits(name, options, tmp_path, uninterrupted):
    """It has no epochs, so it stops between two tasks."""
    what = spec(name, revise=(1,), **options)
    record, times = interrupted(what, tmp_path, [1, 2, 3] * 9)
    check_same(record, uninterrupted(what))
    assert times >= 5


REVISED = {"dgdmn, revised": spec("dgdmn", revise=(1, 3)), "nn, revised": spec("nn", revise=(2,))}
REVISED |= {
    "deep, revised": spec("dgdmn", revise=(1,), **DEEP),
    "deep": spec("dgdmn-recog", **DEEP),
}


@pytest.mark.slow
@pytest.mark.parametrize("what", REVISED.values(), ids=REVISED)
def test_revised_tasks_and_options_of_deep_keep_the_same_bits(what, tmp_path, uninterrupted):
    check_same(interrupted(what, tmp_path, seeded(1))[0], uninterrupted(what))


@pytest.mark.slow
def test_one_epoch_per_process_is_enough(tmp_path, uninterrupted):
    record, times = interrupted(spec("si"), tmp_path, [1] * 1000)
    check_same(record, uninterrupted(spec("si")))
    epochs = sum(event["kind"] == "epoch_done" for event in record.events)
    assert times == epochs + 10, "each epoch, and each task"


def newest(places):
    return sorted(places.iterdir())[-1]


def kept_rows(place, rows):
    """Where the files of a checkpoint, or the tensors in them, hold one of these rows."""
    files = {path.name: path.read_bytes() for path in place.iterdir()}
    return find_rows([files, storage.read(place)], np.concatenate(rows))


@pytest.mark.parametrize("name", EACH)
def test_checkpoints_hold_no_row_unless_the_algorithm_does(name, tmp_path, monkeypatch):
    given, learn = [], ContinualClassifier._learn

    def noting(self, X, *arguments, **named):
        given.extend([X] * (X.ndim == 3))  # the plan is made with others
        return learn(self, X, *arguments, **named)

    monkeypatch.setattr(ContinualClassifier, "_learn", noting)
    places, found = tmp_path / spec(name).name / "checkpoints", []
    for epochs in [5, 16, 9]:
        with pytest.raises(Interrupted):
            execute(spec(name), tmp_path, every=0.0, stop=stop_after(epochs))
        found += kept_rows(newest(places), given)
    assert bool(found) == ("row" in ALGORITHMS[name].keeps), found
    planted = torch.cat([torch.ones(1), torch.tensor(given[0][3]).flatten()])
    storage.write(places / "999999", {}, {"trainings": [[torch.zeros(3), planted]]})
    assert len(kept_rows(newest(places), given)) >= 2, "in the file and in the tensor"


def spoil(path):
    path.write_bytes(path.read_bytes()[::-1])


@pytest.mark.parametrize("damaged", [1, 2])
@pytest.mark.parametrize(
    "harm",
    [
        lambda place: spoil(place / "manifest.json"),
        lambda place: spoil(next(place.glob("*.safetensors"))),
        lambda place: storage.write(place, {}, {"model": {}}),
    ],
    ids=["manifest", "tensors", "no checkpoint"],
)
def test_the_checkpoint_before_a_damaged_one_is_used(harm, damaged, tmp_path, uninterrupted):
    with pytest.raises(Interrupted):
        execute(spec("dgdmn"), tmp_path, every=0.0, stop=stop_after(45))
    for place in sorted((tmp_path / spec("dgdmn").name / "checkpoints").iterdir())[-damaged:]:
        harm(place)
    with pytest.warns(UserWarning, match="using the checkpoint before it") as caught:
        record = execute(spec("dgdmn"), tmp_path)
    assert len(caught) == damaged
    check_same(record, uninterrupted(spec("dgdmn")))
    resumed = next(event for event in record.events if event["kind"] == "resumed")
    assert (resumed["steps"] > 0) == (damaged == 1), "without a complete one it starts over"


def test_an_incomplete_checkpoint_is_ignored_without_a_warning(tmp_path, uninterrupted):
    with pytest.raises(Interrupted):
        execute(spec("dgdmn"), tmp_path, every=0.0, stop=stop_after(45))
    (max((tmp_path / spec("dgdmn").name / "checkpoints").iterdir()) / "manifest.json").unlink()
    record = execute(spec("dgdmn"), tmp_path)  # a warning would be an error
    check_same(record, uninterrupted(spec("dgdmn")))


def test_a_resumed_run_uses_the_threads_it_began_with(tmp_path):
    for threads in (2, 1):
        used = []
        stop = stop_after(5, look=lambda used=used: used.append(torch.get_num_threads()))
        with pytest.raises(Interrupted):
            execute(spec("nn", threads=threads), tmp_path, stop=stop)
        assert set(used) == {2}


def test_a_checkpoint_is_saved_when_its_time_has_come(tmp_path, monkeypatch):
    now, saved = [1000.0], {}
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    hook = Checkpoints(tmp_path, every=60.0)
    hook.attach(algorithm("nn")(), dict, Progress())
    network = torch.nn.Linear(2, 2)
    optimizer = RMSProp(
        network.parameters(), learning_rate=1, rho=0, epsilon=0, clip_norm=0, clip_value=0
    )
    for seconds in (0, 30, 59.9, 60, 61, 119.9, 125, 184.9, 185, 1000):
        now[0] = 1000.0 + seconds
        hook.epoch_done(TrainingState(network, optimizer, torch.Generator()), 1, 99)
        saved |= {path.name: seconds for path in tmp_path.iterdir() if path.name not in saved}
    assert list(saved.values()) == [60, 125, 185, 1000]


def test_times_add_up_over_interruptions(tmp_path, monkeypatch):
    now, order = [0.0], torch.randperm

    def slow(*arguments, **named):
        now[0] += 1
        return order(*arguments, **named)

    monkeypatch.setattr(torch, "randperm", slow)  # each epoch begins with one
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(
        time, "process_time", lambda: now[0] / 2
    )  # half of the time another had the core
    summary = interrupted(spec("nn"), tmp_path, seeded(3))[0].summary
    assert summary["train_seconds"] == summary["seconds"] == 10 * 4
    assert summary["train_cpu_seconds"] == 10 * 2
    assert summary["evaluate_seconds"] == summary["evaluate_cpu_seconds"] == 0


def test_a_checkpoint_of_another_network_is_refused_in_one_line():
    """Its checksums are right, so only the shapes of its weights tell."""
    network = torch.nn.Linear(2, 2)
    optimizer = RMSProp(
        list(network.parameters()),
        learning_rate=0.1,
        rho=0.9,
        epsilon=1e-8,
        momentum=0.0,
        clip_norm=0.0,
        clip_value=0.0,
    )
    training = TrainingState(network, optimizer, torch.Generator())
    checkpoints = Checkpoints(Path("unused"))
    checkpoints.attach(None, dict, Progress(trainings=([torch.zeros(9, 9)] * 5,)))
    with pytest.raises(DgdmnError, match=r"does not fit this run .*; remove it") as raised:
        checkpoints.begin(training)
    assert "\n" not in str(raised.value)
