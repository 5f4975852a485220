"""Streams from MNIST: Digits, Split-Digits, TDigits and Permnist."""

from collections.abc import Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dgdmn.core.errors import UsageError
from dgdmn.streams.base import Pixels, Rows, TaskStream, seeded_rng, to_unit
from dgdmn.streams.fetch import find
from dgdmn.streams.readers import read_idx

SHAPE = (28, 28)
REFLECTIONS = ("", " mirrored", " upside down", " transposed")
VERSIONS = ("original", "8x8 black", "8x8 white", "8x8 permuted", "12x12 permuted", "mirrored")


class Mnist(NamedTuple):
    """Training and test images (n, 28, 28) with their labels (n,), read-only."""

    train_x: Pixels
    train_y: Pixels
    test_x: Pixels
    test_y: Pixels


def digits(*, seed: int = 0, validation: float = 0.0) -> TaskStream:
    """Return ten tasks: task t has all images of digit t (appendix B)."""
    tasks = [(str(digit), (digit,)) for digit in range(10)]
    return TaskStream("digits", tasks, SHAPE, rows_of, seed=seed, validation=validation)


def split_digits(*, seed: int = 0, validation: float = 0.0) -> TaskStream:
    """Return the five tasks 0/1, 2/3, 4/5, 6/7 and 8/9, as many other papers use them."""
    tasks = [(f"{first}/{first + 1}", (first, first + 1)) for first in range(0, 10, 2)]
    return TaskStream("split-digits", tasks, SHAPE, _load_pair, seed=seed, validation=validation)


def tdigits(*, seed: int = 0, validation: float = 0.0, classes: int = 40) -> TaskStream:
    """Return forty tasks: each digit as it is, mirrored, upside down and transposed.

    With 40 classes, digit d under reflection k has label 10 k + d, and all digits come under one
    reflection before the next. With 10 classes its label is d, and each digit comes under all
    four reflections before the next digit.
    """
    if classes not in (10, 40):
        raise UsageError(f"classes is {classes!r}: choose 40 (one per task) or 10 (one per digit)")
    by_digit = [10 * kind + digit for digit in range(10) for kind in range(4)]
    numbers = list(range(40)) if classes == 40 else by_digit
    tasks = [
        (f"{number % 10}{REFLECTIONS[number // 10]}", (number % classes,)) for number in numbers
    ]
    load = partial(_load_reflected, classes, numbers)
    return TaskStream("tdigits", tasks, SHAPE, load, seed=seed, validation=validation)


def permnist(*, seed: int = 0, validation: float = 0.0, train_size: int = 30_000) -> TaskStream:
    """Return six versions of MNIST with all ten digits each, in the paper's order (appendix B).

    Each task draws its own `train_size` training images. The seed decides draws and permutations.
    """
    if train_size < 1:
        raise UsageError(f"train_size is {train_size}: give at least 1")
    tasks = [(version, tuple(range(10))) for version in VERSIONS]
    load = partial(_load_version, seed, train_size)
    return TaskStream("permnist", tasks, SHAPE, load, seed=seed, validation=validation)


def read_mnist() -> Mnist:
    """Return the 60,000 training and 10,000 test images; files are parsed once per process."""
    return _parse(*((path, path.stat().st_mtime_ns) for path in find("mnist").values()))


@lru_cache(maxsize=1)
def _parse(*files: tuple[Path, int]) -> Mnist:
    # The modification time is part of the key, so a file that was fetched again is parsed again.
    return Mnist(*(read_idx(path) for path, _ in files))


def rows_of(*labels: int) -> tuple[Rows, Rows]:
    """Return the training and test rows of these digits, in MNIST's order."""
    mnist = read_mnist()
    return _select(mnist.train_x, mnist.train_y, labels), _select(
        mnist.test_x, mnist.test_y, labels
    )


def _select(x: Pixels, y: Pixels, labels: tuple[int, ...]) -> Rows:
    chosen = np.isin(y, labels)
    return Rows(to_unit(x[chosen]), y[chosen].astype(np.int64))


def _load_pair(number: int) -> tuple[Rows, Rows]:
    return rows_of(2 * number, 2 * number + 1)


def _load_reflected(classes: int, numbers: Sequence[int], place: int) -> tuple[Rows, Rows]:
    kind, digit = divmod(numbers[place], 10)
    train, test = (
        Rows(reflect(rows.x, kind), np.full(len(rows), numbers[place] % classes, dtype=np.int64))
        for rows in rows_of(digit)
    )
    return train, test


def reflect(x: NDArray[Any], kind: int) -> NDArray[Any]:
    """Return images (n, h, w) as they are (0), mirrored (1), upside down (2) or transposed (3)."""
    return np.ascontiguousarray((x, x[:, :, ::-1], x[:, ::-1, :], x.swapaxes(1, 2))[kind])


def _load_version(seed: int, train_size: int, number: int) -> tuple[Rows, Rows]:
    mnist = read_mnist()
    n = len(mnist.train_y)
    if train_size > n:
        raise UsageError(f"train_size is {train_size}: the training set has {n} images")
    drawn = seeded_rng(seed, "permnist draw", number).choice(n, train_size, replace=False)
    train = to_unit(change_patch(mnist.train_x[drawn], number, seed))
    test = to_unit(change_patch(mnist.test_x, number, seed))
    return Rows(train, mnist.train_y[drawn].astype(np.int64)), Rows(
        test, mnist.test_y.astype(np.int64)
    )


def change_patch(x: Pixels, number: int, seed: int) -> Pixels:
    """Return the images of version `number`. All images of a stream share a permutation."""
    if number == 0:
        return x
    if number == 5:
        return reflect(x, 1)
    x = x.copy()
    side = 12 if number == 4 else 8
    top, left = (x.shape[1] - side) // 2, (x.shape[2] - side) // 2
    patch = x[:, top : top + side, left : left + side]
    if number in (1, 2):
        patch[:] = 0 if number == 1 else 255
    else:
        order = seeded_rng(seed, "permnist permutation", number).permutation(side * side)
        patch[:] = patch.reshape(-1, side * side)[:, order].reshape(patch.shape)
    return x
