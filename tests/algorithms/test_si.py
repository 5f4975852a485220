"""SI: the importance of weights against quadratics solved by hand."""

import numpy as np
import pytest
import torch
from torch import nn

from dgdmn.algorithms.slowdown import _SynapticNetwork
from dgdmn.config import Config
from dgdmn.core.batch import Batch
from dgdmn.core.events import Context
from dgdmn.core.rng import SeedStream
from dgdmn.networks.factory import NetworkFactory
from dgdmn.networks.runtime import as_tensors
from dgdmn.networks.train import Schedule, TrainableNetwork

QUICK = {
    "learner_layers": (6,),
    "learner_epochs": 1,
    "min_steps": 40,
    "batch_size": 16,
    "learning_rate": 0.01,
}
A, ETA, STEPS, XI = torch.tensor([2.0, 0.5, 0.0]), 0.05, 30, 0.1
START = torch.tensor([1.0, -2.0, 3.0])
ANY = Batch(torch.zeros(1, 3), torch.zeros(1, dtype=torch.long))


class Descent:
    """Plain gradient descent that overwrites the gradients, as RMSProp may."""

    def __init__(self, parameters, rate):
        self.parameters, self.rate = list(parameters), rate

    def step(self, gradients):
        for parameter, gradient in zip(self.parameters, gradients, strict=True):
            parameter -= self.rate * gradient
            gradient.zero_()


class Bowl(TrainableNetwork):
    """Three weights with the loss ½ Σ a (θ − low)², whatever the samples are."""

    low, rate, steps = 0.0, ETA, STEPS

    def __init__(self, shape, n_classes, role, rng):
        super().__init__(Schedule(1))
        self.theta = nn.Parameter(START.clone())

    def train_with(self, loss, data, rng, callback, step, accumulators):
        self.omega = accumulators
        for _ in range(self.steps):
            value = (A * (self.theta - self.low) ** 2).sum() / 2
            step(Descent(self.parameters(), self.rate), torch.autograd.grad(value, [self.theta]))

    def features(self, x):
        raise AssertionError("SI needs none of these")

    fit = predict_proba = grow = features


def bowl(**options):
    factory = NetworkFactory(Config(**options), (3,), own_learner=Bowl)
    return _SynapticNetwork(factory, 2, SeedStream(0))


def memory(n_classes=2, seed=0, **options):
    factory = NetworkFactory(Config(**{**QUICK, **options}), (6, 6))
    return _SynapticNetwork(factory, n_classes, SeedStream(seed))


def rows(n, seed):
    rng = np.random.default_rng(seed)
    return Batch(rng.random((n, 36), dtype=np.float32), rng.integers(2, size=n))


def train(m, seed=0):
    m.train(None, ANY, Context(SeedStream(seed)))


def test_importance_in_a_bowl_is_the_closed_form():
    """Descent multiplies θ by r = 1 − ηa a step, so ω = Σ η (aθ)² = a θ₀² (1 − r²ᵀ) / (2 − ηa).

    As η → 0 this is the decrease of the loss, ½ a θ₀² (1 − r²ᵀ). Here it is larger by 1 / (1 − ηa/2).
    """
    m = bowl(si_damping=XI)
    train(m)
    r = 1 - ETA * A
    omega = A * START**2 * (1 - r ** (2 * STEPS)) / (2 - ETA * A)
    expected = omega / ((START - r**STEPS * START) ** 2 + XI)
    torch.testing.assert_close(m.learner.omega, [omega])
    torch.testing.assert_close(m._importance, [expected])
    assert expected[2] == 0, "a weight without effect is important"


def test_the_next_task_stops_where_loss_and_penalty_balance():
    """a (θ − low) + 2 c Ω (θ − θ̃) = 0."""
    m = bowl(si_damping=XI, si_strength=0.3)
    train(m)
    tilde, weight = m.learner.theta.detach().clone(), m._importance[0]
    m.learner.low, m.learner.steps = 5.0, 2000
    train(m, 1)
    rest = (A * 5.0 + 0.6 * weight * tilde)[:2] / (A + 0.6 * weight)[:2]
    torch.testing.assert_close(m.learner.theta.detach()[:2], rest)
    assert (m._importance[0] >= weight).all(), "importance does not add up"


def test_a_weight_that_raised_the_loss_gets_no_importance():
    m = bowl(si_damping=XI)
    train(m)
    before = m._importance[0]
    m.learner.rate = -ETA
    train(m, 1)
    assert torch.equal(m._importance[0], before)


def test_contributions_add_up_to_the_decrease_of_a_networks_loss():
    data = rows(64, seed=1)
    batch = as_tensors(data, "cpu")
    m = memory(batch_size=64, learning_rate=1e-4, min_steps=400)
    start = [parameter.detach().clone() for parameter in m.learner.parameters()]

    def loss():
        return torch.nn.functional.cross_entropy(m.learner(batch.x), batch.y).item()

    before = loss()
    m.learn(None, data, Context(SeedStream(1)))
    decrease = before - loss()
    parts = zip(m._importance, m.learner.parameters(), start, strict=True)
    contributed = sum(
        (weight * ((theta - tilde) ** 2 + 0.1)).sum().item() for weight, theta, tilde in parts
    )
    assert decrease > 0.02
    assert contributed == pytest.approx(decrease, rel=0.02)


@pytest.mark.parametrize("classes", [None, [0, 1, 2]], ids=["growing", "fixed"])
@pytest.mark.parametrize("convolutions", [(), (3,)], ids=["dense", "convolutional"])
def test_a_strength_of_0_equals_nn_to_the_bit(make, tasks, classes, convolutions):
    settings = [("nn", {}), ("si", {"si_strength": 0}), ("si", {"si_strength": 9})]
    models = [make(name, learner_convolutions=convolutions, **more) for name, more in settings]
    for X, y in tasks:
        for model in models:
            model.partial_fit(X, y, classes=classes)
    X = np.concatenate([X for X, _ in tasks])
    plain, off, on = (model.predict_proba(X) for model in models)
    assert np.array_equal(plain, off)
    assert not np.array_equal(plain, on)


def test_new_outputs_have_no_importance_and_a_loaded_memory_learns_the_same():
    m, noted = memory(si_strength=5.0), []
    m.learn(None, rows(64, seed=1), Context(SeedStream(1)))
    old = m.state()["importance"]
    m.grow(3)
    ctx = Context(SeedStream(2), lambda event: noted.append(m._importance))
    m.learn(None, rows(64, seed=2), ctx)
    for before, now in zip(old, noted[0], strict=True):
        assert torch.equal(now[: len(before)], before)
        assert not now[len(before) :].any()
    again = memory(n_classes=3, seed=7, si_strength=5.0)
    again.load_state(m.state())
    for each in (m, again):
        each.learn(None, rows(64, seed=3), Context(SeedStream(3)))
    x = rows(9, seed=4).x
    assert np.array_equal(m.predict_proba(x, None), again.predict_proba(x, None))
