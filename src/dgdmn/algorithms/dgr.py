"""DGR: deep generative replay without a short-term memory: the long-term memory learns every task."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, final

from torch import Tensor

from dgdmn.algorithms.generative import GenerativeClassifier
from dgdmn.algorithms.learnt import Learnt, Memory
from dgdmn.events import Listener, heard_in
from dgdmn.memory.dictionary import Entry, unused_name
from dgdmn.memory.generative import GenerativeMemory
from dgdmn.networks.blueprint import Blueprint
from dgdmn.samples import Samples
from dgdmn.seeds import Seeds
from dgdmn.storage import State


@final
@dataclass(eq=False, repr=False, kw_only=True)
class DGR(GenerativeClassifier):
    """ "We train only the LTM from DGDMN to separate the effects of replay and dual memory" (section 4)."""

    category: ClassVar[str] = "replay"
    keeps: ClassVar[str] = "weights"
    source: ClassVar[str] = "Kamra 2018, section 3.1"

    def _begin(self, blueprint: Blueprint, n_classes: int, seeds: Seeds) -> Memory:
        return _LongTermOnly(replace(blueprint, own_generator=self.generator), n_classes, seeds)

    def _long_term(self, learnt: Learnt) -> GenerativeMemory:
        assert isinstance(learnt.memory, _LongTermOnly)
        return learnt.memory.ltm

    def awake_tasks(self) -> tuple[str, ...]:
        """None: every task is consolidated as it comes."""
        return ()


class _LongTermOnly:
    """A long-term memory that consolidates each task as it comes."""

    def __init__(self, blueprint: Blueprint, n_classes: int, seeds: Seeds) -> None:
        self.ltm = GenerativeMemory(blueprint, "ltm", n_classes, seeds)

    def learn(self, task: str | None, new: Samples, seeds: Seeds, listen: Listener) -> None:
        name = unused_name(self.ltm.tasks.keys()) if task is None else task
        self.ltm.learn(new, {name: Entry(1, new.classes())}, seeds, heard_in("ltm", listen))

    def sleep(self, seeds: Seeds, listen: Listener) -> None:
        pass

    def probabilities(self, x: Tensor, task: str | None) -> Tensor:
        return self.ltm.probabilities(x)

    def grow(self, n_classes: int) -> None:
        self.ltm.n_classes = n_classes

    def state(self) -> State:
        return {"ltm": self.ltm.state()}

    def restore(self, state: State) -> None:
        self.ltm.restore(state["ltm"])
