"""TDigits: forty tasks, the ten digits, as they are, mirrored, upside down and reflected about the diagonal."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dgdmn.errors import UsageError
from dgdmn.streams import digits
from dgdmn.streams.task import Rows, TaskStream

SUFFIXES = ("", " mirrored", " upside down", " transposed")


def stream(
    *, seed: int = 0, validation: float = 0.0, labels: str = "forty", order: str = "transformation"
) -> TaskStream:
    """Digit d under transformation k is class 10 k + d, or d where `labels` is "ten".

    All digits come under one transformation after the other; where `order` is "digit", each digit under all four
    before the next one.
    """
    if labels not in ("forty", "ten"):
        raise UsageError(f"labels is {labels!r}: choose 'forty' (a class for each task) or 'ten'")
    if order not in ("transformation", "digit"):
        raise UsageError(
            f"order is {order!r}: choose 'transformation' (ten digits at a time) or 'digit' (four tasks)"
        )
    n_labels = 40 if labels == "forty" else 10
    numbers = range(40) if order == "transformation" else [10 * k + d for d in range(10) for k in range(4)]
    tasks = [(f"{number % 10}{SUFFIXES[number // 10]}", (number % n_labels,)) for number in numbers]
    load = partial(_load, n_labels, numbers)
    return TaskStream("tdigits", tasks, (28, 28), load, seed=seed, validation=validation)


def transform(x: NDArray[Any], kind: int) -> NDArray[Any]:
    """Images (n, h, w) as they are (0), mirrored (1), upside down (2) or transposed (3)."""
    turned = (x, x[:, :, ::-1], x[:, ::-1, :], x.swapaxes(1, 2))[kind]
    return np.ascontiguousarray(turned)


def _load(n_labels: int, numbers: Sequence[int], place: int) -> tuple[Rows, Rows]:
    number = numbers[place]
    kind, digit = divmod(number, 10)
    train, test = digits.rows_of(digit)
    return _transformed(train, kind, number % n_labels), _transformed(test, kind, number % n_labels)


def _transformed(rows: Rows, kind: int, label: int) -> Rows:
    return Rows(transform(rows.x, kind), np.full(len(rows), label, dtype=np.int64))
