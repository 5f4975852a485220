"""SI: synaptic intelligence, weights that know what they have done for each task."""

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
from dgdmn.networks.importance import enlarged
from dgdmn.networks.learner import cross_entropy
from dgdmn.networks.rmsprop import RMSProp
from dgdmn.networks.training import Gradients
from dgdmn.samples import Samples
from dgdmn.seeds import Seeds
from dgdmn.storage import State


@final
@dataclass(eq=False, repr=False, kw_only=True)
class SI(ContinualClassifier):
    """Holds each weight by its share in how far the losses of the tasks before fell.

        ω_i = Σ_steps −g_i Δθ_i                        g: gradient of the task's own loss
        Ω_i = Σ_tasks max(0, ω_i) / (Δ_i² + ξ)         Δ: how far the weight moved in the task
        loss = cross-entropy + c Σ_i Ω_i (θ_i − θ̃_i)²   θ̃: the weights before the task

    The paper has no max; without it a weight that raised the loss would be pushed away. (The authors'
    program cuts the sum Ω at 0, here each task's share is cut.)
    """

    category: ClassVar[str] = "slowdown"
    keeps: ClassVar[str] = "weights, and how much each matters"
    source: ClassVar[str] = "Zenke 2017"

    learner_epochs: int | None = None
    si_strength: float | None = None
    si_damping: float | None = None

    def _begin(self, blueprint: Blueprint, n_classes: int, seeds: Seeds) -> Memory:
        return _Intelligent(blueprint, n_classes, seeds)


class _Intelligent(ShapedNetwork):
    """A network that keeps an account of each weight; θ̃ need not be kept: it is the present weights."""

    def __init__(self, blueprint: Blueprint, n_classes: int, seeds: Seeds) -> None:
        super().__init__(blueprint, n_classes, seeds)
        self._importance = self._zeros()  # Ω

    def train(self, task: str | None, new: Samples, seeds: Seeds, listen: Listener) -> None:
        """Train by steps that are held back and watched, then add up what each weight did."""
        c, xi = self.options.si_strength, self.options.si_damping
        self._importance = enlarged(self._importance, self._zeros())
        start = [theta.detach().clone() for theta in self.learner.parameters()]
        omega = self._zeros()

        @torch.no_grad()
        def step(optimiser: RMSProp, gradients: Gradients) -> None:
            before = [theta.clone() for theta in optimiser.parameters]
            springs = zip(self._importance, before, start, strict=True)
            pull = [2 * c * weight * (theta - tilde) for weight, theta, tilde in springs]
            optimiser.step(tuple(g + force for g, force in zip(gradients, pull, strict=True)))
            for w, g, theta, last in zip(omega, gradients, optimiser.parameters, before, strict=True):
                w.sub_(g * (theta - last))

        self.learner.train_with(self._loss, (new.x, new.y), seeds.next(), listen, step, also=omega)
        accounts = zip(self._importance, omega, self.learner.parameters(), start, strict=True)
        self._importance = [
            weight + w.clamp(min=0) / ((theta.detach() - tilde).square() + xi)
            for weight, w, theta, tilde in accounts
        ]

    def _loss(self, x: Tensor, y: Tensor, rng: torch.Generator) -> Tensor:
        return cross_entropy(self.learner(x, rng), y, self.options.clip_probability)

    def _zeros(self) -> list[Tensor]:
        return [torch.zeros_like(parameter) for parameter in self.learner.parameters()]

    def state(self) -> State:
        """The weights and their importance."""
        return {**super().state(), "importance": list(self._importance)}

    def restore(self, state: State) -> None:
        """Take back what `state` gave."""
        super().restore(state)
        self._importance = list(state["importance"])
