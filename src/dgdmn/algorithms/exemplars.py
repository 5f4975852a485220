"""Exemplars: training rows that are kept, and how many may be."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from dgdmn.core.batch import Batch
from dgdmn.core.errors import UsageError
from dgdmn.core.rng import SeedStream
from dgdmn.memory.dual import DualMemory
from dgdmn.memory.generative import deep_memories
from dgdmn.networks.factory import NetworkFactory
from dgdmn.networks.layers import meta_weights
from dgdmn.storage import State

LABEL_BYTES = 4
"""A label is kept as int32."""


@dataclass(frozen=True, eq=False)
class Exemplars:
    """Rows as uint8, round(255 x), which is exact for data that came as uint8. Immutable."""

    x: Tensor
    """Inputs as uint8, shape (n, d)."""
    y: Tensor
    """Class indices as int32, shape (n,)."""

    @classmethod
    def from_batch(cls, batch: Batch) -> Exemplars:
        """These samples as bytes."""
        return cls((batch.x * 255).round().to(torch.uint8), batch.y.to(torch.int32))

    def __len__(self) -> int:
        return len(self.x)

    def __deepcopy__(self, memo: dict[int, object]) -> Exemplars:
        return self

    def to_batch(self) -> Batch:
        """The rows as a network trains on them: inputs in [0, 1]."""
        return Batch(self.x.float() / 255, self.y.long())

    def take(self, rows: Tensor) -> Exemplars:
        """Some of these rows, by number or by a mask."""
        return Exemplars(self.x[rows], self.y[rows])

    def first(self, n: int) -> Exemplars:
        """Copies of the first n rows; a view would keep all rows in memory."""
        return Exemplars(self.x[:n].clone(), self.y[:n].clone())

    def state(self) -> State:
        """The rows as plain tensors."""
        return {"x": self.x, "y": self.y}

    @classmethod
    def from_state(cls, state: State) -> Exemplars:
        """The rows that `state` returned."""
        return cls(state["x"], state["y"])


def join(*parts: Exemplars) -> Exemplars:
    """Concatenate exemplars."""
    return Exemplars(torch.cat([part.x for part in parts]), torch.cat([part.y for part in parts]))


def exemplar_capacity(factory: NetworkFactory, n_classes: int) -> int:
    """How many rows may be kept: `exemplars`, or as many as fit the bytes of DGDMN's memory.

    DGDMN's memory is counted with our own networks and with outputs for the classes known when learning
    begins.
    """
    rows = factory.config.exemplars
    if not rows:
        ours = replace(factory, own_generator=None, own_learner=None)
        with meta_weights():
            memory = DualMemory(deep_memories(ours), ours.config, n_classes, SeedStream(0))
            rows = memory.nbytes() // (math.prod(factory.shape) + LABEL_BYTES)
    if not rows:
        raise UsageError("exemplars is 0 and DGDMN's memory is smaller than one row; set exemplars")
    return rows
