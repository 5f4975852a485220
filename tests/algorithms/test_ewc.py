"""EWC: the Fisher information against autograd row by row, and one penalty that is the sum of all tasks'."""

import copy
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from dgdmn.algorithms.slowdown import _ElasticNetwork
from dgdmn.config import Config
from dgdmn.core.batch import Batch
from dgdmn.core.errors import UsageError
from dgdmn.core.events import Context
from dgdmn.core.rng import SeedStream
from dgdmn.networks.classifier import Classifier
from dgdmn.networks.factory import NetworkFactory
from dgdmn.networks.fisher import diagonal_fisher
from dgdmn.networks.runtime import as_tensors
from dgdmn.networks.train import Schedule

QUICK = {
    "learner_layers": (6,),
    "learner_epochs": 1,
    "min_steps": 40,
    "batch_size": 16,
    "learning_rate": 0.01,
}


class OwnClassifier(Classifier):
    """Takes the general path of `diagonal_fisher`."""


def rows(n, seed):
    rng = np.random.default_rng(seed)
    return Batch(rng.random((n, 36), dtype=np.float32), rng.integers(2, size=n))


def memory(n_classes=2, seed=0, **options):
    factory = NetworkFactory(Config(**{**QUICK, **options}), (6, 6))
    return _ElasticNetwork(factory, n_classes, SeedStream(seed))


def learn(m, seed, note=None):
    ctx = Context(SeedStream(seed), note) if note else Context(SeedStream(seed))
    m.learn(None, rows(64, seed), ctx)


@pytest.mark.parametrize("convolutions", [(), (3,)], ids=["dense", "convolutional"])
@pytest.mark.parametrize("kind", [Classifier, OwnClassifier])
def test_the_fisher_is_the_mean_of_each_rows_squared_gradients(kind, convolutions):
    rng = torch.Generator().manual_seed(3)
    net = kind((6, 6), 4, hidden=(7, 5), convolutions=convolutions, schedule=Schedule(1), rng=rng)
    for parameter in net.parameters():
        parameter.data += 0.3 * torch.randn(parameter.shape, generator=rng)
    x = torch.from_numpy(rows(300, seed=1).x)
    expected = [torch.zeros_like(parameter) for parameter in net.parameters()]
    for row in x:
        log_p = torch.log_softmax(net(row[None]), dim=1)[0]
        for one in log_p:
            gradients = torch.autograd.grad(one, list(net.parameters()), retain_graph=True)
            for total, gradient in zip(expected, gradients, strict=True):
                total += one.exp().detach() * gradient**2 / len(x)
    for fisher, right in zip(diagonal_fisher(net, x), expected, strict=True):
        assert right.max() > 1e-4
        torch.testing.assert_close(fisher, right, rtol=1e-4, atol=1e-8)


def test_the_fisher_needs_a_module_unless_there_are_no_weights():
    empty = SimpleNamespace(parameters=list)
    no_module = SimpleNamespace(parameters=lambda: [torch.ones(3)])
    assert diagonal_fisher(empty, torch.zeros(2, 3)) == []
    with pytest.raises(UsageError, match="SimpleNamespace is not a torch module"):
        diagonal_fisher(no_module, torch.zeros(2, 3))


@pytest.mark.parametrize("classes", [None, [0, 1, 2]], ids=["growing", "fixed"])
@pytest.mark.parametrize("convolutions", [(), (3,)], ids=["dense", "convolutional"])
def test_a_coefficient_of_0_equals_nn_to_the_bit(make, tasks, classes, convolutions):
    settings = [("nn", {}), ("ewc", {"ewc_coefficient": 0}), ("ewc", {})]
    models = [make(name, learner_convolutions=convolutions, **more) for name, more in settings]
    for X, y in tasks:
        for model in models:
            model.partial_fit(X, y, classes=classes)
    X = np.concatenate([X for X, _ in tasks])
    plain, off, on = (model.predict_proba(X) for model in models)
    assert np.array_equal(plain, off)
    assert not np.array_equal(plain, on)


def test_one_quadratic_is_the_sum_of_all_tasks_up_to_a_constant():
    m, rng = memory(), torch.Generator().manual_seed(0)
    parameters = list(m.learner.parameters())

    def draw(scale):
        return [scale * torch.randn(p.shape, generator=rng) for p in parameters]

    def move(values):
        for parameter, value in zip(parameters, values, strict=True):
            parameter.data = value

    tasks = [([f.clamp(min=0) for f in draw(1.0)], draw(1.0)) for _ in range(3)]  # half of F is 0
    for fisher, stars in tasks:
        move(stars)
        m._consolidate(fisher)
    gaps = []
    for _ in range(4):
        move(here := draw(2.0))
        separate = sum(
            (f * (theta - star) ** 2).sum()
            for task in tasks
            for f, star, theta in zip(*task, here, strict=True)
        )
        gaps.append((separate - m._penalty()).item())
    assert gaps[0] > 1
    assert max(gaps) - min(gaps) < 1e-3 * gaps[0]
    some = as_tensors(rows(8, seed=1), "cpu")
    plain = torch.nn.functional.cross_entropy(m.learner(some.x), some.y)
    torch.testing.assert_close(m._loss(some.x, some.y, None) - plain, 100 / 2 * m._penalty())
    assert len(m.state()["fisher"]) == len(parameters), "the state grows with the tasks"


def test_a_large_coefficient_keeps_important_weights():
    moved = {}
    for coefficient in (0.0, 1e4):
        m = memory(ewc_coefficient=coefficient)
        learn(m, 1)
        before = copy.deepcopy(m)
        learn(m, 2)
        before.learner = m.learner
        moved[coefficient] = before._penalty().item()
    assert moved[1e4] < 0.05 * moved[0.0]


def test_new_outputs_are_not_penalized():
    m, noted = memory(), []
    learn(m, 1)
    old, twin = m.state(), copy.deepcopy(m.learner)
    twin.grow(3, SeedStream(2).next())
    m.grow(3)
    learn(m, 2, lambda event: noted.append((m._fisher, m._anchor)))
    for before, now, theta in zip(old["fisher"], noted[0][0], twin.parameters(), strict=True):
        assert now.shape == theta.shape
        assert torch.equal(now[: len(before)], before)
        assert not now[len(before) :].any()
    for before, now, theta in zip(old["anchor"], noted[0][1], twin.parameters(), strict=True):
        assert torch.equal(now, torch.cat([before, theta[len(before) :]]))


def test_a_loaded_memory_learns_the_same():
    m = memory()
    learn(m, 1)
    m.grow(3)
    learn(m, 2)
    again = memory(n_classes=3, seed=7)
    again.load_state(m.state())
    for each in (m, again):
        learn(each, 3)
    x = rows(9, seed=4).x
    assert np.array_equal(m.predict_proba(x, None), again.predict_proba(x, None))
