"""Parts of your own: a memory, an algorithm, a generator; and what a call copies and computes."""

import inspect
import pickle
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from toy_memory import Means

from dgdmn import DGDMN, load
from dgdmn.algorithms import algorithm
from dgdmn.config.registry import algorithm_info
from dgdmn.core.errors import UsageError
from dgdmn.core.events import EpochDone
from dgdmn.testing import check_algorithm, check_generator, check_memory

EXAMPLES = Path(__file__).parents[2] / "examples"


# A memory


def test_a_memory_of_at_most_40_lines_of_code_passes_check_memory():
    lines = inspect.getsource(Means).splitlines()
    code = [line for line in lines if line.strip() and not line.strip().startswith('"""')]
    assert len(code) <= 40
    check_memory(Means)


class ChangesSnapshots(Means):
    def learn(self, new, tasks, ctx, recalled=None):
        means = self.means
        super().learn(new, tasks, ctx, recalled)
        means.update(self.means)
        self.means = means


class KeepsRows(Means):
    def learn(self, new, tasks, ctx, recalled=None):
        super().learn(new, tasks, ctx, recalled)
        self.rows = new.x


class WrongProbabilities(Means):
    def predict_proba(self, x):
        return 2 * super().predict_proba(x)


class ForgetsTasks(Means):
    def consolidate(self, task_memories, ctx):
        super().consolidate(task_memories[:1], ctx)


class SavesNothing(Means):
    def load_state(self, state):
        super().load_state({**state, "means": {}})


class CannotRecall:
    def __init__(self, shape, n_classes, role, rng):
        pass


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (ChangesSnapshots, "learn changes a snapshot"),
        (KeepsRows, "keeps training rows"),
        (WrongProbabilities, "probabilities do not sum to 1"),
        (ForgetsTasks, "consolidate does not log the tasks"),
        (SavesNothing, "load_state changes answers"),
        (CannotRecall, "CannotRecall lacks a method"),
    ],
)
def test_check_memory_says_what_is_wrong(kind, message):
    with pytest.raises(AssertionError, match=message):
        check_memory(kind)


def test_check_memory_accepts_rows_where_they_are_declared():
    check_memory(KeepsRows, keeps_rows=True)


def test_an_own_memory_is_saved_pickled_and_passed_again(tasks, tmp_path):
    model = DGDMN(memory=Means, random_state=0).partial_fit(*tasks[0], task="a")
    model.save(tmp_path)
    with pytest.raises(UsageError, match=r"its own memory, toy_memory\.Means; use load\(path, mem"):
        load(tmp_path)
    loaded, pickled = load(tmp_path, memory=Means), pickle.loads(pickle.dumps(model))
    for each in (loaded, pickled):
        assert np.array_equal(each.predict_proba(tasks[0][0]), model.predict_proba(tasks[0][0]))
    assert not model.has_latents()
    assert model.info().awake.keys() == {"a"}


# An algorithm


@pytest.fixture
def own_gnb(monkeypatch):
    """The class of examples/own_algorithm.py, which is not registered, and its name."""
    monkeypatch.syspath_prepend(EXAMPLES)
    yield algorithm("own_algorithm:OwnGNB")
    sys.modules.pop("own_algorithm", None)


def test_an_unregistered_algorithm_is_found_by_its_module_and_class(own_gnb, tasks):
    about = algorithm_info("own_algorithm:OwnGNB")
    assert (about.name, about.title) == ("own_algorithm:OwnGNB", "OwnGNB")
    assert [about.generative, about.short_term, about.exemplars] == [False] * 3
    check_algorithm(own_gnb)
    info = own_gnb().partial_fit(*tasks[0]).info()
    assert (info.algorithm, info.title) == ("own_algorithm:OwnGNB", "OwnGNB")


def test_an_unregistered_algorithm_is_loaded_only_with_its_class(own_gnb, tasks, tmp_path):
    model = own_gnb().partial_fit(*tasks[0]).partial_fit(*tasks[1])
    model.save(tmp_path)
    with pytest.raises(UsageError, match="own_algorithm:OwnGNB is not registered; pass load"):
        load(tmp_path)
    loaded = load(tmp_path, algorithm=own_gnb)
    assert np.array_equal(loaded.predict_proba(tasks[0][0]), model.predict_proba(tasks[0][0]))


@pytest.mark.parametrize("name", ["no_such_module:OwnGNB", "own_algorithm:NoSuchClass", ":"])
def test_a_class_that_cannot_be_imported_gives_one_sentence(own_gnb, name):
    with pytest.raises(UsageError, match=r"cannot import .*; give package.module:Class"):
        algorithm(name)


# A generator with only fit and sample


