"""The protocol of section 2: learn task i, test on tasks 1 to T, and so fill row A[i, :]."""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dgdmn.algorithms.dgdmn import DualClassifier
from dgdmn.algorithms.estimator import ContinualClassifier
from dgdmn.algorithms.generative import GenerativeClassifier
from dgdmn.memory.gaussian import column_means
from dgdmn.runs.spec import RunSpec
from dgdmn.streams import Rows, Task, TaskStream
from dgdmn.streams.base import concat_rows, scale_to_unit

CACHE_BYTES = 256_000_000
"""Limit of cached training rows and translated test rows, in bytes; the rest is loaded or translated again."""
FILLED = "missing values become the means of their columns in the first task's training rows"


@dataclass(frozen=True)
class TaskBegan:
    """A task is about to be learned."""

    step: int  # counts the tasks from 1
    task: str
    samples: int


@dataclass(frozen=True)
class TaskLearned:
    """The task is learned, and the sleep is over if it filled the short-term memory."""

    step: int
    task: str


@dataclass(frozen=True)
class Evaluated:
    """The model was tested on every task, including those to come."""

    step: int
    task: str
    accuracy: tuple[float, ...]  # A[i, :]; the short-term memory answers for the tasks it holds
    accuracy_ltm: tuple[float, ...] | None
    """The long-term memory alone, NaN before the first sleep; None if there is none."""


@dataclass(frozen=True)
class Recognized:
    """How well each memory recognizes each task when no task name is given (appendix A)."""

    step: int
    memories: tuple[str, ...]
    losses: dict[str, tuple[float, ...]]
    """Mean recognition loss of each task's test rows in each memory."""
    answered_by: dict[str, str]  # the memory that answered for most rows of the task
    known: dict[str, float]  # share of its rows that any memory knows


@dataclass(frozen=True)
class StepEnded:
    """Everything that follows a task is done."""

    step: int


ProtocolEvent = TaskBegan | TaskLearned | Evaluated | Recognized | StepEnded


class RunTasks:
    """The tasks of a run. Each is loaded once: test rows are kept, training rows wait in a cache."""

    def __init__(self, stream: TaskStream, spec: RunSpec, *, fill: bool = False) -> None:
        """`fill` replaces missing values: not every method handles them."""
        self.stream, self._spec, self.common_test = stream, spec, stream.common_test
        self._fill, self.note = fill, FILLED if fill else ""
        self._numbers = [*range(len(stream)), *(number - 1 for number in spec.revise)]
        names = tuple(stream.task_names[number] for number in self._numbers)
        self.order = names[-1:] if spec.together else names
        """The task learned at each step; the last one's name if all are learned as one."""
        self.tests: dict[str, Rows] = {}  # the rows to test on, by task
        self.right: dict[str, NDArray[np.bool_]] = {}  # which of them were right in the last test
        self._labels: dict[int, NDArray[Any]] = {}
        self._cache: dict[int, tuple[Rows, bool]] = {}  # rows, and whether gray values are bytes

    def read(self, number: int) -> None:
        """Load a task of the stream, unless it was loaded before."""
        if number in self._labels:
            return
        task = self._load(number)
        tests = task.test if task.validation is None else task.validation
        if self.common_test:  # the same object for all, also where `samples_per_task` draws rows
            tests = next(iter(self.tests.values()), tests)
        self.tests[task.name] = tests
        self._labels[number] = task.train.y
        packed = _pack(task.train)
        if sum(rows.x.nbytes for rows, _ in (packed, *self._cache.values())) <= CACHE_BYTES:
            self._cache[number] = packed

    def labels(self) -> list[tuple[str, NDArray[Any]]]:
        """The name and the training labels of each step, when all tasks are loaded."""
        labels = [self._labels[number] for number in self._numbers]
        parts = [np.concatenate(labels)] if self._spec.together else labels
        return list(zip(self.order, parts, strict=True))

    def train_rows(self, step: int) -> Rows:
        """The rows learned at a step, counted from 1."""
        if not self._spec.together:
            return self._take(step - 1)
        return concat_rows([self._take(position) for position in range(len(self._numbers))])

    def _take(self, position: int) -> Rows:
        number = self._numbers[position]
        again = number in self._numbers[position + 1 :]
        held = self._cache.get(number) if again else self._cache.pop(number, None)
        rows, is_packed = held or (self._load(number).train, False)
        return Rows(scale_to_unit(rows.x), rows.y) if is_packed else rows

    def _load(self, number: int) -> Task:
        """Load a task; fill missing values if the method cannot."""
        task = self._draw(number)
        if not self._fill:
            return task
        validation = None if task.validation is None else self.fill(task.validation)
        return Task(task.name, self.fill(task.train), validation, self.fill(task.test))

    def fill(self, rows: Rows) -> Rows:
        """The rows with missing values replaced by the means of their columns in the first task; 0 if it has none."""
        missing = np.isnan(rows.x) if rows.x.dtype.kind == "f" else np.zeros(0, bool)
        if not missing.any():
            return rows
        return Rows(np.where(missing, self._means.astype(rows.x.dtype), rows.x), rows.y)

    @cached_property
    def _means(self) -> NDArray[np.float64]:
        return column_means(self._draw(0).train.x)

    def _draw(self, number: int) -> Task:
        """A task of the stream, with at most `samples_per_task` rows in each part."""
        task, limit = self.stream[number], self._spec.options.samples_per_task
        if not limit:
            return task
        rng = np.random.default_rng([self._spec.seed, number])

        def draw(rows: Rows) -> Rows:
            return rows.take(rng.permutation(len(rows))[:limit])

        validation = None if task.validation is None else draw(task.validation)
        return Task(task.name, draw(task.train), validation, draw(task.test))


