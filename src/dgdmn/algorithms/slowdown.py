"""Slowdown methods: EWC, SI and LwF limit changes to what earlier tasks use."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from dgdmn.algorithms.nn import CustomizedNetwork, OneNetworkClassifier
from dgdmn.core.batch import Batch
from dgdmn.core.events import Context
from dgdmn.core.rng import SeedStream
from dgdmn.networks.classifier import cross_entropy
from dgdmn.networks.factory import NetworkFactory
from dgdmn.networks.fisher import diagonal_fisher, pad_to_shapes
from dgdmn.networks.optimizer import RMSProp
from dgdmn.networks.train import Gradients, map_batches
from dgdmn.storage import State, check_class_indices, get_typed


class _ElasticNetwork(CustomizedNetwork):
    """A network with one quadratic penalty for all earlier tasks.

    Σ_k F_k (θ − θ*_k)² = F (θ − θ*)² + constant, with F = Σ_k F_k and θ* = Σ_k F_k θ*_k / F. So its size does
    not grow with the tasks.
    """

    def __init__(self, factory: NetworkFactory, n_classes: int, rng: SeedStream) -> None:
        super().__init__(factory, n_classes, rng)
        self._fisher = self.zeros()
        self._anchor = [theta.detach().clone() for theta in self.learner.parameters()]

    def train(self, task: str | None, new: Batch, ctx: Context) -> None:
        """Train with the penalty, then add this task to it."""
        self._fisher = pad_to_shapes(self._fisher, self.zeros())  # new units are not penalized
        self._anchor = pad_to_shapes(self._anchor, self.learner.parameters())
        self.learner.train_with(self._loss, (new.x, new.y), ctx.rng.next(), ctx.callback)
        self._consolidate(diagonal_fisher(self.learner, new.x))

    def _loss(self, x: Tensor, y: Tensor, rng: torch.Generator) -> Tensor:
        return self.cross_entropy(x, y, rng) + self.config.ewc_coefficient / 2 * self._penalty()

    def _penalty(self) -> Tensor:
        """Σ_i F_i (θ_i − θ*_i)²."""
        weights = zip(self._fisher, self.learner.parameters(), self._anchor, strict=True)
        terms = ((f * (theta - anchor).square()).sum() for f, theta, anchor in weights)
        return sum(terms, torch.zeros(()))

    def _consolidate(self, fisher: list[Tensor]) -> None:
        """Add one task's quadratic, whose minimum is at the present weights."""
        self._fisher = [f + f_k for f, f_k in zip(self._fisher, fisher, strict=True)]
        terms = zip(self._fisher, fisher, self.learner.parameters(), self._anchor, strict=True)
        self._anchor = [
            anchor + torch.where(f > 0, f_k / f, 0) * (theta.detach() - anchor)
            for f, f_k, theta, anchor in terms
        ]

    def state(self) -> State:
        return {**super().state(), "fisher": list(self._fisher), "anchor": list(self._anchor)}

    def load_tensors(self, state: State) -> None:
        super().load_tensors(state)
        self._fisher = pad_to_shapes(state["fisher"], self.zeros())
        self._anchor = pad_to_shapes(state["anchor"], self.learner.parameters())


@final
@dataclass(eq=False, repr=False, kw_only=True)
class EWC(OneNetworkClassifier):
    """Penalizes the distance of each weight from its values θ*_k after earlier tasks k, by Fisher information F_k:

        loss = cross-entropy + λ/2 Σ_k Σ_i F_k,i (θ_i − θ*_k,i)²

    F_k is the exact diagonal at all of the task's rows (`dgdmn.networks.fisher`).
    """

    memory_class = _ElasticNetwork
    ewc_coefficient: float | None = None


