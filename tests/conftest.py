"""Test doubles: a generator that stores its samples and deals each out once, a learner that knows them by heart."""

from functools import partial
from types import SimpleNamespace

import pytest
import torch

from dgdmn.events import EpochDone
from dgdmn.samples import Samples


class Log(list):
    """What the doubles were asked to do, in order; copies of a memory write into the same one."""

    def __deepcopy__(self, memo):
        return self

    def trained(self, network, role="ltm"):
        """The samples of every training of that network."""
        return [data for name, where, data in self if (name, where) == (network, role)]

    def steps(self):
        return [f"{where} {name}" for name, where, _ in self]


class StoringGenerator:
    """Deals out what it was trained on; `shift` makes reconstructions recognisable."""

    def __init__(self, log, shift, shape, role, rng):
        self.log, self.shift, self.role = log, shift, role
        self.rows = torch.zeros(0, int(torch.Size(shape).numel()))
        self.dealt = 0

    def fit(self, x, rng, listen):
        self.log.append(("generator", self.role, x))
        self.rows, self.dealt = x, 0
        listen(EpochDone("generator", 1, 1, len(x), 0.0))

    def sample(self, n, rng):
        assert self.dealt + n <= len(self.rows), "more dreams than samples"
        self.dealt += n
        if n:
            self.log.append(("dream", self.role, n))
        return self.rows[self.dealt - n : self.dealt]

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


class RememberingLearner:
    """Answers with the label of the nearest sample it was ever trained on."""

    def __init__(self, log, shape, n_classes, role, rng):
        self.log, self.role, self.n_classes = log, role, n_classes
        self.x, self.y = torch.zeros(0, int(torch.Size(shape).numel())), torch.zeros(0, dtype=torch.long)

    def fit(self, samples, rng, listen):
        self.log.append(("learner", self.role, samples))
        self.x, self.y = torch.cat([self.x, samples.x]), torch.cat([self.y, samples.y])
        listen(EpochDone("learner", 1, 1, len(samples), 0.0))

    def probabilities(self, x):
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
    """`doubles()` makes the factories of both doubles and the log that they share."""

    def make(shift=0.0):
        log = Log()
        return SimpleNamespace(
            log=log,
            generator=partial(StoringGenerator, log, shift),
            learner=partial(RememberingLearner, log),
        )

    return make


@pytest.fixture
def distinct():
    """Samples whose first value says which they are: start, start + 1, … and label them all `y`."""

    def make(start, n, y):
        x = torch.stack([torch.arange(start, start + n).float(), torch.full((n,), float(y))], dim=1)
        return Samples(x, torch.full((n,), y))

    return make
