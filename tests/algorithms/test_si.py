"""SI: what weights are credited with, against quadratics worked by hand."""

import numpy as np
import pytest
import torch
from torch import nn

from dgdmn.algorithms.si import _Intelligent
from dgdmn.events import ignore
from dgdmn.networks.blueprint import Blueprint
from dgdmn.networks.training import Schedule, TrainedNetwork
from dgdmn.presets import Preset
from dgdmn.samples import Samples
from dgdmn.seeds import Seeds

QUICK = Preset(learner_layers=(6,), learner_epochs=1, min_steps=40, batch_size=16, learning_rate=0.01)
A, ETA, STEPS, XI = torch.tensor([2.0, 0.5, 0.0]), 0.05, 30, 0.1
START = torch.tensor([1.0, -2.0, 3.0])
ANY = Samples(torch.zeros(1, 3), torch.zeros(1, dtype=torch.long))


class Descent:
    """Plain gradient descent, which uses the gradients up as RMSProp may."""

    def __init__(self, parameters, rate):
        self.parameters, self.rate = list(parameters), rate

    def step(self, gradients):
        for parameter, gradient in zip(self.parameters, gradients, strict=True):
            parameter -= self.rate * gradient
            gradient.zero_()


class Bowl(TrainedNetwork):
    """Three weights whose loss is ½ Σ a (θ − low)², whatever the samples are."""

    low, rate, steps = 0.0, ETA, STEPS

    def __init__(self, shape, n_classes, role, rng):
        super().__init__(Schedule(1), keep_optimiser=False)
        self.theta = nn.Parameter(START.clone())

    def train_with(self, loss, data, rng, listen, step, also):
        self.omega = also
        for _ in range(self.steps):
            value = (A * (self.theta - self.low) ** 2).sum() / 2
            step(Descent(self.parameters(), self.rate), torch.autograd.grad(value, [self.theta]))

    def features(self, x):
        raise AssertionError("SI asks for none of these")

    fit = probabilities = grow = features


def bowl(**options):
    return _Intelligent(Blueprint(Preset(**options), (3,), own_learner=Bowl), 2, Seeds(0))


def memory(n_classes=2, seed=0, **options):
    return _Intelligent(Blueprint(Preset(**{**vars(QUICK), **options}), (6, 6)), n_classes, Seeds(seed))


def rows(n, seed):
    rng = torch.Generator().manual_seed(seed)
    return Samples(torch.rand(n, 36, generator=rng), torch.randint(2, (n,), generator=rng))


def test_importance_in_a_bowl_is_the_closed_form():
    """Descent shrinks θ by r = 1 − ηa a step, so ω = Σ η (aθ)² = a θ₀² (1 − r²ᵀ) / (2 − ηa).

    As η → 0 that is the fall of the loss, ½ a θ₀² (1 − r²ᵀ): here it is more by 1 / (1 − ηa/2).
    """
    m = bowl(si_damping=XI)
    m.train(None, ANY, Seeds(0), ignore)
    r = 1 - ETA * A
    omega = A * START**2 * (1 - r ** (2 * STEPS)) / (2 - ETA * A)
    expected = omega / ((START - r**STEPS * START) ** 2 + XI)
    torch.testing.assert_close(m.learner.omega, [omega])
    torch.testing.assert_close(m._importance, [expected])
    assert expected[2] == 0, "a weight that does nothing"


def test_the_next_task_rests_where_both_pulls_are_even():
    """a (θ − low) + 2 c Ω (θ − θ̃) = 0."""
    m = bowl(si_damping=XI, si_strength=0.3)
    m.train(None, ANY, Seeds(0), ignore)
    tilde, weight = m.learner.theta.detach().clone(), m._importance[0]
    m.learner.low, m.learner.steps = 5.0, 2000
    m.train(None, ANY, Seeds(1), ignore)
    rest = (A * 5.0 + 0.6 * weight * tilde)[:2] / (A + 0.6 * weight)[:2]
    torch.testing.assert_close(m.learner.theta.detach()[:2], rest)
    assert (m._importance[0] >= weight).all(), "importance adds up"


def test_a_weight_that_raised_the_loss_is_not_pushed_away():
    m = bowl(si_damping=XI)
    m.train(None, ANY, Seeds(0), ignore)
    before = m._importance[0]
    m.learner.rate = -ETA
    m.train(None, ANY, Seeds(1), ignore)
    assert torch.equal(m._importance[0], before)


def test_credits_add_up_to_the_fall_of_a_networks_loss():
    data = rows(64, seed=1)
    m = memory(batch_size=64, learning_rate=1e-4, min_steps=400)
    start = [parameter.detach().clone() for parameter in m.learner.parameters()]

    def loss():
        return torch.nn.functional.cross_entropy(m.learner(data.x), data.y).item()

    before = loss()
    m.learn(None, data, Seeds(1), ignore)
    fall = before - loss()
    parts = zip(m._importance, m.learner.parameters(), start, strict=True)
    credited = sum((weight * ((theta - tilde) ** 2 + 0.1)).sum().item() for weight, theta, tilde in parts)
    assert fall > 0.02
    assert credited == pytest.approx(fall, rel=0.02)


@pytest.mark.parametrize("classes", [None, [0, 1, 2]], ids=["growing", "fixed"])
@pytest.mark.parametrize("convolutions", [(), (3,)], ids=["dense", "convolutional"])
def test_a_strength_of_0_is_nn_to_the_bit(make, tasks, classes, convolutions):
    settings = [("nn", {}), ("si", {"si_strength": 0}), ("si", {"si_strength": 9})]
    models = [make(name, learner_convolutions=convolutions, **options) for name, options in settings]
    for X, y in tasks:
        for model in models:
            model.partial_fit(X, y, classes=classes)
    plain, off, on = (model.predict_proba(np.concatenate([X for X, _ in tasks])) for model in models)
    assert np.array_equal(plain, off)
    assert not np.array_equal(plain, on)


def test_a_restored_memory_goes_on_alike_and_outputs_that_came_since_are_free():
    m, noted = memory(si_strength=5.0), []
    m.learn(None, rows(64, seed=1), Seeds(1), ignore)
    old = m.state()["importance"]
    m.grow(3)
    m.learn(None, rows(64, seed=2), Seeds(2), lambda event: noted.append(m._importance))
    for before, now in zip(old, noted[0], strict=True):
        assert torch.equal(now[: len(before)], before)
        assert not now[len(before) :].any()
    again = memory(n_classes=3, seed=7, si_strength=5.0)
    again.restore(m.state())
    for each in (m, again):
        each.learn(None, rows(64, seed=3), Seeds(3), ignore)
    x = rows(9, seed=4).x
    assert torch.equal(m.probabilities(x, None), again.probabilities(x, None))
