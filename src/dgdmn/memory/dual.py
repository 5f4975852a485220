"""The dual memory of section 3.2: learn in the short term, sleep, remember in the long term."""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

from dgdmn.events import Listener, SleepBegan, SleepEnded, heard_in
from dgdmn.memory.dictionary import unused_name
from dgdmn.memory.generative import GenerativeMemory
from dgdmn.memory.recognition import Recognised, answered, known_by, recognised
from dgdmn.memory.short_term import ShortTermMemory
from dgdmn.networks.blueprint import Blueprint
from dgdmn.networks.layers import hollow
from dgdmn.samples import Samples
from dgdmn.seeds import Seeds
from dgdmn.storage import State


class DualMemory:
    """A short-term memory like the hippocampus beside a long-term memory like the neocortex."""

    def __init__(self, blueprint: Blueprint, n_classes: int, seeds: Seeds) -> None:
        self.stm = ShortTermMemory(blueprint)
        self.ltm = GenerativeMemory(blueprint, "ltm", n_classes, seeds)
        self._blueprint, self._options = blueprint, blueprint.preset

    def learn(self, task: str | None, new: Samples, seeds: Seeds, listen: Listener) -> None:
        """Learn a task in the short-term memory; sleep if that fills it.

        Without a descriptor, the task is the one that the samples are recognised as, else a new one.
        """
        if task is None:
            task = self.task_of(new) or unused_name(self.ltm.tasks.keys() | self.stm.tasks().keys())
        recalled = self.ltm.recall(new.x) if task in self.ltm.tasks else None
        self.stm.learn(task, new, recalled, self.ltm.n_classes, seeds, listen)
        if self.stm.full:
            self.sleep(seeds, listen)

    def sleep(self, seeds: Seeds, listen: Listener) -> None:
        """Dream of the tasks learnt since the last sleep and consolidate them into the long-term memory."""
        tasks = self.stm.tasks()
        if not tasks:
            return
        dreams = self.stm.dream(seeds)
        listen(SleepBegan(tuple(tasks), len(dreams)))
        self.ltm.learn(dreams, tasks, seeds, heard_in("ltm", listen))
        self.stm.forget()
        listen(SleepEnded(tuple(tasks)))

    def probabilities(self, x: Tensor, task: str | None) -> Tensor:
        """Ask the task memory that holds the task, else the long-term memory.

        Without a descriptor recognition chooses the memory.
        """
        if task is None:
            return answered(x, self.memories(), self.recognise(x).answers)
        held = self.stm.holding(task)
        return (held.memory if held else self.ltm).probabilities(x)

    def recognise(self, x: Tensor) -> Recognised:
        """Which of `memories` answers for each sample (appendix A)."""
        return recognised(x, self.memories(), self._options)

    def task_of(self, new: Samples) -> str | None:
        """The task these labelled samples belong to, by appendix A; None if no memory knows them."""
        memory = known_by(new, self.memories(), self._options.gamma)
        return memory.tasks.with_classes(new.classes()) if memory else None

    def memories(self) -> list[GenerativeMemory]:
        """The memories that know something, the long-term memory last; it alone where none does yet."""
        awake = [held.memory for held in self.stm.awake]
        return [*awake, self.ltm] if self.ltm.tasks or not awake else awake

    def room(self) -> int:
        """Bytes of the long-term memory and n_STM task memories, awake or not: what there is just before a sleep.

        Priors count with their full size, and every task memory with as many codes as one ever had.
        """
        with hollow():
            fresh = GenerativeMemory(self._blueprint, "stm", self.ltm.n_classes, Seeds(0))
        awake = [held.memory for held in self.stm.awake]
        asleep = max(0, self._options.n_stm - len(awake))
        small = [*awake, *[fresh] * asleep]
        return len(small) * self.stm.largest_index + sum(memory.room() for memory in (self.ltm, *small))

    def state(self) -> State:
        """All that was learnt."""
        indexed = {"largest_index": self.stm.largest_index} if self.stm.largest_index else {}
        return {"stm": self.stm.state(), "ltm": self.ltm.state(), **indexed}

    def restore(self, state: State) -> None:
        """Take back what `state` gave."""
        self.stm.restore(state["stm"])
        self.ltm.restore(state["ltm"])
        self.stm.largest_index = state.get("largest_index", 0)

    def grow(self, n_classes: int) -> None:
        """There are more classes now. Each memory makes room for them when it next learns: new outputs
        with random weights would only blur what it knows until then.
        """
        self.stm.grow(n_classes)
        self.ltm.n_classes = n_classes


def full_bytes(blueprint: Blueprint, n_classes: int) -> int:
    """Bytes of a dual memory just before it sleeps: its weights and, where it has them, its priors.

    Of our own networks, whatever the user's are; nothing is drawn from a run's seeds.
    """
    with hollow():
        return DualMemory(
            replace(blueprint, own_generator=None, own_learner=None), n_classes, Seeds(0)
        ).room()
