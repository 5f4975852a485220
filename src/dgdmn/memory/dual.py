"""The dual memory of section 3.2: learn in the short term, sleep, remember in the long term."""

import copy
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

import numpy as np

from dgdmn.config import Config
from dgdmn.core.batch import Batch
from dgdmn.core.events import Context, SleepEnded, SleepStarted
from dgdmn.core.rng import SeedStream
from dgdmn.memory.protocols import Array, GenerativeMemory, JointlyScored, MemoryFactory
from dgdmn.memory.recognition import (
    Recognized,
    find_memory,
    predict_by,
    recognize,
    recognize_jointly,
)
from dgdmn.memory.short_term import ShortTermMemory, TaskMemory
from dgdmn.memory.task_log import TaskInfo, new_task_name
from dgdmn.storage import State, get_int, get_typed


class DualMemory:
    """A short-term memory, like the hippocampus, and a long-term memory, like the neocortex.

    It knows its memories only by the `GenerativeMemory` protocol. `long_term_only` leaves out the short-term
    memory: the long-term memory learns each task as it comes.
    """

    def __init__(
        self,
        make_memory: MemoryFactory,
        config: Config,
        n_classes: int,
        rng: SeedStream,
        *,
        long_term_only: bool = False,
    ) -> None:
        self.config, self.n_classes, self._make_memory = config, n_classes, make_memory
        self.long_term_only = long_term_only
        self.stm = ShortTermMemory(make_memory)
        self.ltm = make_memory("ltm", n_classes, rng)

    def __copy__(self) -> Self:
        """A snapshot: learning in one does not change the other."""
        twin = object.__new__(type(self))
        vars(twin).update(vars(self), stm=copy.copy(self.stm))
        return twin

    def learn(self, task: str | None, new: Batch, ctx: Context) -> None:
        """Learn a task in the short-term memory; sleep if that fills it.

        Without a name, the task is the one that the samples are recognized as, else a new one.
        """
        if self.long_term_only:
            self._learn_in_long_term(task, new, ctx)
            return
        if isinstance(self.ltm, JointlyScored):
            self._learn_jointly(task, new, ctx)
            return
        if task is None:
            known = self.ltm.tasks.keys() | self.stm.tasks().keys()
            task = self.task_of(new) or new_task_name(known)
        recalled = self.ltm.recall(new.x) if task in self.ltm.tasks else None
        self.stm.learn(task, new, recalled, self.n_classes, ctx)
        if len(self.stm.awake) >= self.config.n_stm:
            self.sleep(ctx)

    def _learn_in_long_term(self, task: str | None, new: Batch, ctx: Context) -> None:
        ltm = copy.copy(self.ltm)
        if task is not None:
            parts = [(task, new)]
        elif isinstance(ltm, JointlyScored):
            parts = self._split_by_newest_task(new)
        else:
            parts = [(new_task_name(ltm.tasks.keys()), new)]
        for name, part in parts:
            ltm.learn(part, {name: TaskInfo(1, part.classes())}, ctx)
        if isinstance(ltm, JointlyScored):
            ltm.consolidate([], ctx)
        self.ltm = ltm

    def _learn_jointly(self, task: str | None, new: Batch, ctx: Context) -> None:
        """Learn with memories that share a pool. Without a name, a sample joins its class's newest component."""
        parts = [(task, new)] if task is not None else self._split_by_newest_task(new)
        fits = True
        for name, part in parts:
            old = self.stm.find(name)
            in_long_term = task is None and old is None and name in self.ltm.tasks
            if in_long_term:
                old = self.ltm
            memory = copy.copy(old) if old else self._make_memory("stm", self.n_classes, ctx.rng)
            others = [other for other in self.memories() if other is not old]
            assert isinstance(self.ltm, JointlyScored)
            assert isinstance(memory, JointlyScored)
            memory.pool = self.ltm.pool
            memory.learn(part, {name: TaskInfo(1, part.classes())}, ctx, others=others)
            if in_long_term:
                self.ltm = memory
            else:
                self.stm.store(name, memory)
            fits = self._share_pool(memory.pool)
        if len(self.stm.awake) >= self.config.n_stm or not fits:  # a sleep merges means, too
            self.sleep(ctx)

    def _split_by_newest_task(self, new: Batch) -> list[tuple[str, Batch]]:
        fresh = new_task_name(self.ltm.tasks.keys() | self.stm.tasks().keys())
        newest_first = [*reversed(self.stm.memories()), self.ltm]
        return split_by_newest_task(new, newest_first, fresh)

    def _share_pool(self, pool: Any) -> bool:
        """Give all memories the pool, and shrink them to the budget; returns whether they fit."""
        ltm, *awake = self.copy_memories()
        _set_pool([ltm, *awake], pool)
        assert isinstance(ltm, JointlyScored)
        return ltm.fit_budget(awake)

    def sleep(self, ctx: Context) -> None:
        """Consolidate the awake tasks into the long-term memory and free their task memories."""
        tasks = tuple(awake.task for awake in self.stm.awake)
        if not tasks:
            return
        ctx.callback(SleepStarted(tasks))
        ltm = copy.copy(self.ltm)
        ltm.consolidate(self.stm.memories(), ctx)
        self.ltm, self.stm.awake = ltm, ()
        ctx.callback(SleepEnded(tasks))

    def predict_proba(self, x: Array, task: str | None) -> Array:
        """Predict with the task memory that holds the task, else with the long-term memory.

        Without a task name, mixture memories predict jointly; other memories are chosen by recognition.
        """
        if task is not None:
            return (self.stm.find(task) or self.ltm).predict_proba(x)
        if isinstance(self.ltm, JointlyScored):
            return self.ltm.joint_proba(x, self.stm.memories())
        memories = self.memories()
        if len(memories) == 1:
            return memories[0].predict_proba(x)
        return predict_by(x, memories, recognize(x, memories, self.config).chosen)

    def column_moments(self, d: int) -> tuple[Array, Array, float]:
        """Mean and covariance of the first d features of all samples learned, and their number."""
        assert isinstance(self.ltm, JointlyScored)
        return self.ltm.column_moments(d, self.stm.memories())

    def recognize(self, x: Array) -> Recognized:
        """Which of `memories` answers for each sample (appendix A)."""
        if isinstance(self.ltm, JointlyScored):
            return recognize_jointly(x, self.memories())
        return recognize(x, self.memories(), self.config)

    def task_of(self, new: Batch) -> str | None:
        """The task these labeled samples belong to (appendix A); None if no memory knows them."""
        memory = find_memory(new, self.memories(), self.config.gamma)
        return memory.tasks.with_classes(new.classes()) if memory else None

    def memories(self) -> list[GenerativeMemory]:
        """Memories with at least one task, the long-term memory last; only that one if none has any."""
        awake = self.stm.memories()
        return [*awake, self.ltm] if self.ltm.tasks or not awake else awake

    def copy_memories(self) -> list[GenerativeMemory]:
        """Replace all memories by copies and return these, the long-term memory first."""
        self.ltm = copy.copy(self.ltm)
        return [self.ltm, *self.stm.copy_memories()]

    def rename_tasks(self, names: Mapping[str, str]) -> None:
        for memory in self.copy_memories():
            rename_in(memory, names)
        self.stm.awake = tuple(
            TaskMemory(names.get(task, task), memory) for task, memory in self.stm.awake
        )

    def refresh(self, n_classes: int, ctx: Context) -> None:
        """After components were removed or added: drop empty task memories, share the pool, freeze again."""
        self.stm.awake = tuple(awake for awake in self.stm.awake if awake.memory.tasks)
        self.ltm.consolidate([], ctx)
        assert isinstance(self.ltm, JointlyScored)
        _set_pool(self.stm.memories(), self.ltm.pool)
        self.grow(n_classes)

    def nbytes(self) -> int:
        """Bytes just before a sleep: the long-term memory and n_STM task memories at capacity.

        Every task memory counts with the largest buffer that one ever had.
        """
        awake = self.stm.memories()
        missing = max(0, self.config.n_stm - len(awake))
        at_capacity = sum(memory.nbytes(at_capacity=True) for memory in (self.ltm, *awake))
        if missing:
            fresh = self._make_memory("stm", self.n_classes, SeedStream(0))
            at_capacity += missing * fresh.nbytes(at_capacity=True)
        return at_capacity + (len(awake) + missing) * self.stm.largest_buffer

    def grow(self, n_classes: int) -> None:
        self.n_classes = n_classes
        self.stm.grow(n_classes)
        self.ltm = copy.copy(self.ltm)
        self.ltm.grow(n_classes)

    def state(self) -> State:
        if self.long_term_only:
            return {"ltm": self.ltm.state()}
        buffer = {"largest_buffer": self.stm.largest_buffer} if self.stm.largest_buffer else {}
        return {"stm": self.stm.state(), "ltm": self.ltm.state(), **buffer}

    def load_state(self, state: State) -> None:
        self.ltm.load_state(state["ltm"])
        if self.long_term_only:
            return
        if len(get_typed(state, "stm", list)) > self.config.n_stm:
            raise ValueError(f"{len(state['stm'])} task memories; n_stm is {self.config.n_stm}")
        self.stm.load_state(state["stm"], self.n_classes)
        if isinstance(self.ltm, JointlyScored):
            _set_pool(self.stm.memories(), self.ltm.pool)
        self.stm.largest_buffer = get_int({"largest_buffer": 0, **state}, "largest_buffer")


def _set_pool(memories: Iterable[GenerativeMemory], pool: Any) -> None:
    for memory in memories:
        assert isinstance(memory, JointlyScored)
        memory.pool = pool


def rename_in(memory: GenerativeMemory, names: Mapping[str, str]) -> None:
    """Give tasks new names in a memory, {old: new}."""
    memory.tasks = memory.tasks.rename(names)
    if isinstance(memory, JointlyScored):
        memory.rename_components(names)


def split_by_newest_task(
    new: Batch, memories: Sequence[GenerativeMemory], fresh: str
) -> list[tuple[str, Batch]]:
    """Samples by the task of their class's newest component; new classes together are the task `fresh`."""
    names = dict.fromkeys(new.classes(), fresh)
    for memory in reversed(memories):  # the first memory is the newest
        assert isinstance(memory, JointlyScored)
        names |= {label: task for label in names if (task := memory.newest_task(label))}
    by_row = np.array([names[label] for label in new.y.tolist()])
    return [(name, new[by_row == name]) for name in dict.fromkeys(names.values())]
