"""DGR: deep generative replay without a short-term memory. The long-term memory learns every task."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any, final

from numpy.typing import NDArray

from dgdmn.algorithms.fitted import FittedState, Memory
from dgdmn.algorithms.generative import GenerativeClassifier
from dgdmn.core.batch import Batch
from dgdmn.core.events import Context
from dgdmn.core.rng import SeedStream
from dgdmn.memory.protocols import GenerativeMemory
from dgdmn.memory.task_log import TaskInfo, new_task_name
from dgdmn.networks.factory import NetworkFactory
from dgdmn.storage import State


@final
@dataclass(eq=False, repr=False, kw_only=True)
class DGR(GenerativeClassifier):
    """ "We train only the LTM from DGDMN to separate the effects of replay and dual memory" (section 4)."""

    def _new_memory(self, factory: NetworkFactory, n_classes: int, rng: SeedStream) -> Memory:
        return _LongTermOnly(self._memories(factory)("ltm", n_classes, rng))

    def _long_term(self, fitted: FittedState) -> GenerativeMemory:
        assert isinstance(fitted.memory, _LongTermOnly)
        return fitted.memory.ltm

    def awake_tasks(self) -> tuple[str, ...]:
        """None: every task is consolidated as it comes."""
        return ()


class _LongTermOnly:
    """A long-term memory that learns each task as it comes."""

    def __init__(self, ltm: GenerativeMemory) -> None:
        self.ltm = ltm

    def learn(self, task: str | None, new: Batch, ctx: Context) -> None:
        name = new_task_name(self.ltm.tasks.keys()) if task is None else task
        ltm = copy.copy(self.ltm)
        ltm.learn(new, {name: TaskInfo(1, new.classes())}, ctx)
        self.ltm = ltm

    def sleep(self, ctx: Context) -> None:
        """Every task is consolidated already."""

    def predict_proba(self, x: NDArray[Any], task: str | None) -> NDArray[Any]:
        return self.ltm.predict_proba(x)

    def grow(self, n_classes: int) -> None:
        self.ltm = copy.copy(self.ltm)
        self.ltm.grow(n_classes)

    def state(self) -> State:
        return {"ltm": self.ltm.state()}

    def load_state(self, state: State) -> None:
        self.ltm.load_state(state["ltm"])
