"""LwF: its loss by hand, and answers that stay."""

import numpy as np
import pytest
import torch

from dgdmn.algorithms.lwf import _Distilling
from dgdmn.events import ignore
from dgdmn.networks.blueprint import Blueprint
from dgdmn.presets import Preset
from dgdmn.samples import Samples
from dgdmn.seeds import Seeds

QUICK = Preset(learner_layers=(6,), learner_epochs=1, min_steps=40, batch_size=16, learning_rate=0.01)


def rows(n, seed, classes=(0, 1)):
    rng = torch.Generator().manual_seed(seed)
    y = torch.tensor(classes)[torch.randint(len(classes), (n,), generator=rng)]
    return Samples(torch.rand(n, 36, generator=rng), y)


def memory(n_classes=3, seed=0, **options):
    return _Distilling(Blueprint(Preset(**{**vars(QUICK), **options}), (6, 6)), n_classes, Seeds(seed))


def softened(logits, temperature):
    """The paper's formula: probabilities to the power of 1/T, made to sum to 1."""
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    return p ** (1 / temperature) / (p ** (1 / temperature)).sum(axis=1, keepdims=True)


def test_the_loss_is_the_papers():
    m, new, given = (
        memory(n_classes=4, lwf_weight=0.7, lwf_temperature=3.0),
        rows(20, seed=2, classes=(1, 3)),
        [],
    )
    m.learn(None, rows(64, seed=1, classes=(0, 2)), Seeds(1), ignore)
    before = m.learner(new.x).detach().double().numpy()
    m.learner.train_with = lambda loss, data, rng, listen: given.extend((loss, data))
    m._met.reverse()  # their order means nothing
    m.train(None, new, Seeds(2), ignore)
    loss, data = given
    assert m.state()["met"] == [0, 1, 2, 3]

    for parameter in m.learner.parameters():
        parameter.data *= 1.3
    after = m.learner(new.x).detach().double().numpy()
    m._met = [2, 0]
    old, now = softened(before[:, [2, 0]], 3.0), softened(after[:, [2, 0]], 3.0)
    p = np.exp(after) / np.exp(after).sum(axis=1, keepdims=True)
    expected = -np.log(p[np.arange(20), new.y]).mean() - 0.7 * (old * np.log(now)).sum(axis=1).mean()
    assert loss(*data, None).item() == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("classes", [None, [0, 1, 2]], ids=["growing", "fixed"])
@pytest.mark.parametrize("convolutions", [(), (3,)], ids=["dense", "convolutional"])
def test_a_weight_of_0_is_nn_to_the_bit(make, tasks, classes, convolutions):
    settings = [("nn", {}), ("lwf", {"lwf_weight": 0}), ("lwf", {})]
    models = [make(name, learner_convolutions=convolutions, **options) for name, options in settings]
    for X, y in tasks:
        for model in models:
            model.partial_fit(X, y, classes=classes)
    plain, off, on = (model.predict_proba(np.concatenate([X for X, _ in tasks])) for model in models)
    assert np.array_equal(plain, off)
    assert not np.array_equal(plain, on)


def test_the_first_task_has_nothing_to_hold(make, tasks):
    nn, lwf = (
        make(name, lwf_weight=50.0).partial_fit(*tasks[0], classes=[0, 1, 2]) for name in ("nn", "lwf")
    )
    assert np.array_equal(nn.predict_proba(tasks[1][0]), lwf.predict_proba(tasks[1][0]))


def test_answers_on_old_classes_move_less():
    old, new = rows(64, seed=1), rows(64, seed=2, classes=(2,))
    moved = {}
    for weight in (0.0, 5.0):
        m = memory(lwf_weight=weight, min_steps=150)
        m.learn(None, old, Seeds(1), ignore)
        before = m.learner(new.x)[:, :2].softmax(dim=1)
        m.learn(None, new, Seeds(2), ignore)
        moved[weight] = (m.learner(new.x)[:, :2].softmax(dim=1) - before).abs().mean().item()
    assert moved[5.0] < 0.3 * moved[0.0]


def test_a_restored_memory_goes_on_alike():
    m = memory(n_classes=2)
    m.learn(None, rows(64, seed=1), Seeds(1), ignore)
    m.grow(3)
    m.learn(None, rows(64, seed=2, classes=(2,)), Seeds(2), ignore)
    again = memory(seed=7)
    again.restore(m.state())
    for each in (m, again):
        each.learn(None, rows(64, seed=3), Seeds(3), ignore)
    x = rows(9, seed=4).x
    assert torch.equal(m.probabilities(x, None), again.probabilities(x, None))
