"""PPR: pseudopattern rehearsal, replay without a generator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import torch

from dgdmn.algorithms.estimator import ContinualClassifier
from dgdmn.algorithms.fitted import Memory
from dgdmn.algorithms.nn import Network
from dgdmn.core.batch import Batch, concat
from dgdmn.core.events import Context
from dgdmn.core.rng import SeedStream
from dgdmn.networks.factory import NetworkFactory
from dgdmn.storage import State


@final
@dataclass(eq=False, repr=False, kw_only=True)
class PPR(ContinualClassifier):
    """Trains on the new samples and on random inputs that the network labeled before.

    Inputs are uniform in [0, 1]; "apart from the task samples, the remaining memory was filled with random
    samples and corresponding labels" (appendix B).
    """

    learner_epochs: int | None = None
    ppr_memory: int | None = None

    def _new_memory(self, factory: NetworkFactory, n_classes: int, rng: SeedStream) -> Memory:
        return _RehearsingNetwork(factory, n_classes, rng)


class _RehearsingNetwork(Network):
    """A network that rehearses its own answers to noise."""

    def __init__(self, factory: NetworkFactory, n_classes: int, rng: SeedStream) -> None:
        super().__init__(factory, n_classes, rng)
        self._trained = False

    def train(self, task: str | None, new: Batch, ctx: Context) -> None:
        """Train on the new samples and, after the first task, on pseudopatterns."""
        n = max(0, (self.config.ppr_memory or 3 * len(new)) - len(new))
        patterns = [self.pseudopatterns(n, new.x.shape[1], ctx.rng)] if self._trained else []
        self.learner.fit(concat(new, *patterns), ctx.rng.next(), ctx.callback)
        self._trained = True

    def pseudopatterns(self, n: int, d: int, rng: SeedStream) -> Batch:
        """n inputs of d uniform numbers, labeled by the network."""
        x = torch.rand(n, d, generator=rng.next()).to(self.device)
        return Batch(x, self.learner.predict_proba(x).argmax(dim=1))

    def state(self) -> State:
        """The weights, and whether they were trained."""
        return {**super().state(), "trained": self._trained}

    def load_tensors(self, state: State) -> None:
        """Load a state whose arrays are tensors."""
        super().load_tensors(state)
        self._trained = state["trained"]
