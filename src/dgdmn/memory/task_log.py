"""D_dgm: the tasks that a memory has learned, how often, and their classes."""

from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import Any, Self

from dgdmn.core.errors import UsageError
from dgdmn.storage import check_class_indices, get_int, get_typed
from dgdmn.storage.checks import MAX_COUNT, MAX_TASKS


@dataclass(frozen=True)
class TaskInfo:
    """What a memory records of one task; never a sample."""

    times: int
    """How often the task was learned (section 3.1)."""
    classes: frozenset[int]
    """Class indices of its samples."""


class TaskLog(dict[str, TaskInfo]):
    """Tasks in the order in which they were last learned. Never changed: `add` returns a new log."""

    def add(self, learned: Mapping[str, TaskInfo]) -> Self:
        """The log with more tasks: counts are added, classes are united (Algorithm 1, line 20)."""
        tasks = type(self)(self)
        for task, new in learned.items():
            old = tasks.pop(task, TaskInfo(0, frozenset()))  # the task learned last comes last
            tasks[task] = TaskInfo(old.times + new.times, old.classes | new.classes)
        if len(tasks) > MAX_TASKS:
            raise UsageError(f"a memory records at most {MAX_TASKS:,} tasks; reuse a task's name")
        return tasks

    def rename(self, names: Mapping[str, str]) -> Self:
        """The log with other names of some tasks."""
        return type(self)({names.get(task, task): info for task, info in self.items()})

    def relabel(
        self, places: Mapping[int, int], without: Set[tuple[str, int]] = frozenset()
    ) -> Self:
        """The log with class i as places[i], without classes that have no place and pairs (task, class) in `without`.

        A task that has no class left is dropped.
        """
        classes = {
            task: frozenset(
                places[label]
                for label in info.classes
                if label in places and (task, label) not in without
            )
            for task, info in self.items()
        }
        return type(self)(
            {task: TaskInfo(self[task].times, kept) for task, kept in classes.items() if kept}
        )

    def with_classes(self, classes: frozenset[int]) -> str | None:
        """The task learned last among those that had all these classes."""
        return next((task for task in reversed(self) if classes <= self[task].classes), None)

    def state(self) -> list[dict[str, Any]]:
        return [
            {"task": task, "times": info.times, "classes": sorted(info.classes)}
            for task, info in self.items()
        ]

    @classmethod
    def from_state(cls, state: list[dict[str, Any]], n_classes: int = MAX_COUNT) -> Self:
        """The log that `state` described, of tasks with some of these classes."""
        tasks = cls()
        for saved in state:
            classes = check_class_indices(get_typed(saved, "classes", list), n_classes)
            tasks[get_typed(saved, "task", str)] = TaskInfo(
                get_int(saved, "times", 1), frozenset(classes)
            )
        if len(tasks) < len(state):
            raise ValueError("two tasks have the same name")
        return tasks


def new_task_name(taken: Set[str]) -> str:
    """A name for a task that came without one.

    >>> new_task_name({"task 1", "birds"})
    'task 2'
    """
    return next(name for n in range(1, len(taken) + 2) if (name := f"task {n}") not in taken)
