"""NN and DropNN: dropout after each hidden layer, by the run's own random numbers, only while training."""

import numpy as np
import pytest
import torch

from dgdmn.config import Config, resolve
from dgdmn.networks.factory import NetworkFactory
from dgdmn.networks.layers import Dropout


def rng(seed=0):
    return torch.Generator().manual_seed(seed)


def test_units_are_dropped_at_the_rate_and_the_mean_stays():
    x = Dropout(0.2)(torch.ones(400, 500), rng())
    assert set(x.unique().tolist()) == {0.0, 1.25}
    assert (x == 0).float().mean() == pytest.approx(0.2, abs=0.005)
    assert x.mean() == pytest.approx(1, abs=0.01)
    assert torch.equal(x, Dropout(0.2)(torch.ones(400, 500), rng()))
    assert not torch.equal(x, Dropout(0.2)(torch.ones(400, 500), rng(1)))


@pytest.mark.parametrize(("stream", "side", "layers"), [("digits", 28, 2), ("hindi", 32, 3)])
def test_each_hidden_layer_has_dropout(stream, side, layers):
    factory = NetworkFactory(resolve("paper", stream), (side, side))
    learner = factory.learner("ltm", 10, rng(), dropout=0.2)
    assert sum(isinstance(layer, Dropout) for layer in learner.body) == layers
    x = torch.rand(4, side * side, generator=rng())
    assert torch.equal(learner(x), learner(x)), "units are dropped in testing"
    assert not torch.equal(learner(x, rng(1)), learner(x, rng(2)))


def test_a_rate_of_0_equals_nn_to_the_bit(make, tasks):
    X, y = (np.concatenate(parts) for parts in zip(*tasks, strict=True))
    assert Config().dropout == 0.2
    plain, none, some = make("nn"), make("dropnn", dropout=0.0), make("dropnn")
    answers = [model.partial_fit(X, y).predict_proba(X) for model in (plain, none, some)]
    assert np.array_equal(answers[0], answers[1])
    assert not np.array_equal(answers[0], answers[2])
