"""Rows, tasks and streams of tasks, and what every stream shares."""

import zlib
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, Literal, Self, overload

import numpy as np
from numpy.typing import NDArray

from dgdmn.core.errors import UsageError

Pixels = NDArray[np.uint8]


@dataclass(frozen=True, eq=False)
class Rows:
    """Samples `x` of shape (n, h, w) or (n, d) and their labels `y` of shape (n,)."""

    x: NDArray[Any]
    y: NDArray[Any]

    def __post_init__(self) -> None:
        if len(self.x) != len(self.y):
            raise UsageError(f"x has {len(self.x)} rows and y has {len(self.y)}: give equally many")

    def __len__(self) -> int:
        return len(self.y)

    def take(self, index: NDArray[np.intp] | NDArray[np.bool_]) -> Self:
        """Return copies of the rows at `index`, numbers or a mask."""
        return type(self)(self.x[index], self.y[index])


@dataclass(frozen=True, eq=False)
class Chunk:
    """Samples that arrive together, with labels or without."""

    x: NDArray[Any]
    y: NDArray[Any] | None = None
    """Labels, shape (n,); None: not known."""
    task: str | None = None
    """The task they belong to; None: where tasks begin and end is not known."""

    def __post_init__(self) -> None:
        if self.y is not None:
            Rows(self.x, self.y)  # checks the lengths

    def __len__(self) -> int:
        return len(self.x)


@dataclass(frozen=True, eq=False)
class Task:
    """One task: rows to train on, rows to tune on, rows to test on."""

    name: str
    train: Rows
    validation: Rows | None
    test: Rows


