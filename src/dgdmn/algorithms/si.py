"""SI: synaptic intelligence. Each weight accumulates its contribution to every task."""

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
from dgdmn.networks.fisher import pad_to
from dgdmn.networks.optimizer import RMSProp
from dgdmn.networks.train import Gradients
from dgdmn.storage import State


@final
@dataclass(eq=False, repr=False, kw_only=True)
class SI(ContinualClassifier):
    """Penalizes changes of a weight by its contribution to the loss decrease of earlier tasks.

        ω_i = Σ_steps −g_i Δθ_i                        g: gradient of the task's own loss
        Ω_i = Σ_tasks max(0, ω_i) / (Δ_i² + ξ)         Δ: how far the weight moved in the task
        loss = cross-entropy + c Σ_i Ω_i (θ_i − θ̃_i)²   θ̃: the weights before the task

    The paper has no max; without it a weight that raised the loss would be pushed away. (The authors' code
    clips the sum Ω at 0; here each task's term is clipped.)
    """

    learner_epochs: int | None = None
    si_strength: float | None = None
    si_damping: float | None = None

    def _new_memory(self, factory: NetworkFactory, n_classes: int, rng: SeedStream) -> Memory:
        return _SynapticNetwork(factory, n_classes, rng)


class _SynapticNetwork(CustomizedNetwork):
    """A network that tracks each weight's importance. θ̃ is the present weights, so it is not stored."""

    def __init__(self, factory: NetworkFactory, n_classes: int, rng: SeedStream) -> None:
        super().__init__(factory, n_classes, rng)
        self._importance = self._zeros()  # Ω

    def train(self, task: str | None, new: Batch, ctx: Context) -> None:
        """Train with the penalty while tracking contributions, then add them to the importance."""
        c, xi = self.config.si_strength, self.config.si_damping
        self._importance = pad_to(self._importance, self._zeros())
        start = [theta.detach().clone() for theta in self.learner.parameters()]
        omega = self._zeros()

        @torch.no_grad()
        def step(optimizer: RMSProp, gradients: Gradients) -> None:
            before = [theta.clone() for theta in optimizer.parameters]
            terms = zip(self._importance, before, start, strict=True)
            penalty = [2 * c * weight * (theta - tilde) for weight, theta, tilde in terms]
            optimizer.step(tuple(g + force for g, force in zip(gradients, penalty, strict=True)))
            for w, g, theta, last in zip(
                omega, gradients, optimizer.parameters, before, strict=True
            ):
                w.sub_(g * (theta - last))

        self.learner.train_with(
            self._loss, (new.x, new.y), ctx.rng.next(), ctx.callback, step, accumulators=omega
        )
        terms = zip(self._importance, omega, self.learner.parameters(), start, strict=True)
        self._importance = [
            weight + w.clamp(min=0) / ((theta.detach() - tilde).square() + xi)
            for weight, w, theta, tilde in terms
        ]

    def _loss(self, x: Tensor, y: Tensor, rng: torch.Generator) -> Tensor:
        return cross_entropy(self.learner(x, rng), y, self.config.clip_probability)

    def _zeros(self) -> list[Tensor]:
        return [torch.zeros_like(parameter) for parameter in self.learner.parameters()]

    def state(self) -> State:
        """The weights and their importance."""
        return {**super().state(), "importance": list(self._importance)}

    def load_tensors(self, state: State) -> None:
        """Load a state whose arrays are tensors."""
        super().load_tensors(state)
        self._importance = list(state["importance"])
