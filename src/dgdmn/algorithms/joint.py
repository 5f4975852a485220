"""Joint: all tasks so far at once. No continual learner, but the ceiling for one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

from torch import Tensor

from dgdmn.algorithms.base import ContinualClassifier
from dgdmn.algorithms.learnt import Memory
from dgdmn.events import Listener
from dgdmn.networks.blueprint import Blueprint
from dgdmn.samples import Samples, concat
from dgdmn.seeds import Seeds
from dgdmn.storage import State


@final
@dataclass(eq=False, repr=False, kw_only=True)
class Joint(ContinualClassifier):
    """A new network after each task, trained twenty epochs on all rows so far (section 4.1, appendix B).

    It keeps every training row it was ever given.
    """

    category: ClassVar[str] = "ceiling"
    keeps: ClassVar[str] = "weights and every training row"
    source: ClassVar[str] = "Kamra 2018, section 4"

    joint_epochs: int | None = None

    def _begin(self, blueprint: Blueprint, n_classes: int, seeds: Seeds) -> Memory:
        return _Everything(blueprint, n_classes, seeds)


class _Everything:
    """All rows, and a network trained anew on them."""

    def __init__(self, blueprint: Blueprint, n_classes: int, seeds: Seeds) -> None:
        self._blueprint = blueprint
        self._n_classes = n_classes
        self._rows: tuple[Samples, ...] = ()
        self._renew(seeds)

    def _renew(self, seeds: Seeds) -> None:
        epochs = self._blueprint.preset.joint_epochs
        self.learner = self._blueprint.learner("ltm", self._n_classes, seeds.next(), epochs=epochs)

    def learn(self, task: str | None, new: Samples, seeds: Seeds, listen: Listener) -> None:
        self._rows = (*self._rows, new)
        self._renew(seeds)
        self.learner.fit(concat(*self._rows), seeds.next(), listen)

    def sleep(self, seeds: Seeds, listen: Listener) -> None:
        pass

    def probabilities(self, x: Tensor, task: str | None) -> Tensor:
        return self.learner.probabilities(x)

    def grow(self, n_classes: int) -> None:
        self._n_classes = n_classes

    def state(self) -> State:
        rows = [{"x": samples.x, "y": samples.y} for samples in self._rows]
        return {"learner": dict(self.learner.state_dict()), "rows": rows}

    def restore(self, state: State) -> None:
        self._rows = tuple(Samples(rows["x"], rows["y"]) for rows in state["rows"])
        self.learner.load_state_dict(state["learner"])
