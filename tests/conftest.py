"""Test doubles: a generator that stores its samples and returns each once, a learner that memorizes."""

from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from dgdmn.core.batch import Batch
from dgdmn.core.events import EpochDone


class Log(list):
    """What the doubles were asked to do, in order; copies of a network write into the same log."""

    def __deepcopy__(self, memo):
        return self

    def trained(self, network, role="ltm"):
        """The samples of every training of that network."""
        return [data for name, where, data in self if (name, where) == (network, role)]

    def steps(self):
        return [f"{where} {name}" for name, where, _ in self]


class StoringGenerator:
    """Samples are its training rows, each at most once; `shift` marks reconstructions."""

    def __init__(self, log, shift, shape, role, rng):
        self.log, self.shift, self.role = log, shift, role
        self.rows = torch.zeros(0, int(torch.Size(shape).numel()))
        self.used = 0

    def fit(self, x, rng, callback):
        self.log.append(("generator", self.role, x))
        self.rows, self.used = x, 0
        callback(EpochDone("generator", 1, 1, len(x), 0.0))

    def sample(self, n, rng):
        assert self.used + n <= len(self.rows), "more dreams than samples"
        self.used += n
        if n:
            self.log.append(("dream", self.role, n))
        return self.rows[self.used - n : self.used]

    def reconstruct(self, x):
        self.log.append(("reconstruct", self.role, x))
        return x + self.shift

    def reconstruction_loss(self, x):
        if not len(self.rows):
            return torch.full((len(x),), 1000.0)
        return torch.cdist(x, self.rows).min(dim=1).values

    def state_dict(self):
        return {"rows": self.rows}

    def load_state_dict(self, state):
        self.rows = state["rows"]


class MemorizingLearner:
    """Predicts the label of the nearest sample it was ever trained on."""

    def __init__(self, log, shape, n_classes, role, rng):
        self.log, self.role, self.n_classes = log, role, n_classes
        self.x = torch.zeros(0, int(torch.Size(shape).numel()))
        self.y = torch.zeros(0, dtype=torch.long)

    def fit(self, batch, rng, callback):
        self.log.append(("learner", self.role, batch))
        self.x, self.y = torch.cat([self.x, batch.x]), torch.cat([self.y, batch.y])
        callback(EpochDone("learner", 1, 1, len(batch), 0.0))

    def predict_proba(self, x):
        if not len(self.x) or not len(x):
            return torch.full((len(x), self.n_classes), 1 / self.n_classes)
        nearest = torch.cdist(x, self.x).argmin(dim=1)
        return torch.nn.functional.one_hot(self.y[nearest], self.n_classes).float()

    def grow(self, n_classes, rng):
        self.n_classes = n_classes

    def state_dict(self):
        return {"x": self.x, "y": self.y}

    def load_state_dict(self, state):
        self.x, self.y = state["x"], state["y"]


@pytest.fixture
def doubles():
    """`doubles()` makes factories of both doubles and the log that they share."""

    def make(shift=0.0):
        log = Log()
        return SimpleNamespace(
            log=log,
            generator=partial(StoringGenerator, log, shift),
            learner=partial(MemorizingLearner, log),
        )

    return make


@pytest.fixture
def distinct():
    """`distinct(start, n, y)`: rows whose first value is start, start + 1, …, all of class y."""

    def make(start, n, y):
        x = np.stack([np.arange(start, start + n), np.full(n, y)], axis=1).astype(np.float32)
        return Batch(x, np.full(n, y, dtype=np.int64))

    return make
