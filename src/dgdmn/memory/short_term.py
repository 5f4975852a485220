"""The short-term memory of section 3.2: small generative memories, one task each."""

import copy
from typing import NamedTuple

from dgdmn.core.batch import Batch
from dgdmn.core.events import Context
from dgdmn.core.rng import SeedStream
from dgdmn.core.text import shorten
from dgdmn.memory.protocols import GenerativeMemory, MemoryFactory
from dgdmn.memory.task_log import TaskInfo
from dgdmn.storage import State, typed


class TaskMemory(NamedTuple):
    """An STTM: a generative memory for one task."""

    task: str
    memory: GenerativeMemory


class ShortTermMemory:
    """Up to n_STM task memories, made one after the other and freed together by sleep."""

    def __init__(self, make_memory: MemoryFactory) -> None:
        self._make_memory = make_memory
        self.awake: tuple[TaskMemory, ...] = ()
        self.largest_buffer = 0
        """Bytes of the largest buffer that a task memory ever had."""

    def holding(self, task: str) -> GenerativeMemory | None:
        return next((held.memory for held in self.awake if held.task == task), None)

    def learn(
        self, task: str, new: Batch, recalled: Batch | None, n_classes: int, ctx: Context
    ) -> None:
        """Learn a task in the task memory that holds it, else in a fresh one (`GenerativeMemory.learn`)."""
        memory = self.memory_for(task, n_classes, ctx.rng)
        memory.learn(new, {task: TaskInfo(1, new.classes())}, ctx, recalled)
        self.hold(task, memory)

    def memory_for(self, task: str, n_classes: int, rng: SeedStream) -> GenerativeMemory:
        """A copy of the task memory that holds a task, else a fresh one."""
        known = self.holding(task)
        return copy.copy(known) if known else self._make_memory("stm", n_classes, rng)

    def hold(self, task: str, memory: GenerativeMemory) -> None:
        """Keep this task memory, in place of an older one of the task."""
        held = {**{one.task: one.memory for one in self.awake}, task: memory}
        self.awake = tuple(TaskMemory(*one) for one in held.items())
        self.largest_buffer = max(self.largest_buffer, memory.buffer_bytes())

    def tasks(self) -> dict[str, TaskInfo]:
        """The tasks held, and how often each was met since the last sleep."""
        return {held.task: held.memory.tasks[held.task] for held in self.awake}

    def grow(self, n_classes: int) -> None:
        self.awake = tuple(TaskMemory(task, copy.copy(memory)) for task, memory in self.awake)
        for held in self.awake:
            held.memory.grow(n_classes)

    def state(self) -> list[State]:
        return [{"task": held.task, **held.memory.state()} for held in self.awake]

    def load_state(self, state: list[State], n_classes: int) -> None:
        awake: dict[str, GenerativeMemory] = {}
        for held in state:
            memory, task = (
                self._make_memory("stm", n_classes, SeedStream(0)),
                typed(held, "task", str),
            )
            memory.load_state({key: value for key, value in held.items() if key != "task"})
            if task not in memory.tasks or task in awake:
                raise ValueError(
                    f"task {shorten(repr(task))} is in two task memories, or not in its own"
                )
            awake[task] = memory
        self.awake = tuple(TaskMemory(*one) for one in awake.items())
