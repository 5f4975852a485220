"""Permnist: six versions of MNIST with all ten digits each, in the paper's order (appendix B)."""

from __future__ import annotations

from functools import partial

import numpy as np

from dgdmn.errors import UsageError
from dgdmn.streams import pixels
from dgdmn.streams.task import Rows, TaskStream, generator, unit

TASKS = ("original", "8x8 black", "8x8 white", "8x8 permuted", "12x12 permuted", "mirrored")


def stream(*, seed: int = 0, validation: float = 0.0, train_size: int = 30_000) -> TaskStream:
    """Each task draws `train_size` training images anew; permutations and draws come from the seed."""
    if train_size < 1:
        raise UsageError(f"train_size is {train_size}: give at least 1")
    tasks = [(name, tuple(range(10))) for name in TASKS]
    load = partial(_load, seed, train_size)
    return TaskStream("permnist", tasks, (28, 28), load, seed=seed, validation=validation)


def transform(x: pixels.Bytes, number: int, seed: int) -> pixels.Bytes:
    """The images of task `number`; a permutation is the same for every image of a stream."""
    if number == 0:
        return x
    if number == 5:
        return np.ascontiguousarray(x[:, :, ::-1])
    x = x.copy()
    side = 12 if number == 4 else 8
    top, left = (x.shape[1] - side) // 2, (x.shape[2] - side) // 2
    patch = x[:, top : top + side, left : left + side]
    if number in (1, 2):
        patch[:] = 0 if number == 1 else 255
    else:
        order = generator(seed, "permnist permutation", number).permutation(side * side)
        patch[:] = patch.reshape(-1, side * side)[:, order].reshape(patch.shape)
    return x


def _load(seed: int, train_size: int, number: int) -> tuple[Rows, Rows]:
    mnist = pixels.mnist()
    n = len(mnist.train_y)
    if train_size > n:
        raise UsageError(f"train_size is {train_size}: the training set has {n} images")
    drawn = generator(seed, "permnist draw", number).choice(n, train_size, replace=False)
    train = Rows(unit(transform(mnist.train_x[drawn], number, seed)), mnist.train_y[drawn].astype(np.int64))
    test = Rows(unit(transform(mnist.test_x, number, seed)), mnist.test_y.astype(np.int64))
    return train, test
