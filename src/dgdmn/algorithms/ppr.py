"""PPR: pseudopattern rehearsal, replay without a generator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import torch

from dgdmn.algorithms.base import ContinualClassifier
from dgdmn.algorithms.learnt import Memory
from dgdmn.algorithms.network import Network
from dgdmn.events import Listener
from dgdmn.networks.blueprint import Blueprint
from dgdmn.samples import Samples, concat
from dgdmn.seeds import Seeds
from dgdmn.storage import State


@final
@dataclass(eq=False, repr=False, kw_only=True)
class PPR(ContinualClassifier):
    """Trains on the new samples beside random inputs, labelled by the network itself before it learns them.

    Inputs are uniform in [0, 1]; "apart from the task samples, the remaining memory was filled with
    random samples and corresponding labels" (appendix B).
    """

    category: ClassVar[str] = "replay"
    keeps: ClassVar[str] = "weights"
    source: ClassVar[str] = "Robins 2004"

    learner_epochs: int | None = None
    ppr_memory: int | None = None

    def _begin(self, blueprint: Blueprint, n_classes: int, seeds: Seeds) -> Memory:
        return _Rehearsing(blueprint, n_classes, seeds)


class _Rehearsing(Network):
    """A network that rehearses what it answers to noise."""

    def __init__(self, blueprint: Blueprint, n_classes: int, seeds: Seeds) -> None:
        super().__init__(blueprint, n_classes, seeds)
        self._device = blueprint.device
        self._taught = False

    def train(self, task: str | None, new: Samples, seeds: Seeds, listen: Listener) -> None:
        """Train on the new samples and, once something is known, on pseudopatterns."""
        n = max(0, (self.options.ppr_memory or 3 * len(new)) - len(new))
        rehearsed = [self.pseudopatterns(n, new.x.shape[1], seeds)] if self._taught else []
        self.learner.fit(concat(new, *rehearsed), seeds.next(), listen)
        self._taught = True

    def pseudopatterns(self, n: int, d: int, seeds: Seeds) -> Samples:
        """n inputs of d uniform numbers, and the network's own labels."""
        x = torch.rand(n, d, generator=seeds.next()).to(self._device)
        return Samples(x, self.learner.probabilities(x).argmax(dim=1))

    def state(self) -> State:
        """The weights, and whether they know anything."""
        return {**super().state(), "taught": self._taught}

    def restore(self, state: State) -> None:
        """Take back what `state` gave."""
        super().restore(state)
        self._taught = state["taught"]
