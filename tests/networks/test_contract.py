"""`dgdmn.testing`: good parts pass, broken ones are caught with the right reason, rows are found."""

import copy
import functools
import importlib.util
import inspect
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from dgdmn.algorithms.nn import NN
from dgdmn.core.batch import Batch
from dgdmn.memory.task_log import TaskLog
from dgdmn.networks.classifier import Classifier
from dgdmn.networks.train import Schedule
from dgdmn.networks.vae import VAE
from dgdmn.testing import (
    check_algorithm,
    check_generator,
    check_learner,
    check_memory,
    find_rows,
)

SCHEDULE = Schedule(epochs=8, batch_size=32, learning_rate=0.01)


def vae(shape, role, rng, kind=VAE, convolutions=()):
    return kind(
        shape, hidden=(16,), convolutions=convolutions, latent_dim=4, schedule=SCHEDULE, rng=rng
    )


def classifier(shape, n_classes, role, rng, kind=Classifier, convolutions=()):
    return kind(
        shape, n_classes, hidden=(16,), convolutions=convolutions, schedule=SCHEDULE, rng=rng
    )


@pytest.mark.parametrize(
    ("shape", "convolutions"), [((8, 8), ()), ((8, 8), (4,)), ((9, 7, 3), (4,)), ((20,), ())]
)
def test_our_networks_pass(shape, convolutions):
    check_generator(functools.partial(vae, convolutions=convolutions), shape)
    check_learner(functools.partial(classifier, convolutions=convolutions), shape)


class KeepsRows(VAE):
    def fit(self, x, rng, callback):
        super().fit(x, rng, callback)
        self.last = x[::10]


class KeepsBytes(VAE):
    def fit(self, x, rng, callback):
        super().fit(x, rng, callback)
        rows = (x[:1] * 255).round().byte().numpy()
        self.again = lambda: rows


class KeepsRowsInItsClass(VAE):
    cache = []  # noqa: RUF012

    def fit(self, x, rng, callback):
        super().fit(x, rng, callback)
        self.cache.append(x)


class UsesGlobalTorch(VAE):
    def fit(self, x, rng, callback):
        super().fit(x[torch.randperm(len(x))], rng, callback)


class UsesGlobalNumpy(VAE):
    def fit(self, x, rng, callback):
        super().fit(x[np.random.permutation(len(x))], rng, callback)  # noqa: NPY002


class SendsNoEvents(VAE):
    def fit(self, x, rng, callback):
        super().fit(x, rng, lambda event: None)


class LearnsNothing(VAE):
    def fit(self, x, rng, callback):
        state = copy.deepcopy(self.state_dict())
        super().fit(x, rng, callback)
        self.load_state_dict(state)


class WritesIntoItsInputs(VAE):
    def fit(self, x, rng, callback):
        super().fit(x, rng, callback)
        x.mul_(0.5)


class SamplesOutOfRange(VAE):
    def sample(self, n, rng):
        return super().sample(n, rng) * 3 - 1


class SamplesImages(VAE):
    def sample(self, n, rng):
        return super().sample(n, rng).reshape(n, 8, 8)


class SamplesGlobally(VAE):
    def sample(self, n, rng):
        return super().sample(n, torch.default_generator)


class SamplesAlwaysTheSame(VAE):
    def sample(self, n, rng):
        return super().sample(n, torch.Generator().manual_seed(0))


class CannotSampleNothing(VAE):
    def sample(self, n, rng):
        return super().sample(max(n, 1), rng)


class ReconstructsAtRandom(VAE):
    def reconstruct(self, x):
        return (super().reconstruct(x) + 0.1 * torch.rand(x.shape)).clamp(0, 1)


class UsesTheBatch(VAE):
    def reconstruct(self, x):
        return super().reconstruct(x - x.mean(dim=0)) if len(x) else x


class CarriesGradients(VAE):
    def reconstruct(self, x):
        return self.decode(self.posterior(x)[0]).sigmoid()


class LossOfTheBatch(VAE):
    def reconstruction_loss(self, x):
        return super().reconstruction_loss(x).mean()


class LossIsNaN(VAE):
    def reconstruction_loss(self, x):
        return super().reconstruction_loss(x) * float("nan")


class SharesWeights(VAE):
    def __deepcopy__(self, memo):
        return self


class ForgetsItsState(VAE):
    def state_dict(self):
        return {key: value * 0 for key, value in super().state_dict().items()}


class CodesTooLong(VAE):
    def encode(self, x):
        mean, deviation = super().encode(x)
        return torch.cat([mean, mean], dim=1), deviation


class CodesWithGradients(VAE):
    def encode(self, x):
        mean, log_variance = self.posterior(x)
        return mean, (log_variance / 2).exp()


class NegativeDeviations(VAE):
    def encode(self, x):
        mean, deviation = super().encode(x)
        return mean, -deviation


