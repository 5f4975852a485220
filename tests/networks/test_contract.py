"""`dgdmn.testing`: our own networks pass, broken ones of every kind are caught, planted rows are found."""

import copy
import functools

import numpy as np
import pytest
import torch

from dgdmn.networks.generator import GeneratorFactory
from dgdmn.networks.learner import Classifier
from dgdmn.networks.training import Schedule
from dgdmn.networks.vae import VAE
from dgdmn.samples import Samples
from dgdmn.testing import check_generator, check_learner, find_rows

SCHEDULE = Schedule(epochs=8, batch_size=32, learning_rate=0.01)


def vae(shape, role, rng, kind=VAE, convolutions=()):
    return kind(shape, hidden=(16,), convolutions=convolutions, latent=4, schedule=SCHEDULE, rng=rng)


def classifier(shape, n_classes, role, rng, kind=Classifier, convolutions=()):
    return kind(shape, n_classes, hidden=(16,), convolutions=convolutions, schedule=SCHEDULE, rng=rng)


@pytest.mark.parametrize(
    ("shape", "convolutions"), [((8, 8), ()), ((8, 8), (4,)), ((9, 7, 3), (4,)), ((20,), ())]
)
def test_our_networks_keep_the_contract(shape, convolutions):
    check_generator(functools.partial(vae, convolutions=convolutions), shape)
    check_learner(functools.partial(classifier, convolutions=convolutions), shape)


class KeepsRows(VAE):
    def fit(self, x, rng, listen):
        super().fit(x, rng, listen)
        self.last = x[::10]


class KeepsBytes(VAE):
    def fit(self, x, rng, listen):
        super().fit(x, rng, listen)
        rows = (x[:1] * 255).round().byte().numpy()
        self.again = lambda: rows


class KeepsInItsClass(VAE):
    cache = []  # noqa: RUF012

    def fit(self, x, rng, listen):
        super().fit(x, rng, listen)
        self.cache.append(x)


class DrawsGlobally(VAE):
    def fit(self, x, rng, listen):
        super().fit(x[torch.randperm(len(x))], rng, listen)


class DrawsFromNumpy(VAE):
    def fit(self, x, rng, listen):
        super().fit(x[np.random.permutation(len(x))], rng, listen)  # noqa: NPY002


class IsSilent(VAE):
    def fit(self, x, rng, listen):
        super().fit(x, rng, lambda event: None)


class LearnsNothing(VAE):
    def fit(self, x, rng, listen):
        state = copy.deepcopy(self.state_dict())
        super().fit(x, rng, listen)
        self.load_state_dict(state)


class WritesIntoItsInputs(VAE):
    def fit(self, x, rng, listen):
        super().fit(x, rng, listen)
        x.mul_(0.5)


class DreamsTooWide(VAE):
    def sample(self, n, rng):
        return super().sample(n, rng) * 3 - 1


class DreamsImages(VAE):
    def sample(self, n, rng):
        return super().sample(n, rng).reshape(n, 8, 8)


class DreamsByItself(VAE):
    def sample(self, n, rng):
        return super().sample(n, torch.default_generator)


class DreamsAlwaysTheSame(VAE):
    def sample(self, n, rng):
        return super().sample(n, torch.Generator().manual_seed(0))


class CannotDreamNothing(VAE):
    def sample(self, n, rng):
        return super().sample(max(n, 1), rng)


class ReconstructsAtRandom(VAE):
    def reconstruct(self, x):
        return (super().reconstruct(x) + 0.1 * torch.rand(x.shape)).clamp(0, 1)


class LooksAtTheBatch(VAE):
    def reconstruct(self, x):
        return super().reconstruct(x - x.mean(dim=0)) if len(x) else x


class CarriesGradients(VAE):
    def reconstruct(self, x):
        return self.decode(self.encode(x)[0]).sigmoid()


class LosesOneNumber(VAE):
    def reconstruction_loss(self, x):
        return super().reconstruction_loss(x).mean()


class LosesNothing(VAE):
    def reconstruction_loss(self, x):
        return super().reconstruction_loss(x) * float("nan")


class SharesWeights(VAE):
    def __deepcopy__(self, memo):
        return self


class ForgetsItsState(VAE):
    def state_dict(self):
        return {key: value * 0 for key, value in super().state_dict().items()}


class CodesTooLong(VAE):
    def posterior(self, x):
        mean, deviation = super().posterior(x)
        return torch.cat([mean, mean], dim=1), deviation


class CodesWithGradients(VAE):
    def posterior(self, x):
        mean, log_variance = self.encode(x)
        return mean, (log_variance / 2).exp()


class SpreadsBelowZero(VAE):
    def posterior(self, x):
        mean, deviation = super().posterior(x)
        return mean, -deviation


class CodesByTheBatch(VAE):
    def posterior(self, x):
        return super().posterior(x - x.mean(dim=0))


