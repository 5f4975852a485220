"""Split digits: five tasks of two digits each, the split of MNIST that other papers report on."""

from __future__ import annotations

from dgdmn.streams import digits
from dgdmn.streams.task import Rows, TaskStream


def stream(*, seed: int = 0, validation: float = 0.0) -> TaskStream:
    """Tasks 0/1, 2/3, 4/5, 6/7 and 8/9; labels stay the digits."""
    tasks = [(f"{first}/{first + 1}", (first, first + 1)) for first in range(0, 10, 2)]
    return TaskStream("split-digits", tasks, (28, 28), _load, seed=seed, validation=validation)


def _load(number: int) -> tuple[Rows, Rows]:
    return digits.rows_of(2 * number, 2 * number + 1)