class CodesOfTheBatch(VAE):
    def encode(self, x):
        return super().encode(x - x.mean(dim=0))


class DecodesToImages(VAE):
    def decode_mean(self, z):
        return super().decode_mean(z).reshape(len(z), 8, 8)

    def sample(self, n, rng):
        return super().sample(n, rng).flatten(1)

    def reconstruct(self, x):
        return super().reconstruct(x).flatten(1)


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        (KeepsRows, r"keeps training rows at \.last"),
        (KeepsBytes, r"keeps training rows at \.again\(\)"),
        (KeepsRowsInItsClass, r"keeps training rows at \.cache"),
        (UsesGlobalTorch, "uses torch's global random numbers"),
        (UsesGlobalNumpy, "uses numpy's global random numbers"),
        (SendsNoEvents, "sends no events"),
        (LearnsNothing, "does not lower reconstruction_loss"),
        (WritesIntoItsInputs, "writes into the inputs"),
        (SamplesOutOfRange, r"sample\(7\) gives values outside"),
        (SamplesImages, r"sample\(7\) gives shape"),
        (SamplesGlobally, "sample gives other bits"),
        (SamplesAlwaysTheSame, "same bits for another seed"),
        (CannotSampleNothing, r"sample\(0\) gives shape"),
        (ReconstructsAtRandom, "reconstruct gives other bits"),
        (UsesTheBatch, "reconstruct of a row depends on the other rows"),
        (CarriesGradients, "reconstruct gives a tensor with a gradient graph"),
        (LossOfTheBatch, "reconstruction_loss gives shape"),
        (LossIsNaN, "not finite"),
        (CodesTooLong, r"the mean of encode gives shape \(120, 8\), not \(120, 4\)"),
        (CodesWithGradients, "the mean of encode gives a tensor with a gradient graph"),
        (NegativeDeviations, "the deviation of encode has values below 0"),
        (CodesOfTheBatch, "encode of a row depends on the other rows"),
        (DecodesToImages, "decode_mean gives shape"),
        (SharesWeights, "deep copy changes the original"),
        (ForgetsItsState, "load_state_dict does not restore sample"),
    ],
)
def test_broken_generators_are_caught(kind, reason):
    with pytest.raises(AssertionError, match=reason):
        check_generator(functools.partial(vae, kind=kind))


class GivesLogits(Classifier):
    def predict_proba(self, x):
        return self(x).detach()


class GivesHalves(Classifier):
    def predict_proba(self, x):
        return super().predict_proba(x) / 2


class KeepsBatches(Classifier):
    def fit(self, batch, rng, callback):
        super().fit(batch, rng, callback)
        self.last = {"batch": [batch]}


class LearnsWrongLabels(Classifier):
    def fit(self, batch, rng, callback):
        super().fit(Batch(batch.x, batch.y.roll(1)), rng, callback)


class ForgetsWhenGrowing(Classifier):
    def grow(self, n_classes, rng):
        if n_classes > self.head.out_features:
            super().grow(n_classes, rng)
            torch.nn.init.normal_(self.head.weight, generator=rng)


class NeverGrows(Classifier):
    def grow(self, n_classes, rng):
        pass


class ShufflesGlobally(Classifier):
    def fit(self, batch, rng, callback):
        torch.rand(1)
        super().fit(batch, rng, callback)


class SendsAWrongName(Classifier):
    def fit(self, batch, rng, callback):
        super().fit(batch, rng, lambda event: callback(replace(event, network="net")))


class CountsFromZero(Classifier):
    def fit(self, batch, rng, callback):
        super().fit(batch, rng, lambda event: callback(replace(event, epoch=event.epoch - 1)))


class IsItsOwnCopy(Classifier):
    def __deepcopy__(self, memo):
        return self


class LoadsNothing(Classifier):
    def load_state_dict(self, state):
        pass


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        (GivesLogits, "predict_proba gives values outside"),
        (GivesHalves, "do not sum to 1"),
        (KeepsBatches, r"keeps training rows at \.last\['batch'\]\[0\]\.x"),
        (LearnsWrongLabels, "accuracy of only"),
        (ForgetsWhenGrowing, "grow changes the answers about old classes"),
        (NeverGrows, "predict_proba gives shape"),
        (ShufflesGlobally, "uses torch's global random numbers"),
        (SendsAWrongName, "name the network {'net'}"),
        (CountsFromZero, "count its epochs from 1"),
        (IsItsOwnCopy, "deep copy changes the original"),
        (LoadsNothing, "load_state_dict does not restore predict_proba"),
    ],
)
def test_broken_learners_are_caught(kind, reason):
    with pytest.raises(AssertionError, match=reason):
        check_learner(functools.partial(classifier, kind=kind))


