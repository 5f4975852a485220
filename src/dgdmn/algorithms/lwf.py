"""LwF: learning without forgetting. The old network's answers to new inputs are a second target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from dgdmn.algorithms.estimator import ContinualClassifier
from dgdmn.algorithms.fitted import Memory
from dgdmn.algorithms.nn import CustomizedNetwork
from dgdmn.core.batch import Batch
from dgdmn.core.events import Context
from dgdmn.core.rng import SeedStream
from dgdmn.networks.classifier import cross_entropy
from dgdmn.networks.factory import NetworkFactory
from dgdmn.networks.train import map_batches
from dgdmn.storage import State


@final
@dataclass(eq=False, repr=False, kw_only=True)
class LwF(ContinualClassifier):
    """Trains on the new labels and on the network's earlier answers to the new inputs:

        loss = cross-entropy + λ_o · Σ_i −y'_i log ŷ'_i,   y' = softmax(z / T) over the classes met before

    A "slowdown" method: it preserves the network's function and replays no sample. There is one head for all
    tasks, so one softmax over all old classes replaces the paper's one per task; with a single old class it has
    no effect. The paper's warm-up of a new head and its weight decay are left out.
    """

    learner_epochs: int | None = None
    lwf_weight: float | None = None
    lwf_temperature: float | None = None

    def _new_memory(self, factory: NetworkFactory, n_classes: int, rng: SeedStream) -> Memory:
        return _DistillingNetwork(factory, n_classes, rng)


class _DistillingNetwork(CustomizedNetwork):
    """A network that distills its own earlier answers."""

    def __init__(self, factory: NetworkFactory, n_classes: int, rng: SeedStream) -> None:
        super().__init__(factory, n_classes, rng)
        self._met: list[int] = []

    def train(self, task: str | None, new: Batch, ctx: Context) -> None:
        """Record the old answers to all new inputs, then train towards them and the labels."""
        if self._met:
            old = map_batches(lambda x: self._old_logits(self.learner(x)).softmax(dim=1), new.x)
            self.learner.train_with(self._loss, (new.x, new.y, old), ctx.rng.next(), ctx.callback)
        else:
            self.learner.fit(new, ctx.rng.next(), ctx.callback)
        self._met = sorted({*self._met, *new.classes()})

    def _loss(self, x: Tensor, y: Tensor, old: Tensor, rng: torch.Generator) -> Tensor:
        logits = self.learner(x, rng)
        distillation = cross_entropy(self._old_logits(logits), old)
        return (
            cross_entropy(logits, y, self.config.clip_probability)
            + self.config.lwf_weight * distillation
        )

    def _old_logits(self, logits: Tensor) -> Tensor:
        """z / T of the classes met before, shape (n, classes met)."""
        return logits[:, self._met] / self.config.lwf_temperature

    def state(self) -> State:
        """The weights, and the classes they know."""
        return {**super().state(), "met": list(self._met)}

    def load_tensors(self, state: State) -> None:
        """Load a state whose arrays are tensors."""
        super().load_tensors(state)
        self._met = list(state["met"])
