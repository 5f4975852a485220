"""LwF: learning without forgetting, the old network's answers to the new inputs as a second target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import torch
from torch import Tensor

from dgdmn.algorithms.base import ContinualClassifier
from dgdmn.algorithms.learnt import Memory
from dgdmn.algorithms.network import ShapedNetwork
from dgdmn.events import Listener
from dgdmn.networks.blueprint import Blueprint
from dgdmn.networks.learner import cross_entropy
from dgdmn.networks.training import in_batches
from dgdmn.samples import Samples
from dgdmn.seeds import Seeds
from dgdmn.storage import State


@final
@dataclass(eq=False, repr=False, kw_only=True)
class LwF(ContinualClassifier):
    """Trains on the new labels and on what the network answered to the new inputs before:

        loss = cross-entropy + λ_o · Σ_i −y'_i log ŷ'_i,   y' = softmax(z / T) over the classes met before

    A "slowdown", for it holds the network's function in place and replays no sample. There is one head
    for all tasks, so one softmax over all old classes stands for the paper's one a task; with a single
    old class it holds nothing. The paper's warm-up of a new head and its weight decay are left out.
    """

    category: ClassVar[str] = "slowdown"
    keeps: ClassVar[str] = "weights"
    source: ClassVar[str] = "Li & Hoiem 2017"

    learner_epochs: int | None = None
    lwf_weight: float | None = None
    lwf_temperature: float | None = None

    def _begin(self, blueprint: Blueprint, n_classes: int, seeds: Seeds) -> Memory:
        return _Distilling(blueprint, n_classes, seeds)


class _Distilling(ShapedNetwork):
    """A network that is its own teacher."""

    def __init__(self, blueprint: Blueprint, n_classes: int, seeds: Seeds) -> None:
        super().__init__(blueprint, n_classes, seeds)
        self._met: list[int] = []

    def train(self, task: str | None, new: Samples, seeds: Seeds, listen: Listener) -> None:
        """Note the old answers to all new inputs, then train towards them and the labels."""
        if self._met:
            old = in_batches(lambda x: self._softened(self.learner(x)).softmax(dim=1), new.x)
            self.learner.train_with(self._loss, (new.x, new.y, old), seeds.next(), listen)
        else:
            self.learner.fit(new, seeds.next(), listen)
        self._met = sorted({*self._met, *new.classes()})

    def _loss(self, x: Tensor, y: Tensor, old: Tensor, rng: torch.Generator) -> Tensor:
        logits = self.learner(x, rng)
        distillation = cross_entropy(self._softened(logits), old)
        return (
            cross_entropy(logits, y, self.options.clip_probability) + self.options.lwf_weight * distillation
        )

    def _softened(self, logits: Tensor) -> Tensor:
        """z / T of the classes met before, shape (n, classes met)."""
        return logits[:, self._met] / self.options.lwf_temperature

    def state(self) -> State:
        """The weights, and the classes they know."""
        return {**super().state(), "met": list(self._met)}

    def restore(self, state: State) -> None:
        """Take back what `state` gave."""
        super().restore(state)
        self._met = list(state["met"])
