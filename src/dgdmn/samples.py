"""Samples: the one value that flows through the memory."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Samples:
    """Inputs and their labels, row by row. Immutable by convention: nobody writes into its tensors."""

    x: Tensor
    """Flattened inputs in [0, 1], shape (n, d)."""
    y: Tensor
    """Class indices, shape (n,), or what a learner is to answer: probabilities, shape (n, classes)."""

    def __post_init__(self) -> None:
        if len(self.x) != len(self.y):
            raise ValueError(f"{len(self.x)} inputs but {len(self.y)} labels")

    def __len__(self) -> int:
        return len(self.x)

    def __deepcopy__(self, memo: dict[int, object]) -> Samples:
        return self

    def classes(self) -> frozenset[int]:
        """The class indices that occur."""
        return frozenset(self.y.unique().tolist())

    def subsample(self, n: int, generator: torch.Generator) -> Samples:
        """Draw n of these samples without replacement."""
        chosen = torch.randperm(len(self), generator=generator)[:n].to(self.x.device)
        return Samples(self.x[chosen], self.y[chosen])


def concat(*parts: Samples) -> Samples:
    """Put samples one after the other; a single non-empty part is passed on without a copy."""
    filled = [part for part in parts if len(part)] or list(parts[:1])
    if len(filled) == 1:
        return filled[0]
    return Samples(torch.cat([part.x for part in filled]), torch.cat([part.y for part in filled]))
