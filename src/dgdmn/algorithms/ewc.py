"""EWC: elastic weight consolidation. Weights that mattered for earlier tasks change less."""

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
from dgdmn.networks.fisher import diagonal_fisher, pad_to
from dgdmn.storage import State


@final
@dataclass(eq=False, repr=False, kw_only=True)
class EWC(ContinualClassifier):
    """Penalizes the distance of each weight from its values θ*_k after earlier tasks k, by Fisher information F_k:

        loss = cross-entropy + λ/2 Σ_k Σ_i F_k,i (θ_i − θ*_k,i)²

    F_k is the exact diagonal at all of the task's rows (`dgdmn.networks.fisher`).
    """

    learner_epochs: int | None = None
    ewc_coefficient: float | None = None

    def _new_memory(self, factory: NetworkFactory, n_classes: int, rng: SeedStream) -> Memory:
        return _ElasticNetwork(factory, n_classes, rng)


class _ElasticNetwork(CustomizedNetwork):
    """A network with one quadratic penalty for all earlier tasks.

    Σ_k F_k (θ − θ*_k)² = F (θ − θ*)² + constant, with F = Σ_k F_k and θ* = Σ_k F_k θ*_k / F. So its size does
    not grow with the tasks.
    """

    def __init__(self, factory: NetworkFactory, n_classes: int, rng: SeedStream) -> None:
        super().__init__(factory, n_classes, rng)
        self._fisher = [torch.zeros_like(theta) for theta in self._theta()]
        self._anchor = [theta.clone() for theta in self._theta()]

    def train(self, task: str | None, new: Batch, ctx: Context) -> None:
        """Train with the penalty, then add this task to it."""
        self._fisher = pad_to(self._fisher, [torch.zeros_like(theta) for theta in self._theta()])
        self._anchor = pad_to(self._anchor, self._theta())  # new units are not penalized
        self.learner.train_with(self._loss, (new.x, new.y), ctx.rng.next(), ctx.callback)
        self._consolidate(diagonal_fisher(self.learner, new.x))

    def _loss(self, x: Tensor, y: Tensor, rng: torch.Generator) -> Tensor:
        return (
            cross_entropy(self.learner(x, rng), y, self.config.clip_probability)
            + self.config.ewc_coefficient / 2 * self._penalty()
        )

    def _penalty(self) -> Tensor:
        """Σ_i F_i (θ_i − θ*_i)²."""
        terms = zip(self._fisher, self.learner.parameters(), self._anchor, strict=True)
        return sum(
            ((f * (theta - anchor).square()).sum() for f, theta, anchor in terms), torch.zeros(())
        )

    def _consolidate(self, fisher: list[Tensor]) -> None:
        """Add one task's quadratic, whose minimum is at the present weights."""
        self._fisher = [f + f_k for f, f_k in zip(self._fisher, fisher, strict=True)]
        shares = [
            torch.where(f > 0, f_k / f, 0) for f, f_k in zip(self._fisher, fisher, strict=True)
        ]
        terms = zip(self._anchor, shares, self._theta(), strict=True)
        self._anchor = [anchor + share * (theta - anchor) for anchor, share, theta in terms]

    def _theta(self) -> list[Tensor]:
        return [parameter.detach() for parameter in self.learner.parameters()]

    def state(self) -> State:
        """The weights and the penalty."""
        return {**super().state(), "fisher": list(self._fisher), "anchor": list(self._anchor)}

    def load_tensors(self, state: State) -> None:
        """Load a state whose arrays are tensors."""
        super().load_tensors(state)
        self._fisher, self._anchor = list(state["fisher"]), list(state["anchor"])
