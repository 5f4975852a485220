"""Digits: ten tasks, the t-th being digit t of MNIST (appendix B)."""

from __future__ import annotations

import numpy as np

from dgdmn.streams import pixels
from dgdmn.streams.task import Rows, TaskStream, unit


def stream(*, seed: int = 0, validation: float = 0.0) -> TaskStream:
    """All training and test images of one digit at a time."""
    tasks = [(str(digit), (digit,)) for digit in range(10)]
    return TaskStream("digits", tasks, (28, 28), rows_of, seed=seed, validation=validation)


def rows_of(*digits: int) -> tuple[Rows, Rows]:
    """The training and test rows of these digits, in MNIST's order."""
    mnist = pixels.mnist()
    return _select(mnist.train_x, mnist.train_y, digits), _select(mnist.test_x, mnist.test_y, digits)


def _select(x: pixels.Bytes, y: pixels.Bytes, digits: tuple[int, ...]) -> Rows:
    chosen = np.isin(y, digits)
    return Rows(unit(x[chosen]), y[chosen].astype(np.int64))
