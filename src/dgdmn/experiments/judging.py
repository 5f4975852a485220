"""What a dream is a dream of: its nearest real rows vote."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dgdmn.experiments.balance import Labelled
from dgdmn.networks.training import in_batches

VOTERS = 5
"""Rows that vote on each dream."""


class Judges:
    """Real rows that say which label and which task an input belongs to."""

    def __init__(self, rows: Labelled) -> None:
        self._rows, self._x = rows, _flat(rows.x)
        self._half_squares = self._x.square().sum(dim=1) / 2

    def verdicts(self, x: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """The label and the task of each input, by the majority of its nearest rows; ties to the nearest."""
        nearest = in_batches(self._nearest, _flat(x), size=256).numpy()
        return majority(self._rows.y[nearest]), majority(self._rows.task[nearest])

    def _nearest(self, x: Tensor) -> Tensor:
        # |x − r|² / 2 less |x|² / 2, which is the same for every row r
        distances = torch.addmm(self._half_squares, x, self._x.T, alpha=-1)
        return distances.topk(min(VOTERS, len(self._x)), largest=False).indices


def majority(votes: NDArray[Any]) -> NDArray[Any]:
    """The most frequent value of each row; of several, the one that comes first.

    >>> majority(np.array([[3, 1, 1], [2, 7, 5], [8, 4, 4]])).tolist()
    [1, 2, 4]
    """
    frequency = (votes[:, :, None] == votes[:, None, :]).sum(axis=2)
    winner: NDArray[Any] = votes[np.arange(len(votes)), frequency.argmax(axis=1)]
    return winner


def _flat(x: NDArray[Any]) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(x, dtype=np.float32).reshape(len(x), -1))
