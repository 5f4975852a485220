"""The short-term memory of section 3.2: small generative memories, one task each."""

from __future__ import annotations

from dataclasses import dataclass

from dgdmn.events import Listener, heard_in
from dgdmn.memory.dictionary import Entry
from dgdmn.memory.generative import GenerativeMemory
from dgdmn.memory.index import Index
from dgdmn.networks.blueprint import Blueprint
from dgdmn.networks.generator import Coder
from dgdmn.samples import Samples, concat
from dgdmn.seeds import Seeds
from dgdmn.storage import State, bytes_in


@dataclass
class TaskMemory:
    """An STTM: a generative memory for one task."""

    task: str
    """The task it holds."""
    memory: GenerativeMemory
    seen: int = 0
    """Samples of the task seen; the sleep dreams as many."""
    index: Index | None = None
    """The samples' codes, where the preset wants them kept until the sleep."""

    def learn(self, samples: Samples, n_new: int, seeds: Seeds, listen: Listener) -> None:
        """Learn samples of the task, the first `n_new` of them new; what it has codes of it need not dream."""
        new = Samples(samples.x[:n_new], samples.y[:n_new])
        before = self._decoded() if self.index else None
        entry = {self.task: Entry(1, new.classes())}
        self.memory.learn(samples, entry, seeds, heard_in("stm", listen), past=before)
        if self.index is not None and isinstance(self.memory.generator, Coder):
            self.index.rewrite(self.memory.generator, concat(before, new) if before else new, seeds)
        self.seen += n_new

    def dream(self, seeds: Seeds) -> Samples:
        """As many samples as it had, dreamt or decoded."""
        return self._decoded() if self.index else self.memory.dream(self.seen, seeds)

    def state(self) -> State:
        """All that was learnt of the task."""
        index = {} if self.index is None else {"index": self.index.state()}
        return {"task": self.task, "seen": self.seen, **index, **self.memory.state()}

    def restore(self, state: State) -> None:
        """Take back what `state` gave."""
        self.memory.restore(state)
        self.seen = state["seen"]
        if self.index is not None:
            self.index.restore(state["index"])

    def _decoded(self) -> Samples:
        assert self.index is not None
        assert isinstance(self.memory.generator, Coder)
        return self.index.samples(self.memory.generator)


class ShortTermMemory:
    """n_STM task memories, allocated one after the other and freed together by sleep."""

    def __init__(self, blueprint: Blueprint) -> None:
        self._blueprint = blueprint
        self.awake: list[TaskMemory] = []
        self.largest_index = 0
        """Bytes of the largest index that a task memory ever had."""

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
            held = self._fresh(task, n_classes, seeds)
            self.awake.append(held)
        held.learn(new if recalled is None else concat(new, recalled), len(new), seeds, listen)
        if held.index is not None:
            self.largest_index = max(self.largest_index, bytes_in(held.index.state()))

    def _fresh(self, task: str, n_classes: int, seeds: Seeds) -> TaskMemory:
        memory, preset = GenerativeMemory(self._blueprint, "stm", n_classes, seeds), self._blueprint.preset
        held = TaskMemory(task, memory)
        if preset.index == "codes" and isinstance(memory.generator, Coder):
            held.index = Index(max(1, preset.n_max // preset.n_stm), memory.generator.latent)
        return held

    def tasks(self) -> dict[str, Entry]:
        """The tasks held, and how often each was met since the last sleep."""
        return {held.task: held.memory.tasks[held.task] for held in self.awake}

    def dream(self, seeds: Seeds) -> Samples:
        """As many samples of each task as it had."""
        return concat(*[held.dream(seeds) for held in self.awake])

    def forget(self) -> None:
        """Free every task memory."""
        self.awake = []

    def state(self) -> list[State]:
        """All that the task memories awake have learnt."""
        return [held.state() for held in self.awake]

    def restore(self, state: list[State]) -> None:
        """Take back what `state` gave."""
        self.awake = []
        for held in state:
            self.awake.append(self._fresh(held["task"], held["outputs"], Seeds(0)))
            self.awake[-1].restore(held)

    def grow(self, n_classes: int) -> None:
        """Tell the task memories that are awake of new classes."""
        for held in self.awake:
            held.memory.n_classes = n_classes
