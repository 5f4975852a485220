"""D_dgm: which tasks a memory has learnt, how often it met each, and which classes they had."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass

from dgdmn.storage import State


@dataclass(frozen=True)
class Entry:
    """What a memory notes of one task; never a sample."""

    times: int
    """How often the task was met (section 3.1)."""
    classes: frozenset[int]
    """Class indices its samples had: a task with a class nobody has met is surely new."""


class TaskDictionary(dict[str, Entry]):
    """Task descriptors and what is noted of each."""

    def add(self, tasks: Mapping[str, Entry]) -> None:
        """Note more encounters: counts add up, classes unite (Algorithm 1, line 20)."""
        for task, new in tasks.items():
            old = self.pop(task, Entry(0, frozenset()))  # the task met last comes last
            self[task] = Entry(old.times + new.times, old.classes | new.classes)

    def with_classes(self, classes: frozenset[int]) -> str | None:
        """The task met last of those that had all these classes."""
        return next((task for task in reversed(self) if classes <= self[task].classes), None)

    def state(self) -> list[State]:
        """The entries as plain values, in their order."""
        return [
            {"task": task, "times": entry.times, "classes": sorted(entry.classes)}
            for task, entry in self.items()
        ]

    @classmethod
    def restored(cls, state: list[State]) -> TaskDictionary:
        """What `state` gave."""
        return cls({entry["task"]: Entry(entry["times"], frozenset(entry["classes"])) for entry in state})


def unused_name(taken: Set[str]) -> str:
    """A descriptor for a task that came without one.

    >>> unused_name({"task 1", "birds"})
    'task 2'
    """
    return next(name for n in range(1, len(taken) + 2) if (name := f"task {n}") not in taken)
