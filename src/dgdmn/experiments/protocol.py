"""The protocol of section 2: learn task i, test on tasks 1 to T, and so fill row A[i, :]."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dgdmn.algorithms.base import ContinualClassifier
from dgdmn.algorithms.dual import DualClassifier
from dgdmn.algorithms.generative import GenerativeClassifier
from dgdmn.streams import Rows, Task


@dataclass(frozen=True)
class TaskBegan:
    """A task is about to be learnt."""

    step: int
    """Counts the tasks from 1."""
    task: str
    samples: int


@dataclass(frozen=True)
class TaskLearned:
    """The memory has learnt the task (and slept, if that filled its short-term memory)."""

    step: int
    task: str


@dataclass(frozen=True)
class Evaluated:
    """The memory has been tested on every task, also those to come."""

    step: int
    task: str
    accuracy: tuple[float, ...]
    """A[i, :], asking the short-term memory where it holds the task."""
    accuracy_ltm: tuple[float, ...] | None
    """The long-term memory alone, NaN before the first sleep; None where there is none."""


@dataclass(frozen=True)
class Recognised:
    """How well each memory recognises each task, where no descriptor says which one to ask (appendix A)."""

    step: int
    memories: tuple[str, ...]
    losses: dict[str, tuple[float, ...]]
    """Mean recognition loss of each task's test samples in each memory."""
    answered_by: dict[str, str]
    """The memory that answered for the task, or for most of its samples."""
    known: dict[str, float]
    """Share of its samples that were known to any memory."""


@dataclass(frozen=True)
class StepEnded:
    """All that follows a task is done."""

    step: int


ProtocolEvent = TaskBegan | TaskLearned | Evaluated | Recognised | StepEnded


def learn_stream(
    model: ContinualClassifier,
    tasks: Iterable[Task],
    classes: Sequence[Any],
    tests: dict[str, Rows],
    start: int = 0,
) -> Iterator[ProtocolEvent]:
    """Learn the tasks one at a time; after each, test on all of `tests`. The first `start` were learnt before.

    A stream that ends with tasks still awake in the short-term memory sleeps at its end and is tested
    again: the last row of A is then the long-term memory's.
    """
    for step, task in enumerate(tasks, start=1):
        if step <= start:
            continue
        yield TaskBegan(step, task.name, len(task.train))
        model.partial_fit(task.train.x, task.train.y, classes=classes, task=task.name)
        yield TaskLearned(step, task.name)
        yield evaluate(model, step, task.name, tests)
        if isinstance(model, DualClassifier) and not model.by_descriptor:
            yield _recognised(model, step, tests)
        yield StepEnded(step)
    if isinstance(model, GenerativeClassifier) and model.awake_tasks():
        model.sleep()
        yield evaluate(model, step, task.name, tests)


def joined(tasks: Iterable[Task]) -> Task:
    """All rows to learn as one task, in the order they come, under the name of the last."""
    parts = list(tasks)
    x, y = (np.concatenate([getattr(task.train, name) for task in parts]) for name in ("x", "y"))
    return replace(parts[-1], train=Rows(x, y))


def evaluate(model: ContinualClassifier, step: int, task: str, tests: dict[str, Rows]) -> Evaluated:
    """Row i of the accuracy matrix, with and without the short-term memory."""
    dual = isinstance(model, GenerativeClassifier)
    if not dual or not model.consolidated_tasks():
        row = tuple(_share_right(model.predict(rows.x, task=name), rows) for name, rows in tests.items())
        return Evaluated(step, task, row, (math.nan,) * len(row) if dual else None)
    alone = {name: _share_right(model.predict_long_term(rows.x), rows) for name, rows in tests.items()}
    awake = model.awake_tasks()
    asked = tests.keys() & awake if model.by_descriptor or not awake else tests.keys()
    held = {name: _share_right(model.predict(tests[name].x, task=name), tests[name]) for name in asked}
    # Every other task is the long-term memory's.
    return Evaluated(step, task, tuple({**alone, **held}.values()), tuple(alone.values()))


def _recognised(model: DualClassifier, step: int, tests: dict[str, Rows]) -> Recognised:
    found = {name: model.recognise(rows.x) for name, rows in tests.items()}
    return Recognised(
        step,
        next(iter(found.values())).memories,
        {name: tuple(one.losses.mean(axis=0).tolist()) for name, one in found.items()},
        {name: Counter(one.answered_by.tolist()).most_common(1)[0][0] for name, one in found.items()},
        {name: float(one.known.mean()) for name, one in found.items()},
    )


def _share_right(predicted: NDArray[Any], rows: Rows) -> float:
    return float(np.mean(predicted == rows.y))
