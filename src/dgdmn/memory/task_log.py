"""D_dgm: which tasks a memory has learned, how often it met each, and their classes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class TaskInfo:
    """What a memory records of one task; never a sample."""

    times: int
    """How often the task was met (section 3.1)."""
    classes: frozenset[int]
    """Class indices of its samples."""


class TaskLog(Mapping[str, TaskInfo]):
    """Tasks in the order in which they were last met. Immutable: `add` returns a new log."""

    def __init__(self, tasks: Mapping[str, TaskInfo] | None = None) -> None:
        self._tasks = dict(tasks or {})

    def __getitem__(self, task: str) -> TaskInfo:
        return self._tasks[task]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tasks)

    def __len__(self) -> int:
        return len(self._tasks)

    def add(self, met: Mapping[str, TaskInfo]) -> TaskLog:
        """The log after more encounters: counts add up, classes unite (Algorithm 1, line 20)."""
        tasks = dict(self._tasks)
        for task, new in met.items():
            old = tasks.pop(task, TaskInfo(0, frozenset()))  # the task met last comes last
            tasks[task] = TaskInfo(old.times + new.times, old.classes | new.classes)
        return TaskLog(tasks)

    def with_classes(self, classes: frozenset[int]) -> str | None:
        """The task met last among those that had all these classes."""
        known = (task for task in reversed(self._tasks) if classes <= self._tasks[task].classes)
        return next(known, None)

    def state(self) -> list[dict[str, Any]]:
        """The entries as plain values, in order."""
        return [
            {"task": task, "times": info.times, "classes": sorted(info.classes)}
            for task, info in self._tasks.items()
        ]

    @classmethod
    def from_state(cls, state: list[dict[str, Any]]) -> TaskLog:
        """The log that `state` described."""
        return cls(
            {one["task"]: TaskInfo(one["times"], frozenset(one["classes"])) for one in state}
        )


def new_task_name(taken: Set[str]) -> str:
    """A name for a task that came without one.

    >>> new_task_name({"task 1", "birds"})
    'task 2'
    """
    return next(name for n in range(1, len(taken) + 2) if (name := f"task {n}") not in taken)
