"""PPR: random inputs, labeled by the network before it learns something new."""

import copy

import numpy as np
import pytest
import torch

from dgdmn.algorithms.nn import _RehearsingNetwork
from dgdmn.config import Config
from dgdmn.core.batch import Batch
from dgdmn.core.events import Context
from dgdmn.core.rng import SeedStream
from dgdmn.networks.factory import NetworkFactory


def rows(n, label):
    x = np.random.default_rng(label).random((n, 5), dtype=np.float32)
    return Batch(x, np.full(n, label))


@pytest.fixture
def rehearsing(doubles):
    def make(**options):
        made = doubles()
        factory = NetworkFactory(Config(**options), (5,), own_learner=made.learner)
        return _RehearsingNetwork(factory, 4, SeedStream(0)), made.log

    return make


@pytest.mark.parametrize(
    ("memory", "trained"),
    [(30, [10, 30, 30]), (12, [10, 12, 12]), (4, [10, 10, 10]), (0, [10, 30, 30])],
)
def test_random_inputs_fill_the_memory_from_the_second_task_on(rehearsing, memory, trained):
    m, log = rehearsing(ppr_memory=memory)
    for label in range(3):
        m.learn(None, rows(10, label), Context(SeedStream(label)))
    assert [len(batch) for batch in log.trained("learner", "ltm")] == trained


def test_labels_are_the_networks_answers_before_it_learns(rehearsing):
    m, log = rehearsing(ppr_memory=40)
    m.learn(None, rows(10, 1), Context(SeedStream(0)))
    m.learn(None, rows(10, 2), Context(SeedStream(1)))
    assert log.trained("learner", "ltm")[-1].y[10:].tolist() == [1] * 30, "it knew one class then"
    known = copy.deepcopy(m.learner)
    m.learn(None, rows(10, 3), Context(SeedStream(2)))
    patterns = log.trained("learner", "ltm")[-1][10:]
    assert torch.equal(patterns.y, known.predict_proba(patterns.x).argmax(dim=1))
    assert set(patterns.y.tolist()) == {1, 2}


def test_patterns_are_uniform_in_the_unit_cube_and_new_each_time(rehearsing):
    m, _ = rehearsing()
    rng = SeedStream(3)
    first, second = m.pseudopatterns(2000, 5, rng), m.pseudopatterns(2000, 5, rng)
    assert not torch.equal(first.x, second.x)
    assert 0 <= first.x.min() < 0.01 < 0.99 < first.x.max() <= 1
    assert torch.allclose(first.x.mean(dim=0), torch.tensor(0.5), atol=0.03)
    assert torch.allclose(first.x.var(dim=0), torch.tensor(1 / 12), atol=0.01)


def test_the_first_task_is_learned_as_by_nn(make, tasks):
    X, y = (np.concatenate(parts) for parts in zip(*tasks, strict=True))
    ppr, nn = (make(name).partial_fit(X, y) for name in ("ppr", "nn"))
    assert np.array_equal(ppr.predict_proba(X), nn.predict_proba(X))
