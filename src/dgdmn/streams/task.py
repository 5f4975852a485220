"""What flows out of a stream: tasks of numpy rows, loaded one at a time."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from dgdmn.errors import UsageError
from dgdmn.streams.arguments import check_fraction, check_seed


@dataclass(frozen=True, eq=False)
class Rows:
    """Samples `x` of shape (n, h, w) or (n, d), and their labels `y` of shape (n,)."""

    x: NDArray[Any]
    y: NDArray[Any]

    def __post_init__(self) -> None:
        if len(self.x) != len(self.y):
            raise UsageError(f"x has {len(self.x)} rows and y has {len(self.y)}: give one label for each row")

    def __len__(self) -> int:
        return len(self.y)

    def take(self, index: NDArray[np.intp]) -> Rows:
        """The rows at `index`, copied."""
        return Rows(self.x[index], self.y[index])


@dataclass(frozen=True, eq=False)
class Task:
    """One task: what is learnt, what is held out to tune, what is tested."""

    name: str
    train: Rows
    validation: Rows | None
    test: Rows


Loader = Callable[[int], tuple[Rows, Rows]]
"""Task number -> (train, test)."""

Enlarge = Callable[[int, Rows], Rows]
"""Task number and the training rows left after the validation cut -> the rows to train on."""


class TaskStream(Sequence[Task]):
    """A sequence of tasks; indexing loads one and keeps nothing, the same seed gives the same rows.

    >>> from dgdmn.streams import load
    >>> stream = load("digits")
    >>> len(stream), stream.task_names[3], stream.classes[:3], stream.shape
    (10, '3', (0, 1, 2), (28, 28))
    """

    def __init__(
        self,
        name: str,
        tasks: Iterable[tuple[str, tuple[Hashable, ...]]],
        shape: tuple[int, ...],
        load: Loader,
        *,
        seed: int = 0,
        validation: float = 0.0,
        note: str | Callable[[], str] = "",
        enlarge: Enlarge | None = None,
    ) -> None:
        check_seed(seed)
        check_fraction("validation", validation)
        self.name = name
        self.shape = shape
        self.seed = seed
        self.validation = float(validation)
        self._tasks = tuple(tasks)
        self._load = load
        self._note = note
        self._enlarge = enlarge
        self._numbers = range(len(self._tasks))

    @property
    def task_names(self) -> tuple[str, ...]:
        """The tasks' names in the order they come."""
        return tuple(self._tasks[number][0] for number in self._numbers)

    @property
    def classes(self) -> tuple[Hashable, ...]:
        """All labels of these tasks, in the order they first come; needs no pixels."""
        return tuple(dict.fromkeys(label for labels in self.labels for label in labels))

    @property
    def labels(self) -> tuple[tuple[Hashable, ...], ...]:
        """The labels of each task; needs no pixels."""
        return tuple(self._tasks[number][1] for number in self._numbers)

    @property
    def note(self) -> str:
        """What a result must say about the data; empty where there is nothing to say."""
        return self._note if isinstance(self._note, str) else self._note()

    def __len__(self) -> int:
        return len(self._numbers)

    @overload
    def __getitem__(self, index: int) -> Task: ...
    @overload
    def __getitem__(self, index: slice) -> TaskStream: ...
    def __getitem__(self, index: int | slice) -> Task | TaskStream:
        if isinstance(index, slice):
            return self._part(self._numbers[index])
        # range raises IndexError past the end, which is also what ends a for loop.
        return self._task(self._numbers[index])

    def __repr__(self) -> str:
        return f"TaskStream({self.name!r}, {len(self)} tasks, seed={self.seed})"

    def _part(self, numbers: range) -> TaskStream:
        part = TaskStream(
            self.name,
            self._tasks,
            self.shape,
            self._load,
            seed=self.seed,
            validation=self.validation,
            note=self._note,
            enlarge=self._enlarge,
        )
        # The original numbers stay, so that a task in a slice has the rows it has in the whole stream.
        part._numbers = numbers
        return part

    def _task(self, number: int) -> Task:
        name = self._tasks[number][0]
        train, test = self._load(number)
        held_out = None
        if self.validation > 0:
            train, held_out = cut(train, self.validation, generator(self.seed, "validation", number), name)
        if self._enlarge is not None:
            train = self._enlarge(number, train)
        return Task(name, train, held_out, test)


def cut(rows: Rows, fraction: float, rng: np.random.Generator, name: str) -> tuple[Rows, Rows]:
    """Cut a random `fraction` off `rows`: (what is left, what was cut), both in the rows' own order."""
    n = len(rows)
    if n < 2:
        raise UsageError(f"task {name!r} has {n} training rows: a validation part needs at least 2")
    n_cut = min(max(1, round(fraction * n)), n - 1)
    order = rng.permutation(n)
    return rows.take(np.sort(order[n_cut:])), rows.take(np.sort(order[:n_cut]))


def generator(seed: int, use: str, *numbers: int) -> np.random.Generator:
    """Random numbers for one use: two uses of the same seed never share a sequence."""
    return np.random.default_rng(np.random.SeedSequence([seed, zlib.crc32(use.encode()), *numbers]))


def unit(pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Grey values 0..255 as float32 in [0, 1]."""
    return np.divide(pixels, np.float32(255), dtype=np.float32)
