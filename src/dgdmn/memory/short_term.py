"""The short-term memory of section 3.2: small generative memories, one task each."""

from __future__ import annotations

from dataclasses import dataclass

from dgdmn.events import Listener, heard_in
from dgdmn.memory.dictionary import Entry
from dgdmn.memory.generative import GenerativeMemory
from dgdmn.networks.blueprint import Blueprint
from dgdmn.samples import Samples, concat
from dgdmn.seeds import Seeds
from dgdmn.storage import State


@dataclass
class TaskMemory:
    """An STTM: a generative memory for one task."""

    task: str
    """The task it holds."""
    memory: GenerativeMemory
    seen: int = 0
    """Samples of the task seen; the sleep dreams as many."""


class ShortTermMemory:
    """n_STM task memories, allocated one after the other and freed together by sleep."""

    def __init__(self, blueprint: Blueprint) -> None:
        self._blueprint = blueprint
        self.awake: list[TaskMemory] = []

    @property
    def full(self) -> bool:
        """Whether every task memory holds a task."""
        return len(self.awake) >= self._blueprint.preset.n_stm

    def holding(self, task: str) -> TaskMemory | None:
        """The task memory that holds this task, if any."""
        return next((held for held in self.awake if held.task == task), None)

    def learn(
        self,
        task: str,
        new: Samples,
        recalled: Samples | None,
        n_classes: int,
        seeds: Seeds,
        listen: Listener,
    ) -> None:
        """Learn a task: in the STTM that holds it, else in a fresh one.

        `recalled` are the long-term memory's own samples of the task, if it knows it; they help the
        training but do not count as seen.
        """
        held = self.holding(task)
        if held is None:
            held = TaskMemory(task, GenerativeMemory(self._blueprint, "stm", n_classes, seeds))
            self.awake.append(held)
        met = {task: Entry(1, new.classes())}
        samples = new if recalled is None else concat(new, recalled)
        held.memory.learn(samples, met, seeds, heard_in("stm", listen))
        held.seen += len(new)

    def tasks(self) -> dict[str, Entry]:
        """The tasks held, and how often each was met since the last sleep."""
        return {held.task: held.memory.tasks[held.task] for held in self.awake}

    def dream(self, seeds: Seeds) -> Samples:
        """As many samples of each task as it had."""
        return concat(*[held.memory.dream(held.seen, seeds) for held in self.awake])

    def forget(self) -> None:
        """Free every task memory."""
        self.awake = []

    def state(self) -> list[State]:
        """All that the task memories awake have learnt."""
        return [{"task": held.task, "seen": held.seen, **held.memory.state()} for held in self.awake]

    def restore(self, state: list[State]) -> None:
        """Take back what `state` gave."""
        self.awake = []
        for held in state:
            memory = GenerativeMemory(self._blueprint, "stm", held["outputs"], Seeds(0))
            memory.restore(held)
            self.awake.append(TaskMemory(held["task"], memory, held["seen"]))

    def grow(self, n_classes: int) -> None:
        """Tell the task memories that are awake of new classes."""
        for held in self.awake:
            held.memory.n_classes = n_classes