class _SynapticNetwork(CustomizedNetwork):
    """A network that tracks each weight's importance. θ̃ is the present weights, so it is not stored."""

    def __init__(self, factory: NetworkFactory, n_classes: int, rng: SeedStream) -> None:
        super().__init__(factory, n_classes, rng)
        self._importance = self.zeros()  # Ω

    def train(self, task: str | None, new: Batch, ctx: Context) -> None:
        """Train with the penalty while tracking contributions, then add them to the importance."""
        c, xi = self.config.si_strength, self.config.si_damping
        self._importance = pad_to_shapes(self._importance, self.zeros())
        start = [theta.detach().clone() for theta in self.learner.parameters()]
        omega = self.zeros()

        @torch.no_grad()
        def step(optimizer: RMSProp, gradients: Gradients) -> None:
            before = [theta.clone() for theta in optimizer.parameters]
            terms = zip(self._importance, before, start, strict=True)
            penalty = [2 * c * weight * (theta - tilde) for weight, theta, tilde in terms]
            optimizer.step(tuple(g + force for g, force in zip(gradients, penalty, strict=True)))
            moves = zip(omega, gradients, optimizer.parameters, before, strict=True)
            for w, g, theta, last in moves:
                w.sub_(g * (theta - last))

        data = (new.x, new.y)
        self.learner.train_with(self.cross_entropy, data, ctx.rng.next(), ctx.callback, step, omega)
        terms = zip(self._importance, omega, self.learner.parameters(), start, strict=True)
        self._importance = [
            weight + w.clamp(min=0) / ((theta.detach() - tilde).square() + xi)
            for weight, w, theta, tilde in terms
        ]

    def state(self) -> State:
        return {**super().state(), "importance": list(self._importance)}

    def load_tensors(self, state: State) -> None:
        super().load_tensors(state)
        self._importance = pad_to_shapes(state["importance"], self.zeros())


@final
@dataclass(eq=False, repr=False, kw_only=True)
class SI(OneNetworkClassifier):
    """Penalizes changes of a weight by its contribution to the loss decrease of earlier tasks.

        ω_i = Σ_steps −g_i Δθ_i                        g: gradient of the task's own loss
        Ω_i = Σ_tasks max(0, ω_i) / (Δ_i² + ξ)         Δ: how far the weight moved in the task
        loss = cross-entropy + c Σ_i Ω_i (θ_i − θ̃_i)²   θ̃: the weights before the task

    The paper has no max; without it a weight that raised the loss would be pushed away. (The authors' code
    clips the sum Ω at 0; here each task's term is clipped.)
    """

    memory_class = _SynapticNetwork
    si_strength: float | None = None
    si_damping: float | None = None


class _DistillingNetwork(CustomizedNetwork):
    """A network that distills its own earlier answers."""

    _learned: Sequence[int] = ()  # classes

    def train(self, task: str | None, new: Batch, ctx: Context) -> None:
        """Record the old answers to all new inputs, then train towards them and the labels."""
        if self._learned:
            old = map_batches(lambda x: self._old_logits(self.learner(x)).softmax(dim=1), new.x)
            self.learner.train_with(self._loss, (new.x, new.y, old), ctx.rng.next(), ctx.callback)
        else:
            self.learner.fit(new, ctx.rng.next(), ctx.callback)
        self._learned = sorted({*self._learned, *new.classes()})

    def _loss(self, x: Tensor, y: Tensor, old: Tensor, rng: torch.Generator) -> Tensor:
        logits = self.learner(x, rng)
        new = cross_entropy(logits, y, self.config.clip_probability)
        return new + self.config.lwf_weight * cross_entropy(self._old_logits(logits), old)

    def _old_logits(self, logits: Tensor) -> Tensor:
        """z / T of the classes learned before, shape (n, classes learned)."""
        return logits[:, self._learned] / self.config.lwf_temperature

    def state(self) -> State:
        return {**super().state(), "met": list(self._learned)}

    def load_tensors(self, state: State) -> None:
        super().load_tensors(state)
        self._learned = check_class_indices(get_typed(state, "met", list), self._outputs)


@final
@dataclass(eq=False, repr=False, kw_only=True)
class LwF(OneNetworkClassifier):
    """Trains on the new labels and on the network's earlier answers to the new inputs:

        loss = cross-entropy + λ_o · Σ_i −y'_i log ŷ'_i,   y' = softmax(z / T) over the classes learned before

    A "slowdown" method: it preserves the network's function and replays no sample. There is one head for all
    tasks, so one softmax over all old classes replaces the paper's one per task; with a single old class it has
    no effect. The paper's warm-up of a new head and its weight decay are left out.
    """

    memory_class = _DistillingNetwork
    lwf_weight: float | None = None
    lwf_temperature: float | None = None
