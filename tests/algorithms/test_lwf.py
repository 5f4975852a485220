"""LwF: the loss by hand, and answers that stay."""

import numpy as np
import pytest

from dgdmn.algorithms.slowdown import _DistillingNetwork
from dgdmn.config import Config
from dgdmn.core.batch import Batch
from dgdmn.core.events import Context
from dgdmn.core.rng import SeedStream
from dgdmn.networks.factory import NetworkFactory
from dgdmn.networks.runtime import as_tensor, as_tensors

QUICK = {
    "learner_layers": (6,),
    "learner_epochs": 1,
    "min_steps": 40,
    "batch_size": 16,
    "learning_rate": 0.01,
}


def rows(n, seed, classes=(0, 1)):
    rng = np.random.default_rng(seed)
    return Batch(rng.random((n, 36), dtype=np.float32), rng.choice(classes, size=n))


def memory(n_classes=3, seed=0, **options):
    factory = NetworkFactory(Config(**{**QUICK, **options}), (6, 6))
    return _DistillingNetwork(factory, n_classes, SeedStream(seed))


def soften(logits, temperature):
    """The paper's formula: probabilities to the power of 1/T, normalized."""
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    return p ** (1 / temperature) / (p ** (1 / temperature)).sum(axis=1, keepdims=True)


def test_the_loss_is_the_papers():
    m = memory(n_classes=4, lwf_weight=0.7, lwf_temperature=3.0)
    new, given = as_tensors(rows(20, seed=2, classes=(1, 3)), "cpu"), []
    m.learn(None, rows(64, seed=1, classes=(0, 2)), Context(SeedStream(1)))
    before = m.learner(new.x).detach().double().numpy()
    m.learner.train_with = lambda loss, data, rng, callback: given.extend((loss, data))
    m._learned.reverse()  # their order has no meaning
    m.train(None, new, Context(SeedStream(2)))
    loss, data = given
    assert m.state()["met"] == [0, 1, 2, 3]

    for parameter in m.learner.parameters():
        parameter.data *= 1.3
    after = m.learner(new.x).detach().double().numpy()
    m._learned = [2, 0]
    old, now = soften(before[:, [2, 0]], 3.0), soften(after[:, [2, 0]], 3.0)
    p = np.exp(after) / np.exp(after).sum(axis=1, keepdims=True)
    distillation = -(old * np.log(now)).sum(axis=1).mean()
    expected = -np.log(p[np.arange(20), new.y]).mean() + 0.7 * distillation
    assert loss(*data, None).item() == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("classes", [None, [0, 1, 2]], ids=["growing", "fixed"])
@pytest.mark.parametrize("convolutions", [(), (3,)], ids=["dense", "convolutional"])
def test_a_weight_of_0_equals_nn_to_the_bit(make, tasks, classes, convolutions):
    settings = [("nn", {}), ("lwf", {"lwf_weight": 0}), ("lwf", {})]
    models = [make(name, learner_convolutions=convolutions, **more) for name, more in settings]
    for X, y in tasks:
        for model in models:
            model.partial_fit(X, y, classes=classes)
    X = np.concatenate([X for X, _ in tasks])
    plain, off, on = (model.predict_proba(X) for model in models)
    assert np.array_equal(plain, off)
    assert not np.array_equal(plain, on)


def test_the_first_task_is_learned_as_by_nn(make, tasks):
    nn, lwf = (
        make(name, lwf_weight=50.0).partial_fit(*tasks[0], classes=[0, 1, 2])
        for name in ("nn", "lwf")
    )
    assert np.array_equal(nn.predict_proba(tasks[1][0]), lwf.predict_proba(tasks[1][0]))


def test_answers_about_old_classes_move_less():
    old, new = rows(64, seed=1), rows(64, seed=2, classes=(2,))
    x, moved = as_tensor(new.x, "cpu"), {}
    for weight in (0.0, 5.0):
        m = memory(lwf_weight=weight, min_steps=150)
        m.learn(None, old, Context(SeedStream(1)))
        before = m.learner(x)[:, :2].softmax(dim=1)
        m.learn(None, new, Context(SeedStream(2)))
        moved[weight] = (m.learner(x)[:, :2].softmax(dim=1) - before).abs().mean().item()
    assert moved[5.0] < 0.3 * moved[0.0]


def test_a_loaded_memory_learns_the_same():
    m = memory(n_classes=2)
    m.learn(None, rows(64, seed=1), Context(SeedStream(1)))
    m.grow(3)
    m.learn(None, rows(64, seed=2, classes=(2,)), Context(SeedStream(2)))
    again = memory(seed=7)
    again.load_state(m.state())
    for each in (m, again):
        each.learn(None, rows(64, seed=3), Context(SeedStream(3)))
    x = rows(9, seed=4).x
    assert np.array_equal(m.predict_proba(x, None), again.predict_proba(x, None))