def _pack(rows: Rows) -> tuple[Rows, bool]:
    """The rows with gray values as bytes, a quarter of the size, if that keeps every bit."""
    x = rows.x
    if x.dtype == np.float32 and x.size and x.min() >= 0 and x.max() <= 1:
        gray = np.round(x * 255).astype(np.uint8)
        if np.array_equal(scale_to_unit(gray), x):
            return Rows(gray, rows.y), True
    return rows, False


def learn_stream(
    model: ContinualClassifier, tasks: RunTasks, classes: Sequence[Any], start: int = 0
) -> Iterator[ProtocolEvent]:
    """Learn the tasks one at a time and test on all of them after each; `start` were learned before.

    A stream that ends with tasks awake in the short-term memory sleeps at its end and is tested again.
    """
    tests = PreparedTests(model, tasks)
    for step, name in enumerate(tasks.order[start:], start=start + 1):
        rows = tasks.train_rows(step)
        yield TaskBegan(step, name, len(rows))
        model.partial_fit(rows.x, rows.y, classes=classes, task=name)
        del rows  # frees them before the test
        yield TaskLearned(step, name)
        yield evaluate(model, step, name, tests)
        if isinstance(model, DualClassifier) and not model.uses_task_names:
            yield _recognize(model, step, tasks.tests)
        yield StepEnded(step)
    if isinstance(model, GenerativeClassifier) and model.awake_tasks():
        model.sleep()
        yield evaluate(model, len(tasks.order), tasks.order[-1], tests)
    if not tasks.right:  # a resumed run that had tested its last task still needs predictions
        evaluate(model, len(tasks.order), tasks.order[-1], tests)


def evaluate(model: ContinualClassifier, step: int, task: str, tests: "PreparedTests") -> Evaluated:
    """Row i of the accuracy matrix, with and without the short-term memory.

    A common test set belongs to no task: there is one accuracy, repeated in each column.
    """
    has_ltm = isinstance(model, GenerativeClassifier)
    names = list(tests.rows)[:1] if tests.common else list(tests.rows)
    ltm, to_predict = dict.fromkeys(names, math.nan), names
    if isinstance(model, GenerativeClassifier) and model.consolidated_tasks():
        ltm = {name: tests.score(name, model.predict_long_term) for name in names}
        awake = model.awake_tasks()
        # With task names, the long-term memory predicts for every task that is not awake.
        if not tests.common and (model.uses_task_names or not awake):
            to_predict = [name for name in names if name in awake]
    accuracies = dict(ltm)
    for name in to_predict:
        predict = model.predict if tests.common else partial(model.predict, task=name)
        accuracies[name] = tests.score(name, predict)
    repeats = len(tests.rows) if tests.common else 1
    row, ltm_row = (tuple(one.values()) * repeats for one in (accuracies, ltm))
    return Evaluated(step, task, row, ltm_row if has_ltm else None)


class PreparedTests:
    """Test rows by task, translated for a model once: its front end does not change after the first call.

    Rows that lack values are translated each time, because a model fills them with what it knows by then.
    """

    def __init__(self, model: ContinualClassifier, tasks: RunTasks) -> None:
        self.model, self.rows, self.right = model, tasks.tests, tasks.right
        self.common = tasks.common_test
        self._prepared: dict[str, Any] = {}
        self._bytes = 0

    def score(self, name: str, predict: Callable[[Any], NDArray[Any]]) -> float:
        """The share of right answers on the rows of a task."""
        X = self._prepared.get(name)
        if X is None:
            X = self.model.prepare(self.rows[name].x)
            if not np.isnan(self.rows[name].x).any():
                self._bytes += X.inputs.nbytes
                if self._bytes <= CACHE_BYTES:
                    self._prepared[name] = X
        self.right[name] = predict(X) == self.rows[name].y
        return float(np.mean(self.right[name]))


def _recognize(model: DualClassifier, step: int, tests: Mapping[str, Rows]) -> Recognized:
    event = Recognized(step, (), {}, {}, {})
    for name, rows in tests.items():
        found = model.recognize(rows.x)
        event.losses[name] = tuple(found.losses.mean(axis=0).tolist())
        event.answered_by[name] = Counter(found.answered_by.tolist()).most_common(1)[0][0]
        event.known[name] = float(found.known.mean())
    return replace(event, memories=found.memories)
