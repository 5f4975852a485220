"""Streams from MNIST: Digits, Split-Digits, TDigits and Permnist."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dgdmn.core.errors import UsageError
from dgdmn.streams import fetch
from dgdmn.streams.base import (
    Pixels,
    Rows,
    TaskStream,
    label_rows,
    scale,
    seeded_rng,
    select_labels,
)
from dgdmn.streams.readers import read_idx

SHAPE = (28, 28)
REFLECTIONS = ("", " mirrored", " upside down", " transposed")
VERSIONS = ("original", "8x8 black", "8x8 white", "8x8 permuted", "12x12 permuted", "mirrored")


def digits(*, seed: int = 0, validation: float = 0.0) -> TaskStream:
    """Return ten tasks: task t has all images of digit t (appendix B)."""
    tasks = [(str(digit), (digit,)) for digit in range(10)]
    return TaskStream("digits", tasks, SHAPE, _load_digits, seed=seed, validation=validation)


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
    tasks = [(f"{n % 10}{REFLECTIONS[n // 10]}", (n % classes,)) for n in numbers]
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


def read_mnist() -> tuple[Rows, Rows]:
    """Return the 60,000 training and 10,000 test images as read-only bytes, parsed once."""
    return fetch.read("mnist", parse_idx)


def parse_idx(*paths: Path) -> tuple[Rows, Rows]:
    """Return the training and test rows of four idx files."""
    train_x, train_y, test_x, test_y = map(read_idx, paths)
    return Rows(train_x, train_y), Rows(test_x, test_y)


def _load_digits(*digits: int) -> tuple[Rows, Rows]:
    train, test = (select_labels(part, digits) for part in read_mnist())
    return train, test


def _load_pair(number: int) -> tuple[Rows, Rows]:
    return _load_digits(2 * number, 2 * number + 1)


def _load_reflected(classes: int, numbers: Sequence[int], place: int) -> tuple[Rows, Rows]:
    kind, digit = divmod(numbers[place], 10)
    label, parts = numbers[place] % classes, _load_digits(digit)
    train, test = (label_rows(reflect(part.x, kind), label) for part in parts)
    return train, test


def reflect(x: NDArray[Any], kind: int) -> NDArray[Any]:
    """Return images (n, h, w) as they are (0), mirrored (1), upside down (2) or transposed (3)."""
    return np.ascontiguousarray((x, x[:, :, ::-1], x[:, ::-1, :], x.swapaxes(1, 2))[kind])


def _load_version(seed: int, train_size: int, number: int) -> tuple[Rows, Rows]:
    train, test = read_mnist()
    if train_size > len(train):
        raise UsageError(f"train_size is {train_size}: the training set has {len(train)} images")
    rng = seeded_rng(seed, "permnist draw", number)
    train = train.take(rng.choice(len(train), train_size, replace=False))
    train, test = (Rows(change_patch(part.x, number, seed), part.y) for part in (train, test))
    return scale(train), scale(test)


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
