"""EWC: elastic weight consolidation, weights held the harder the more they mattered."""

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
from dgdmn.networks.importance import diagonal_fisher, enlarged
from dgdmn.networks.learner import cross_entropy
from dgdmn.samples import Samples
from dgdmn.seeds import Seeds
from dgdmn.storage import State


@final
@dataclass(eq=False, repr=False, kw_only=True)
class EWC(ContinualClassifier):
    """Ties each weight to its values θ*_k after the tasks k before, by their Fisher information F_k:

        loss = cross-entropy + λ/2 Σ_k Σ_i F_k,i (θ_i − θ*_k,i)²

    F_k is the exact diagonal at all of the task's rows (`dgdmn.networks.importance`).
    """

    category: ClassVar[str] = "slowdown"
    keeps: ClassVar[str] = "weights, and how much each matters"
    source: ClassVar[str] = "Kirkpatrick 2017"

    learner_epochs: int | None = None
    ewc_coefficient: float | None = None

    def _begin(self, blueprint: Blueprint, n_classes: int, seeds: Seeds) -> Memory:
        return _Elastic(blueprint, n_classes, seeds)


class _Elastic(ShapedNetwork):
    """A network on springs: one quadratic that is the sum of all tasks', up to a constant.

    Σ_k F_k (θ − θ*_k)² = F (θ − θ*)² + constant, with F = Σ_k F_k and θ* = Σ_k F_k θ*_k / F. So what it
    keeps does not grow with the tasks.
    """

    def __init__(self, blueprint: Blueprint, n_classes: int, seeds: Seeds) -> None:
        super().__init__(blueprint, n_classes, seeds)
        self._fisher = [torch.zeros_like(theta) for theta in self._theta()]
        self._anchor = [theta.clone() for theta in self._theta()]

    def train(self, task: str | None, new: Samples, seeds: Seeds, listen: Listener) -> None:
        """Train on springs, then tie them to where the weights are now."""
        self._fisher = enlarged(self._fisher, [torch.zeros_like(theta) for theta in self._theta()])
        self._anchor = enlarged(self._anchor, self._theta())  # new units are free, and start where they are
        self.learner.train_with(self._loss, (new.x, new.y), seeds.next(), listen)
        self._consolidate(diagonal_fisher(self.learner, new.x))

    def _loss(self, x: Tensor, y: Tensor, rng: torch.Generator) -> Tensor:
        return (
            cross_entropy(self.learner(x, rng), y, self.options.clip_probability)
            + self.options.ewc_coefficient / 2 * self._tension()
        )

    def _tension(self) -> Tensor:
        """Σ_i F_i (θ_i − θ*_i)²."""
        springs = zip(self._fisher, self.learner.parameters(), self._anchor, strict=True)
        return sum(((f * (theta - anchor).square()).sum() for f, theta, anchor in springs), torch.zeros(()))

    def _consolidate(self, fisher: list[Tensor]) -> None:
        """Add one task's quadratic, whose lowest point is at the present weights."""
        self._fisher = [f + f_k for f, f_k in zip(self._fisher, fisher, strict=True)]
        shares = [torch.where(f > 0, f_k / f, 0) for f, f_k in zip(self._fisher, fisher, strict=True)]
        springs = zip(self._anchor, shares, self._theta(), strict=True)
        self._anchor = [anchor + share * (theta - anchor) for anchor, share, theta in springs]

    def _theta(self) -> list[Tensor]:
        return [parameter.detach() for parameter in self.learner.parameters()]

    def state(self) -> State:
        """The weights and their springs."""
        return {**super().state(), "fisher": list(self._fisher), "anchor": list(self._anchor)}

    def restore(self, state: State) -> None:
        """Take back what `state` gave."""
        super().restore(state)
        self._fisher, self._anchor = list(state["fisher"]), list(state["anchor"])