def example(name):
    path = Path(__file__).parents[2] / "examples" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("shape", [(8, 8), (5,), (6, 4, 3)])
def test_the_generator_of_the_example_passes(shape):
    check_generator(example("own_generator").PCAGenerator, shape)


def test_a_memory_with_the_generator_of_the_example_remembers(capsys):
    example("own_generator").main()
    accuracy = float(re.search(r"with PCA: (0\.\d+)", capsys.readouterr().out)[1])
    assert accuracy > 0.7, "without dreams it would know the last five of ten tasks"


class ClassMeans:
    """A toy memory: the sum and number of each class's rows. Consolidation adds them up."""

    def __init__(self, shape, n_classes, role, rng):
        self.tasks, self.counts = TaskLog(), np.zeros(n_classes)
        self.sums = np.zeros((n_classes, int(np.prod(shape))))

    def learn(self, new, tasks, ctx, recalled=None):
        members = np.eye(len(self.counts))[new.y].T
        self.add(members @ new.x, members.sum(axis=1), tasks)

    def consolidate(self, task_memories, ctx):
        for one in task_memories:
            self.add(one.sums, one.counts, one.tasks)

    def add(self, sums, counts, tasks):
        self.sums, self.counts = self.sums + sums, self.counts + counts
        self.tasks = self.tasks.add(tasks)

    def distances(self, x):
        means = self.sums / np.maximum(self.counts, 1)[:, None]
        return ((x[:, None] - means) ** 2).sum(axis=2) + 1e6 * (self.counts == 0)

    def predict_proba(self, x):
        scores = np.exp(-self.distances(x))
        return scores / scores.sum(axis=1, keepdims=True)

    def recognition_loss(self, x):
        return self.distances(x).min(axis=1)

    def recall(self, x):
        return Batch(x, self.distances(x).argmin(axis=1))

    def sample(self, n, rng):
        y = rng.next_numpy().choice(np.flatnonzero(self.counts), n)
        return Batch(self.sums[y] / self.counts[y, None], y)

    def grow(self, n_classes):
        more = (0, n_classes - len(self.counts))
        self.counts, self.sums = np.pad(self.counts, more), np.pad(self.sums, (more, (0, 0)))

    def nbytes(self, *, at_capacity=False):
        return self.sums.nbytes + self.counts.nbytes

    def buffer_bytes(self):
        return 0

    def state(self):
        return {"sums": self.sums, "counts": self.counts, "tasks": self.tasks.state()}

    def load_state(self, state):
        self.sums, self.counts = state["sums"], state["counts"]
        self.tasks = TaskLog.from_state(state["tasks"])


def test_a_toy_memory_of_forty_lines_passes():
    check_memory(ClassMeans)
    lines = inspect.getsource(ClassMeans).splitlines()
    assert len([line for line in lines if line.strip()]) <= 40


class LogsNothing(ClassMeans):
    def learn(self, new, tasks, ctx, recalled=None):
        super().learn(new, {}, ctx)


class ChangesInPlace(ClassMeans):
    def add(self, sums, counts, tasks):
        self.sums += sums
        self.counts += counts
        self.tasks = self.tasks.add(tasks)


class NeverConsolidates(ClassMeans):
    def consolidate(self, task_memories, ctx):
        pass


class LoadsWrongOrder(ClassMeans):
    def load_state(self, state):
        super().load_state({**state, "sums": state["sums"][::-1]})


class KnowsEverything(ClassMeans):
    def recognition_loss(self, x):
        return np.zeros(len(x))


class NeverAddsClasses(ClassMeans):
    def grow(self, n_classes):
        pass


class KeepsItsRows(ClassMeans):
    def learn(self, new, tasks, ctx, recalled=None):
        super().learn(new, tasks, ctx)
        self.rows = [new.x]

    def consolidate(self, task_memories, ctx):
        super().consolidate(task_memories, ctx)
        self.rows = [one.rows for one in task_memories]


class SamplesNaN(ClassMeans):
    def sample(self, n, rng):
        batch = super().sample(n, rng)
        return Batch(batch.x * np.nan, batch.y)


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        (LogsNothing, "learn does not log the task"),
        (ChangesInPlace, "learn changes a snapshot"),
        (NeverConsolidates, "consolidate does not log the tasks"),
        (LoadsWrongOrder, "load_state changes answers"),
        (KnowsEverything, "recognition_loss is not lower for what was learned"),
        (NeverAddsClasses, "grow does not add a class"),
        (KeepsItsRows, "keeps training rows"),
        (SamplesNaN, "sample gives values that are not finite"),
        (lambda *_: object(), "object lacks a method"),
    ],
)
def test_broken_memories_are_caught(kind, reason):
    with pytest.raises(AssertionError, match=reason):
        check_memory(kind)


SMALL = {"learner_layers": (8,), "batch_size": 16, "learning_rate": 0.01, "min_steps": 60}


