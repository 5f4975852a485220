"""Embedded digits: real handwriting that comes with scikit-learn, for first runs without a network."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dgdmn.streams.task import Rows, TaskStream, generator

SIDE = 28
NOTE = "scikit-learn's 1,797 embedded digits, 8 x 8 scaled to 28 x 28: not MNIST, its numbers do not compare"


def stream(*, seed: int = 0, validation: float = 0.0) -> TaskStream:
    """Ten tasks of one digit each; the test part is the same for every seed."""
    tasks = [(str(digit), (digit,)) for digit in range(10)]
    return TaskStream("embedded", tasks, (SIDE, SIDE), _load, seed=seed, validation=validation, note=NOTE)


@lru_cache(maxsize=1)
def _source() -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    from sklearn.datasets import load_digits

    data = load_digits()
    images, labels = data.images.astype(np.uint8), data.target.astype(np.int64)
    images.flags.writeable = labels.flags.writeable = False
    return images, labels


def bilinear(n_in: int, n_out: int) -> NDArray[np.float32]:
    """The (n_out, n_in) matrix that interpolates one axis, pixel centres to pixel centres."""
    at = np.clip((np.arange(n_out) + 0.5) * n_in / n_out - 0.5, 0, n_in - 1)
    distance = np.abs(at[:, None] - np.arange(n_in)[None, :])
    weights: NDArray[np.float32] = np.maximum(0, 1 - distance).astype(np.float32)
    return weights


def _load(digit: int) -> tuple[Rows, Rows]:
    images, labels = _source()
    small = images[labels == digit].astype(np.float32) / 16
    axis = bilinear(8, SIDE)
    x = np.clip(axis @ small @ axis.T, 0, 1)
    y = np.full(len(x), digit, dtype=np.int64)
    # A constant in place of the stream's seed: results of different seeds share one test part.
    order = generator(0, "embedded test part", digit).permutation(len(x))
    n_test = round(len(x) / 5)
    rows = Rows(x, y)
    return rows.take(np.sort(order[n_test:])), rows.take(np.sort(order[:n_test]))
