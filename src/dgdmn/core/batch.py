"""Batch: inputs and labels. Memories take and return batches of numpy arrays or tensors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, eq=False)
class Batch:
    """Inputs and their labels, row by row. Treat it as immutable: nothing writes into its arrays."""

    x: Any
    """Features, or flattened inputs in [0, 1], shape (n, d): numpy between memories, a tensor inside networks."""
    y: Any
    """Class indices, shape (n,)."""
    raw: Any = None
    """The flat inputs behind features `x`, for memories that decode features; numpy or None."""
    weight: Any = None
    """Weight of each row, above 0, shape (n,); None means 1. Only memories of sums use it."""

    def __post_init__(self) -> None:
        if len(self.x) != len(self.y):
            raise ValueError(f"{len(self.x)} inputs but {len(self.y)} labels")

    def __len__(self) -> int:
        return len(self.x)

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        return self

    def __getitem__(self, rows: Any) -> Self:
        raw, weight = (None if one is None else one[rows] for one in (self.raw, self.weight))
        return type(self)(self.x[rows], self.y[rows], raw, weight)

    def classes(self) -> frozenset[int]:
        """The class indices that occur."""
        return frozenset(self.y.tolist())

    def subsample(self, n: int, generator: torch.Generator) -> Self:
        """Draw n of these samples without replacement."""
        import torch

        chosen = torch.randperm(len(self), generator=generator)[:n]
        return self[chosen.to(self.x.device)] if _is_tensor(self.x) else self[chosen.numpy()]


AnyBatch = TypeVar("AnyBatch", bound=Batch)


def concat(*parts: AnyBatch) -> AnyBatch:
    """Concatenate batches without weights; a single non-empty part is returned without a copy."""
    filled = [part for part in parts if len(part)] or list(parts[:1])
    if len(filled) == 1:
        return filled[0]
    if any(part.weight is not None or part.raw is not None for part in filled):
        raise ValueError("batches with weights or raw inputs cannot be concatenated")
    join: Any = np.concatenate
    if _is_tensor(filled[0].x):
        import torch

        join = torch.cat
    return type(filled[0])(join([part.x for part in filled]), join([part.y for part in filled]))


def _is_tensor(values: Any) -> bool:
    return not isinstance(values, np.ndarray)
