"""EWC: its Fisher against autograd row by row, and springs that are the sum of all tasks'."""

import copy
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from dgdmn.algorithms.ewc import _Elastic
from dgdmn.errors import UsageError
from dgdmn.events import ignore
from dgdmn.networks.blueprint import Blueprint
from dgdmn.networks.importance import diagonal_fisher
from dgdmn.networks.learner import Classifier
from dgdmn.networks.training import Schedule
from dgdmn.presets import Preset
from dgdmn.samples import Samples
from dgdmn.seeds import Seeds

QUICK = Preset(learner_layers=(6,), learner_epochs=1, min_steps=40, batch_size=16, learning_rate=0.01)


class OwnClassifier(Classifier):
    """A user's own, as far as anybody can tell."""


def rows(n, seed):
    rng = torch.Generator().manual_seed(seed)
    return Samples(torch.rand(n, 36, generator=rng), torch.randint(2, (n,), generator=rng))


def memory(n_classes=2, seed=0, **options):
    return _Elastic(Blueprint(Preset(**{**vars(QUICK), **options}), (6, 6)), n_classes, Seeds(seed))


@pytest.mark.parametrize("convolutions", [(), (3,)], ids=["dense", "convolutional"])
@pytest.mark.parametrize("kind", [Classifier, OwnClassifier])
def test_the_fisher_is_the_mean_of_every_rows_squared_gradients(kind, convolutions):
    rng = torch.Generator().manual_seed(3)
    net = kind((6, 6), 4, hidden=(7, 5), convolutions=convolutions, schedule=Schedule(1), rng=rng)
    for parameter in net.parameters():
        parameter.data += 0.3 * torch.randn(parameter.shape, generator=rng)
    x = rows(300, seed=1).x
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


def test_the_fisher_of_no_module_is_refused_and_of_no_weights_is_none():
    bare = SimpleNamespace(parameters=list)
    weighty = SimpleNamespace(parameters=lambda: [torch.ones(3)])
    assert diagonal_fisher(bare, torch.zeros(2, 3)) == []
    with pytest.raises(UsageError, match="SimpleNamespace is none"):
        diagonal_fisher(weighty, torch.zeros(2, 3))


@pytest.mark.parametrize("classes", [None, [0, 1, 2]], ids=["growing", "fixed"])
@pytest.mark.parametrize("convolutions", [(), (3,)], ids=["dense", "convolutional"])
def test_a_coefficient_of_0_is_nn_to_the_bit(make, tasks, classes, convolutions):
    settings = [("nn", {}), ("ewc", {"ewc_coefficient": 0}), ("ewc", {})]
    models = [make(name, learner_convolutions=convolutions, **options) for name, options in settings]
    for X, y in tasks:
        for model in models:
            model.partial_fit(X, y, classes=classes)
    plain, off, on = (model.predict_proba(np.concatenate([X for X, _ in tasks])) for model in models)
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

    tasks = [([f.clamp(min=0) for f in draw(1.0)], draw(1.0)) for _ in range(3)]  # half of each Fisher is 0
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
        gaps.append((separate - m._tension()).item())
    assert gaps[0] > 1
    some = rows(8, seed=1)
    penalty = m._loss(some.x, some.y, None) - torch.nn.functional.cross_entropy(m.learner(some.x), some.y)
    torch.testing.assert_close(penalty, 100 / 2 * m._tension(), msg="λ/2")
    assert max(gaps) - min(gaps) < 1e-3 * gaps[0]
    assert len(m.state()["fisher"]) == len(parameters), "three tasks take no more room than one"


def test_a_large_coefficient_holds_what_matters():
    tension = {}
    for coefficient in (0.0, 1e4):
        m = memory(ewc_coefficient=coefficient)
        m.learn(None, rows(64, seed=1), Seeds(1), ignore)
        before = copy.deepcopy(m)
        m.learn(None, rows(64, seed=2), Seeds(2), ignore)
        before.learner = m.learner
        tension[coefficient] = before._tension().item()
    assert tension[1e4] < 0.05 * tension[0.0]


def test_outputs_that_came_since_are_free():
    m, noted = memory(), []
    m.learn(None, rows(64, seed=1), Seeds(1), ignore)
    old, twin = m.state(), copy.deepcopy(m.learner)
    twin.grow(3, Seeds(2).next())
    m.grow(3)
    m.learn(None, rows(64, seed=2), Seeds(2), lambda event: noted.append((m._fisher, m._anchor)))
    for before, now, theta in zip(old["fisher"], noted[0][0], twin.parameters(), strict=True):
        assert now.shape == theta.shape
        assert torch.equal(now[: len(before)], before)
        assert not now[len(before) :].any()
    for before, now, theta in zip(old["anchor"], noted[0][1], twin.parameters(), strict=True):
        assert torch.equal(now, torch.cat([before, theta[len(before) :]]))


def test_a_restored_memory_goes_on_alike():
    m = memory()
    m.learn(None, rows(64, seed=1), Seeds(1), ignore)
    m.grow(3)
    m.learn(None, rows(64, seed=2), Seeds(2), ignore)
    again = memory(n_classes=3, seed=7)
    again.restore(m.state())
    for each in (m, again):
        each.learn(None, rows(64, seed=3), Seeds(3), ignore)
    x = rows(9, seed=4).x
    assert torch.equal(m.probabilities(x, None), again.probabilities(x, None))
