"""Pseudopattern rehearsal: noise, labelled by the network before it learns what is new."""

import copy

import numpy as np
import pytest
import torch

from dgdmn import NN, PPR
from dgdmn.algorithms.ppr import _Rehearsing
from dgdmn.events import ignore
from dgdmn.networks.blueprint import Blueprint
from dgdmn.presets import Preset
from dgdmn.samples import Samples
from dgdmn.seeds import Seeds


def rows(n, label, d=5):
    return Samples(torch.rand(n, d, generator=torch.Generator().manual_seed(label)), torch.full((n,), label))


@pytest.fixture
def rehearsing(doubles):
    def make(**options):
        made = doubles()
        blueprint = Blueprint(Preset(**options), (5,), own_learner=made.learner)
        return _Rehearsing(blueprint, 4, Seeds(0)), made.log

    return make


@pytest.mark.parametrize(
    ("memory", "trained"), [(30, [10, 30, 30]), (12, [10, 12, 12]), (4, [10, 10, 10]), (0, [10, 30, 30])]
)
def test_the_memory_is_filled_with_noise_from_the_second_task_on(rehearsing, memory, trained):
    m, log = rehearsing(ppr_memory=memory)
    for label in range(3):
        m.learn(None, rows(10, label), Seeds(label), ignore)
    assert [len(samples) for samples in log.trained("learner", "ltm")] == trained


def test_labels_are_the_networks_own_before_it_learns(rehearsing):
    m, log = rehearsing(ppr_memory=40)
    m.learn(None, rows(10, 1), Seeds(0), ignore)
    m.learn(None, rows(10, 2), Seeds(1), ignore)
    assert log.trained("learner", "ltm")[-1].y[10:].tolist() == [1] * 30, "all that it knew then"
    known = copy.deepcopy(m.learner)
    m.learn(None, rows(10, 3), Seeds(2), ignore)
    noise = log.trained("learner", "ltm")[-1]
    assert torch.equal(noise.y[10:], known.probabilities(noise.x[10:]).argmax(dim=1))
    assert set(noise.y[10:].tolist()) == {1, 2}


def test_patterns_are_uniform_in_the_unit_cube_and_new_each_time(rehearsing):
    m, _ = rehearsing()
    seeds = Seeds(3)
    first, second = m.pseudopatterns(2000, 5, seeds), m.pseudopatterns(2000, 5, seeds)
    assert not torch.equal(first.x, second.x)
    assert 0 <= first.x.min() < 0.01 < 0.99 < first.x.max() <= 1
    assert torch.allclose(first.x.mean(dim=0), torch.tensor(0.5), atol=0.03)
    assert torch.allclose(first.x.var(dim=0), torch.tensor(1 / 12), atol=0.01)


def test_the_first_task_is_learnt_as_by_nn(make, tasks):
    X, y = np.concatenate([X for X, _ in tasks]), np.concatenate([y for _, y in tasks])
    ppr, nn = (make(name).partial_fit(X, y) for name in ("ppr", "nn"))
    assert isinstance(ppr, PPR)
    assert isinstance(nn, NN)
    assert np.array_equal(ppr.predict_proba(X), nn.predict_proba(X))