class StoresRows(NN):
    def partial_fit(self, X, y, classes=None, *, task=None):
        self.rows_ = X
        return super().partial_fit(X, y, classes, task=task)


class UsesNumpyGlobally(NN):
    def partial_fit(self, X, y, classes=None, *, task=None):
        np.random.rand()  # noqa: NPY002
        return super().partial_fit(X, y, classes, task=task)


class AcceptsAnything(NN):
    def partial_fit(self, X, y, classes=None, *, task=None):
        return super().partial_fit(np.nan_to_num(X), y, classes, task=task)


class PredictsAtRandom(NN):
    def predict_proba(self, X, task=None):
        answers = super().predict_proba(X, task)
        noisy = answers + np.random.default_rng().random(answers.shape) / 100
        return noisy / noisy.sum(axis=1, keepdims=True)


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        (StoresRows, r"keeps rows at \['\.rows_"),
        (UsesNumpyGlobally, "uses numpy's global random numbers"),
        (AcceptsAnything, "partial_fit does not fail with NaN in X"),
        (PredictsAtRandom, "the same seed gives different results"),
    ],
)
def test_broken_algorithms_are_caught(kind, reason):
    with pytest.raises(AssertionError, match=reason):
        check_algorithm(kind, **SMALL)


X = np.random.default_rng(0).random((5, 12)).astype(np.float32)


class Slotted:
    __slots__ = ("x",)

    def __init__(self, x):
        self.x = x


def _closure(x):
    return lambda: x


def _default(x):
    def function(a=x):
        return a

    return function


def _cached(x):
    @functools.lru_cache
    def load():
        return x.copy()

    load()
    return load


def _graph(x):
    weight = torch.ones(12, requires_grad=True)
    return (torch.from_numpy(x) * weight).sum()


@pytest.mark.parametrize(
    "plant",
    [
        pytest.param(torch.from_numpy(X[1]), id="tensor"),
        pytest.param(torch.from_numpy(X.copy())[4:, :2], id="storage of a small view"),
        pytest.param(torch.from_numpy(X.copy()).T, id="transposed tensor"),
        pytest.param(np.ascontiguousarray(X.T), id="columns"),
        pytest.param(X[3:, ::2], id="numpy view with its base"),
        pytest.param(X[2].astype(np.float64), id="float64"),
        pytest.param(np.r_[0.5, X[2], 0.5], id="between other numbers"),
        pytest.param(np.round(X * 255).astype(np.uint8), id="uint8"),
        pytest.param(np.round(X * 255).astype(np.int64), id="int64"),
        pytest.param([[1, [X[0].copy()]], "other"], id="list of lists"),
        pytest.param({"a": {"b": (X[0].copy(),)}}, id="dict of dicts"),
        pytest.param({frozenset({X.tobytes()}): 1}, id="bytes in a key"),
        pytest.param(_closure(X[0].copy()), id="closure"),
        pytest.param(_default(X[0].copy()), id="default argument"),
        pytest.param(functools.partial(print, X[0].copy()), id="partial"),
        pytest.param(functools.partial(print, end=X[0].copy()), id="keyword of a partial"),
        pytest.param(Slotted(X[0].copy()), id="slots"),
        pytest.param(Slotted([X[0].copy()]).__repr__, id="bound method"),
        pytest.param((row for row in [X[0].copy()]), id="generator"),
        pytest.param(_cached(X), id="lru_cache"),
        pytest.param(torch.nn.ParameterDict({"w": torch.from_numpy(X.copy())}), id="parameter"),
        pytest.param(_graph(X), id="autograd graph"),
        pytest.param(np.array([X[0].copy(), None], dtype=object), id="object array"),
    ],
)
def test_planted_rows_are_found(plant):
    assert find_rows(plant, X)
    assert find_rows(Slotted({"deep": [plant]}), torch.from_numpy(X))
    assert not find_rows(plant, 1 - X)


def test_paths_name_the_place_of_a_row():
    assert find_rows({"a": [0, Slotted(X)], "b": torch.zeros(9)}, X[3:4]) == ["['a'][1]"]
    network = vae((12,), "stm", torch.Generator().manual_seed(0))
    network.cache = {"rows": [torch.from_numpy(X)]}
    assert find_rows(network, X) == [".cache['rows'][0]"]


def test_a_gradient_that_equals_a_row_is_found():
    weight = torch.zeros(12, requires_grad=True)
    (torch.from_numpy(X[0]) * weight).sum().backward()
    assert find_rows([weight], X[:1]) == ["[0].grad"]


def test_blank_rows_and_plain_networks_are_not_reported():
    network = vae((12,), "stm", torch.Generator().manual_seed(0))
    assert not find_rows(network, np.zeros((3, 12)))
    assert not find_rows(network, X)
