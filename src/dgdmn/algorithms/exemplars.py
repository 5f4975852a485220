"""Exemplars: rows of the past kept as they were, and how many there is room for."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from dgdmn.errors import UsageError
from dgdmn.memory.dual import full_bytes
from dgdmn.networks.blueprint import Blueprint
from dgdmn.samples import Samples
from dgdmn.storage import State

LABEL_BYTES = 4
"""A label is kept as int32."""


@dataclass(frozen=True, eq=False)
class Exemplars:
    """Rows in as few bytes as images have: round(255 x), which is exact for data that came as uint8.

    Immutable by convention, as `Samples` are: copies of a memory share them.
    """

    x: Tensor
    """Inputs as uint8, shape (n, d)."""
    y: Tensor
    """Class indices as int32, shape (n,)."""

    @classmethod
    def of(cls, samples: Samples) -> Exemplars:
        """These samples as bytes."""
        return cls((samples.x * 255).round().to(torch.uint8), samples.y.to(torch.int32))

    def __len__(self) -> int:
        return len(self.x)

    def __deepcopy__(self, memo: dict[int, object]) -> Exemplars:
        return self

    def samples(self) -> Samples:
        """What a network trains on: inputs in [0, 1] again."""
        return Samples(self.x.float() / 255, self.y.long())

    def take(self, rows: Tensor) -> Exemplars:
        """Some of these rows, by number or by a mask."""
        return Exemplars(self.x[rows], self.y[rows])

    def first(self, n: int) -> Exemplars:
        """The first n rows; a copy, for a view would keep all the others in memory."""
        return Exemplars(self.x[:n].clone(), self.y[:n].clone())

    def state(self) -> State:
        """The rows as plain tensors."""
        return {"x": self.x, "y": self.y}

    @classmethod
    def restored(cls, state: State) -> Exemplars:
        """What `state` gave."""
        return cls(state["x"], state["y"])


def joined(*parts: Exemplars) -> Exemplars:
    """Exemplars one after the other."""
    return Exemplars(torch.cat([part.x for part in parts]), torch.cat([part.y for part in parts]))


def room(blueprint: Blueprint, n_classes: int) -> int:
    """How many rows may be kept: `exemplars`, or as many as fit into the bytes of DGDMN's memory.

    A row takes a byte for each value and LABEL_BYTES. DGDMN's memory has outputs for the classes known
    when learning begins.
    """
    rows = blueprint.preset.exemplars
    if not rows:
        rows = full_bytes(blueprint, n_classes) // (math.prod(blueprint.shape) + LABEL_BYTES)
    if not rows:
        raise UsageError(
            "exemplars is 0, and DGDMN's memory is smaller than one row; give exemplars a number"
        )
    return rows