class Pixels:
    """Independent pixels with the mean and deviation of the inputs. It cannot reconstruct."""

    def __init__(self, shape, role, rng):
        self.mean = self.deviation = torch.zeros(int(np.prod(shape)))

    def fit(self, x, rng, callback):
        self.mean, self.deviation = x.mean(dim=0), x.std(dim=0, correction=0)
        callback(EpochDone("generator", 1, 1, len(x), 0.0))

    def sample(self, n, rng):
        noise = torch.randn(n, len(self.mean), generator=rng)
        return (self.mean + self.deviation * noise).clamp(0, 1)

    def state_dict(self):
        return {"mean": self.mean, "deviation": self.deviation}

    def load_state_dict(self, state_dict):
        self.mean, self.deviation = state_dict["mean"], state_dict["deviation"]


def test_a_generator_without_reconstruction_passes_check_generator():
    check_generator(Pixels)


def test_a_generator_without_reconstruction_works_with_task_names(make, tasks, tmp_path):
    model = make("dgdmn", generator=Pixels, n_stm=2, min_steps=60)
    for number, (X, y) in enumerate(tasks):
        model.partial_fit(X, y, task=str(number))
        assert (model.predict(X, task=str(number)) == y).all()
    assert model.consolidated_tasks() == ("0", "1")
    assert model.sample(5)[0].shape == (5, 6, 6)
    model.partial_fit(*tasks[0], task="0").sleep()  # learned again
    before = model.predict_proba(tasks[0][0])  # one memory: nothing to recognize
    model.save(tmp_path)
    assert np.array_equal(load(tmp_path, generator=Pixels).predict_proba(tasks[0][0]), before)


def test_a_generator_without_reconstruction_cannot_recognize(make, tasks):
    model = make("dgdmn", generator=Pixels, n_stm=2)
    for number, (X, y) in enumerate(tasks):
        model.partial_fit(X, y, task=str(number))
    fitted, message = model.fitted_, "Pixels cannot reconstruct.*; pass the task's name"
    with pytest.raises(UsageError, match=message):
        model.predict(tasks[0][0])  # a task is awake beside the long-term memory
    with pytest.raises(UsageError, match=message):
        model.partial_fit(*tasks[0])
    assert model.fitted_ is fitted
    assert model.predict(tasks[0][0], task="0").shape == (24,)


# What a call copies and computes


def test_recognition_runs_only_where_there_are_several_memories(tasks):
    calls = []

    class Counting(Means):
        def recognition_loss(self, x):
            calls.append(len(x))
            return super().recognition_loss(x)

    model = DGDMN(memory=Counting, n_stm=2).partial_fit(*tasks[0], task="0")
    model.predict(tasks[0][0])  # one task memory
    model.partial_fit(*tasks[1], task="1")
    model.predict(tasks[0][0])  # the long-term memory
    assert calls == []
    model.partial_fit(*tasks[2], task="2")
    model.predict(tasks[0][0], task="0")
    assert calls == []
    assert (model.predict(tasks[0][0]) == 0).all()
    assert calls == [24, 24], "one call for each of two memories"


def test_learning_an_awake_task_copies_no_other_memory(make, tasks):
    model = make("dgdmn", n_stm=2)
    for number in range(2):
        model.partial_fit(*tasks[number], task=str(number))
    before = model.fitted_.memory
    model.partial_fit(*tasks[2], task="2")  # a new class: the long-term memory gets an output later
    after = model.fitted_.memory
    assert after is not before
    assert after.ltm.generator is before.ltm.generator
    assert after.ltm.learner is before.ltm.learner
    awake = make("dgdmn", n_stm=3).partial_fit(*tasks[0], classes=[0, 1], task="0")
    held, ltm = awake.fitted_.memory.stm.awake[0].memory, awake.fitted_.memory.ltm
    awake.partial_fit(*tasks[1], task="1")
    assert awake.fitted_.memory.stm.awake[0].memory is held
    assert awake.fitted_.memory.ltm is ltm


def identities(fitted):
    """What must be the same objects after a failed call."""
    memory = fitted.memory
    memories = [memory.ltm, *(held.memory for held in memory.stm.awake)]
    parts = [
        part for one in memories for part in (one.generator, one.learner, one.prior, one.codes)
    ]
    shared = [fitted, memory, memory.stm, memory.stm.awake, *memories, *parts, fitted.labels]
    return [id(one) for one in (*shared, fitted.rng, fitted.inputs)]


def test_a_failed_call_leaves_the_same_objects(make, tasks):
    model = make("dgdmn", n_stm=2)
    for number, (X, y) in enumerate(tasks):
        model.partial_fit(X, y, task=str(number))
    before, used, labels = identities(model.fitted_), model.fitted_.rng.used, [0, 1, 2]

    def stop(event):
        raise KeyboardInterrupt

    model.callback = stop
    for call in (
        lambda: model.partial_fit(tasks[0][0], np.full(24, 9), task="new class"),
        lambda: model.partial_fit(*tasks[2], task="2"),
        model.sleep,
    ):
        with pytest.raises(KeyboardInterrupt):
            call()
        assert identities(model.fitted_) == before
        assert (model.fitted_.rng.used, model.fitted_.labels) == (used, labels)
