"""The short-term memory of section 3.2: small generative memories, one task each."""

import copy
from typing import NamedTuple

from dgdmn.core.batch import Batch
from dgdmn.core.events import Context
from dgdmn.core.rng import SeedStream
from dgdmn.core.text import shorten
from dgdmn.memory.protocols import GenerativeMemory, MemoryFactory
from dgdmn.memory.task_log import TaskInfo
from dgdmn.storage import State, get_typed


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

    def find(self, task: str) -> GenerativeMemory | None:
        """The task memory of a task."""
        return next((awake.memory for awake in self.awake if awake.task == task), None)

    def memories(self) -> list[GenerativeMemory]:
        return [awake.memory for awake in self.awake]

    def copy_memories(self) -> list[GenerativeMemory]:
        """Replace all task memories by copies and return these."""
        self.awake = tuple(TaskMemory(task, copy.copy(memory)) for task, memory in self.awake)
        return self.memories()

    def learn(
        self, task: str, new: Batch, recalled: Batch | None, n_classes: int, ctx: Context
    ) -> None:
        """Learn a task in the task memory that holds it, else in a fresh one (`GenerativeMemory.learn`)."""
        old = self.find(task)
        memory = copy.copy(old) if old else self._make_memory("stm", n_classes, ctx.rng)
        memory.learn(new, {task: TaskInfo(1, new.classes())}, ctx, recalled)
        self.store(task, memory)

    def store(self, task: str, memory: GenerativeMemory) -> None:
        """Keep this task memory, in place of an older one of the task."""
        by_task = {**dict(self.awake), task: memory}
        self.awake = tuple(TaskMemory(*item) for item in by_task.items())
        self.largest_buffer = max(self.largest_buffer, memory.buffer_bytes())

    def tasks(self) -> dict[str, TaskInfo]:
        """The tasks in short-term memory, and how often each was learned since the last sleep."""
        return {task: memory.tasks[task] for task, memory in self.awake}

    def grow(self, n_classes: int) -> None:
        for memory in self.copy_memories():
            memory.grow(n_classes)

    def state(self) -> list[State]:
        return [{"task": task, **memory.state()} for task, memory in self.awake]

    def load_state(self, state: list[State], n_classes: int) -> None:
        awake: dict[str, GenerativeMemory] = {}
        for saved in state:
            memory = self._make_memory("stm", n_classes, SeedStream(0))
            task = get_typed(saved, "task", str)
            memory.load_state({key: value for key, value in saved.items() if key != "task"})
            if task not in memory.tasks or task in awake:
                raise ValueError(
                    f"task {shorten(repr(task))} is in two task memories, or not in its own"
                )
            awake[task] = memory
        self.awake = tuple(TaskMemory(*item) for item in awake.items())
