"""The short-term memory of section 3.2: small generative memories, one task each."""

from __future__ import annotations

import copy
from typing import NamedTuple

from dgdmn.core.batch import Batch
from dgdmn.core.events import Context
from dgdmn.core.rng import SeedStream
from dgdmn.memory.protocols import GenerativeMemory, MemoryFactory
from dgdmn.memory.task_log import TaskInfo
from dgdmn.storage import State


class TaskMemory(NamedTuple):
    """An STTM: a generative memory for one task."""

    task: str
    memory: GenerativeMemory


class ShortTermMemory:
    """Up to n_STM task memories, made one after the other and freed together by sleep."""

    def __init__(self, make_memory: MemoryFactory, n_stm: int) -> None:
        self._make_memory, self._n_stm = make_memory, n_stm
        self.awake: tuple[TaskMemory, ...] = ()
        self.largest_buffer = 0
        """Bytes of the largest buffer that a task memory ever had."""

    @property
    def full(self) -> bool:
        """Whether every task memory holds a task."""
        return len(self.awake) >= self._n_stm

    def holding(self, task: str) -> GenerativeMemory | None:
        """The task memory that holds this task, if any."""
        return next((held.memory for held in self.awake if held.task == task), None)

    def learn(
        self, task: str, new: Batch, recalled: Batch | None, n_classes: int, ctx: Context
    ) -> None:
        """Learn a task in the task memory that holds it, else in a fresh one.

        `recalled` are the same inputs as the long-term memory recalls them, if it knows the task.
        """
        held = self.holding(task)
        memory = copy.copy(held) if held else self._make_memory("stm", n_classes, ctx.rng)
        memory.learn(new, {task: TaskInfo(1, new.classes())}, ctx, recalled)
        if held:
            self.awake = tuple(
                one._replace(memory=memory) if one.task == task else one for one in self.awake
            )
        else:
            self.awake = (*self.awake, TaskMemory(task, memory))
        self.largest_buffer = max(self.largest_buffer, memory.buffer_bytes())

    def tasks(self) -> dict[str, TaskInfo]:
        """The tasks held, and how often each was met since the last sleep."""
        return {held.task: held.memory.tasks[held.task] for held in self.awake}

    def clear(self) -> None:
        """Free every task memory."""
        self.awake = ()

    def grow(self, n_classes: int) -> None:
        """From now on there are this many classes."""
        grown = []
        for held in self.awake:
            memory = copy.copy(held.memory)
            memory.grow(n_classes)
            grown.append(held._replace(memory=memory))
        self.awake = tuple(grown)

    def state(self) -> list[State]:
        """All that the task memories have learned."""
        return [{"task": held.task, **held.memory.state()} for held in self.awake]

    def load_state(self, state: list[State], n_classes: int) -> None:
        """Load what `state` returned."""
        awake = []
        for held in state:
            memory = self._make_memory("stm", n_classes, SeedStream(0))
            memory.load_state({key: value for key, value in held.items() if key != "task"})
            awake.append(TaskMemory(held["task"], memory))
        self.awake = tuple(awake)
