"""NN: a plain network trained on one task after the other. It shows what forgetting is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

from torch import Tensor

from dgdmn.algorithms.base import ContinualClassifier
from dgdmn.algorithms.learnt import Memory
from dgdmn.events import Listener
from dgdmn.networks.blueprint import Blueprint
from dgdmn.samples import Samples
from dgdmn.seeds import Seeds


@final
@dataclass(eq=False, repr=False, kw_only=True)
class NN(ContinualClassifier):
    """The paper's "feedforward neural network": the learner alone, six epochs a task (section 4)."""

    keeps: ClassVar[str] = "weights"

    learner_epochs: int | None = None

    def _begin(self, blueprint: Blueprint, n_classes: int, seeds: Seeds) -> Memory:
        return _Network(blueprint, n_classes, seeds)


class _Network:
    """A learner that is trained on whatever comes."""

    def __init__(self, blueprint: Blueprint, n_classes: int, seeds: Seeds) -> None:
        self.learner = blueprint.learner("ltm", n_classes, seeds.next())
        self._new_classes: int | None = None

    def learn(self, task: str | None, new: Samples, seeds: Seeds, listen: Listener) -> None:
        if self._new_classes is not None:
            self.learner.grow(self._new_classes, seeds.next())
            self._new_classes = None
        self.learner.fit(new, seeds.next(), listen)

    def sleep(self, seeds: Seeds, listen: Listener) -> None:
        pass

    def probabilities(self, x: Tensor, task: str | None) -> Tensor:
        return self.learner.probabilities(x)

    def grow(self, n_classes: int) -> None:
        self._new_classes = n_classes