class DecodesToImages(VAE):
    def decoded(self, z):
        return super().decoded(z).reshape(len(z), 8, 8)

    def sample(self, n, rng):
        return super().sample(n, rng).flatten(1)

    def reconstruct(self, x):
        return super().reconstruct(x).flatten(1)


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        (KeepsRows, r"keeps training rows at \.last"),
        (KeepsBytes, r"keeps training rows at \.again\(\)"),
        (KeepsInItsClass, r"keeps training rows at \.cache"),
        (DrawsGlobally, "draws from torch's global"),
        (DrawsFromNumpy, "draws from numpy's global"),
        (IsSilent, "tells nobody of its epochs"),
        (LearnsNothing, "does not lower reconstruction_loss"),
        (WritesIntoItsInputs, "writes into the inputs"),
        (DreamsTooWide, r"sample\(7\) gives values outside"),
        (DreamsImages, r"sample\(7\) gives shape"),
        (DreamsByItself, "sample gives other bits"),
        (DreamsAlwaysTheSame, "same bits for another seed"),
        (CannotDreamNothing, r"sample\(0\) gives shape"),
        (ReconstructsAtRandom, "reconstruct gives other bits"),
        (LooksAtTheBatch, "reconstruct gives a row another answer"),
        (CarriesGradients, "gradient graph"),
        (LosesOneNumber, "reconstruction_loss gives shape"),
        (LosesNothing, "not finite"),
        (CodesTooLong, r"posterior's mean has shape \(120, \d+\), not \(n, latent\)"),
        (CodesWithGradients, "posterior's mean is a tensor that still carries its gradient graph"),
        (SpreadsBelowZero, "posterior's deviation has values below 0"),
        (CodesByTheBatch, "posterior gives a row another answer"),
        (DecodesToImages, "decoded gives shape"),
        (SharesWeights, "deep copy changes the original"),
        (ForgetsItsState, "does not give reconstruct back"),
    ],
)
def test_broken_generators_are_caught(kind, reason):
    with pytest.raises(AssertionError, match=reason):
        check_generator(functools.partial(vae, kind=kind))


class GivesLogits(Classifier):
    def probabilities(self, x):
        return self(x).detach()


class GivesHalves(Classifier):
    def probabilities(self, x):
        return super().probabilities(x) / 2


class HoldsRows(Classifier):
    def fit(self, samples, rng, listen):
        super().fit(samples, rng, listen)
        self.last = {"batch": [samples]}


class TeachesNothing(Classifier):
    def fit(self, samples, rng, listen):
        super().fit(Samples(samples.x, samples.y.roll(1)), rng, listen)


class ForgetsWhenGrowing(Classifier):
    def grow(self, n_classes, rng):
        if n_classes > self.head.out_features:
            super().grow(n_classes, rng)
            torch.nn.init.normal_(self.head.weight, generator=rng)


class NeverGrows(Classifier):
    def grow(self, n_classes, rng):
        pass


class ShufflesGlobally(Classifier):
    def fit(self, samples, rng, listen):
        torch.rand(1)
        super().fit(samples, rng, listen)


class NamesItselfWrongly(Classifier):
    def fit(self, samples, rng, listen):
        super().fit(samples, rng, lambda event: listen(type(event)("net", event.epoch, event.epochs, 1, 0.0)))


class CountsFromZero(Classifier):
    def fit(self, samples, rng, listen):
        super().fit(
            samples, rng, lambda event: listen(type(event)("learner", event.epoch - 1, event.epochs, 1, 0.0))
        )


class IsItsOwnCopy(Classifier):
    def __deepcopy__(self, memo):
        return self


class LoadsNothing(Classifier):
    def load_state_dict(self, state):
        pass


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        (GivesLogits, "probabilities gives values outside"),
        (GivesHalves, "do not sum to 1"),
        (HoldsRows, r"keeps training rows at \.last\['batch'\]\[0\]\.x"),
        (TeachesNothing, "accuracy of only"),
        (ForgetsWhenGrowing, "grow changes what is known"),
        (NeverGrows, "probabilities gives shape"),
        (ShufflesGlobally, "draws from torch's global"),
        (NamesItselfWrongly, "name the network {'net'}"),
        (CountsFromZero, "count its epochs from 1"),
        (IsItsOwnCopy, "deep copy changes the original"),
        (LoadsNothing, "does not give probabilities back"),
    ],
)
def test_broken_learners_are_caught(kind, reason):
    with pytest.raises(AssertionError, match=reason):
        check_learner(functools.partial(classifier, kind=kind))


def test_the_factory_protocol_is_what_the_check_calls():
    names = list(GeneratorFactory.__call__.__annotations__)
    assert names == ["shape", "role", "rng", "return"]


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
        pytest.param(np.r_[0.5, X[2], 0.5], id="amid other numbers"),
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


def test_paths_lead_to_the_row():
    assert find_rows({"a": [0, Slotted(X)], "b": torch.zeros(9)}, X[3:4]) == ["['a'][1]"]
    network = vae((12,), "stm", torch.Generator().manual_seed(0))
    network.cache = {"rows": [torch.from_numpy(X)]}
    assert find_rows(network, X) == [".cache['rows'][0]"]


def test_a_gradient_that_equals_a_row_is_found():
    weight = torch.zeros(12, requires_grad=True)
    (torch.from_numpy(X[0]) * weight).sum().backward()
    assert find_rows([weight], X[:1]) == ["[0].grad"]


def test_blank_rows_and_ordinary_networks_are_no_finding():
    network = vae((12,), "stm", torch.Generator().manual_seed(0))
    assert not find_rows(network, np.zeros((3, 12)))
    assert not find_rows(network, X)
