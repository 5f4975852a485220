"""Embedded digits: handwriting that comes with scikit-learn, for first runs without a download."""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dgdmn.streams.base import Rows, TaskStream, seeded_rng

SIDE = 28
NOTE = "scikit-learn's 1,797 digits, scaled from 8 x 8 to 28 x 28: not comparable with MNIST"


def embedded(*, seed: int = 0, validation: float = 0.0) -> TaskStream:
    """Return ten tasks of one digit each; every seed has the same test rows."""
    tasks = [(str(digit), (digit,)) for digit in range(10)]
    shape = (SIDE, SIDE)
    return TaskStream("embedded", tasks, shape, _load, seed=seed, validation=validation, note=NOTE)


def interpolation_matrix(n_in: int, n_out: int) -> NDArray[np.float32]:
    """Return the (n_out, n_in) matrix that resizes one axis linearly, aligned at pixel centers."""
    at = np.clip((np.arange(n_out) + 0.5) * n_in / n_out - 0.5, 0, n_in - 1)
    distance = np.abs(at[:, None] - np.arange(n_in)[None, :])
    weights: NDArray[np.float32] = np.maximum(0, 1 - distance).astype(np.float32)
    return weights


@lru_cache(maxsize=1)
def _read() -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    from sklearn.datasets import load_digits

    data = load_digits()
    return data.images.astype(np.uint8), data.target.astype(np.int64)


def _load(digit: int) -> tuple[Rows, Rows]:
    images, labels = _read()
    small = images[labels == digit].astype(np.float32) / 16
    axis = interpolation_matrix(8, SIDE)
    rows = Rows(np.clip(axis @ small @ axis.T, 0, 1), np.full(len(small), digit, dtype=np.int64))
    # Seed 0 instead of the stream's seed: runs with different seeds share the test rows.
    order = seeded_rng(0, "embedded test part", digit).permutation(len(rows))
    n_test = round(len(rows) / 5)
    return rows.take(np.sort(order[n_test:])), rows.take(np.sort(order[:n_test]))