class TaskStream(Sequence[Task]):
    """A sequence of tasks. Only indexing loads rows; the same seed gives the same rows.

    `tasks` lists each task's name and labels. `load` maps a task's number to (train, test), or to
    (train, validation, test) if the stream cuts its own validation rows. `augment` maps a task's
    number and the rows left after the validation split to the rows to train on. If `note` is a
    function, it is called each time the note is read. `common_test` says that all tasks have the same test
    rows, which belong to no task. `unknown` maps "test" or "validation" to rows of no class.
    `has_missing` says that values are missing: they are NaN in rows of shape (n, d).

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
        load: Callable[[int], tuple[Rows, Rows] | tuple[Rows, Rows | None, Rows]],
        *,
        seed: int = 0,
        validation: float = 0.0,
        note: str | Callable[[], str] = "",
        augment: Callable[[int, Rows], Rows] | None = None,
        common_test: bool = False,
        unknown: Callable[[str], NDArray[Any]] | None = None,
        has_missing: bool = False,
    ) -> None:
        check_seed(seed)
        check_fraction("validation", validation)
        self.name, self.shape, self.seed, self.validation = name, shape, seed, float(validation)
        self._tasks, self._load, self._note, self._augment = tuple(tasks), load, note, augment
        self.common_test, self._unknown = common_test, unknown
        self.has_missing = has_missing
        self.is_registered = False  # whether its name and seed decide its rows
        self._numbers = range(len(self._tasks))

    @property
    def task_names(self) -> tuple[str, ...]:
        return tuple(self._tasks[number][0] for number in self._numbers)

    @property
    def labels(self) -> tuple[tuple[Hashable, ...], ...]:
        """The labels of each task."""
        return tuple(self._tasks[number][1] for number in self._numbers)

    @property
    def classes(self) -> tuple[Hashable, ...]:
        """All labels in order of first appearance."""
        return tuple(dict.fromkeys(label for labels in self.labels for label in labels))

    @property
    def note(self) -> str:
        """What a report must say about the data, or an empty string."""
        return self._note if isinstance(self._note, str) else self._note()

    def add_note(self, *notes: str) -> None:
        """Say more about the data."""
        self._note = "; ".join(filter(None, (self.note, *notes)))

    @property
    def has_unknown(self) -> bool:
        """Whether the stream has rows of no class, to test the detection of unknown inputs."""
        return self._unknown is not None

    def unknown_rows(self, part: Literal["test", "validation"] = "test") -> NDArray[Any]:
        """Return rows that belong to no class; tune on those of "validation"."""
        if self._unknown is None:
            raise UsageError(f"stream {self.name!r} has no unknown rows; check has_unknown first")
        if part not in ("test", "validation"):
            raise UsageError(f"part is {part!r}: choose test or validation")
        return self._unknown(part)

    def __len__(self) -> int:
        return len(self._numbers)

    @overload
    def __getitem__(self, index: int) -> Task: ...
    @overload
    def __getitem__(self, index: slice) -> Self: ...
    def __getitem__(self, index: int | slice) -> Task | Self:
        if isinstance(index, slice):
            # Tasks keep their numbers, so a slice has the rows of the whole stream.
            part = copy(self)
            part.is_registered = False
            part._numbers = self._numbers[index]
            return part
        return self._load_task(self._numbers[index])

    def chunks(self, size: int, *, with_tasks: bool = True) -> Iterator[Chunk]:
        """Return the training rows of one task after the other, at most `size` at a time, as a sensor delivers them."""
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise UsageError(f"size is {size!r}: give a whole number of at least 1")
        for task in self:
            for start in range(0, len(task.train), size):
                part = slice(start, start + size)
                name = task.name if with_tasks else None
                yield Chunk(task.train.x[part], task.train.y[part], name)

    def __repr__(self) -> str:
        return f"TaskStream({self.name!r}, {len(self)} tasks, seed={self.seed})"

    def _load_task(self, number: int) -> Task:
        name, held_out = self._tasks[number][0], None
        train, *own, test = self._load(number)
        if own:
            held_out = own[0]
        elif self.validation > 0:
            rng = seeded_rng(self.seed, "validation", number)
            train, held_out = split(train, self.validation, rng, name)
        if self._augment is not None:
            train = self._augment(number, train)
        return Task(name, train, held_out, test)


def split(rows: Rows, fraction: float, rng: np.random.Generator, name: str) -> tuple[Rows, Rows]:
    """Return (rest, random `fraction`) of the rows of task `name`, both in their original order."""
    n = len(rows)
    if n < 2:
        raise UsageError(f"task {name!r} has {n} training rows: validation needs at least 2")
    n_cut = min(max(1, round(fraction * n)), n - 1)
    order = rng.permutation(n)
    return rows.take(np.sort(order[n_cut:])), rows.take(np.sort(order[:n_cut]))


def seeded_rng(seed: int, use: str, *numbers: int) -> np.random.Generator:
    """Return a generator for one use of a seed; different uses get independent numbers."""
    check_seed(seed)
    return np.random.default_rng(np.random.SeedSequence([seed, zlib.crc32(use.encode()), *numbers]))


def scale_to_unit(pixels: Pixels) -> NDArray[np.float32]:
    """Scale gray values from 0..255 to float32 in [0, 1]."""
    return np.divide(pixels, np.float32(255), dtype=np.float32)


def label_rows(x: NDArray[Any], label: int) -> Rows:
    """Return rows that all have the same label, scaled as by `scale`."""
    return scale(Rows(x, np.full(len(x), label)))


def select_labels(rows: Rows, labels: Sequence[int]) -> Rows:
    """Return the rows with these labels, scaled as by `scale`."""
    return scale(rows.take(np.isin(rows.y, labels)))


def concat_rows(parts: Sequence[Rows]) -> Rows:
    """Return the rows of all parts, one part after the other."""
    return Rows(np.concatenate([p.x for p in parts]), np.concatenate([p.y for p in parts]))


def scale(rows: Rows) -> Rows:
    """Return rows of float32 with int64 labels; bytes are scaled to [0, 1]."""
    x = scale_to_unit(rows.x) if rows.x.dtype == np.uint8 else rows.x.astype(np.float32)
    return Rows(x, rows.y.astype(np.int64))


def check_seed(seed: int) -> None:
    """Refuse a seed that is not a whole number of 0 or more."""
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0:
        raise UsageError(f"seed is {seed!r}: give a whole number of 0 or more")


def check_fraction(name: str, value: float) -> None:
    """Refuse a fraction outside [0, 1)."""
    if not isinstance(value, (int, float, np.floating)) or not 0 <= value < 1:
        raise UsageError(f"{name} is {value!r}: give a fraction of at least 0 and less than 1")
