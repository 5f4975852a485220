"""GEM: gradient episodic memory. No step may harm a task whose rows are remembered."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np
import torch
from scipy.optimize import nnls
from torch import Tensor

from dgdmn.algorithms.base import ContinualClassifier
from dgdmn.algorithms.exemplars import Exemplars, joined, room
from dgdmn.algorithms.learnt import Memory
from dgdmn.algorithms.network import ShapedNetwork
from dgdmn.errors import UsageError
from dgdmn.events import Listener
from dgdmn.memory.dictionary import unused_name
from dgdmn.networks.blueprint import Blueprint
from dgdmn.networks.learner import cross_entropy
from dgdmn.networks.rmsprop import RMSProp
from dgdmn.networks.training import Gradients
from dgdmn.samples import Samples
from dgdmn.seeds import Seeds
from dgdmn.storage import State

_RIDGE = 1e-6


@final
@dataclass(eq=False, repr=False, kw_only=True)
class GEM(ContinualClassifier):
    """Bends each gradient until it points no way that raises the loss on the rows kept of another task.

    The tasks share the room for exemplars evenly: M / t rows each after t tasks. The paper keeps a task's
    last rows; ours are drawn at random, for the rows of a task may come sorted. A task met again is no
    constraint to itself, and its rows are drawn anew from those kept and those that came. Without a
    descriptor every call is a task of its own. The paper steps by plain gradient descent; here the bent
    gradient goes through RMSProp as every other does.
    """

    category: ClassVar[str] = "exemplars"
    keeps: ClassVar[str] = "weights and some rows of each task"
    source: ClassVar[str] = "Lopez-Paz 2017"

    learner_epochs: int | None = None
    exemplars: int | None = None
    gem_margin: float | None = None

    def _begin(self, blueprint: Blueprint, n_classes: int, seeds: Seeds) -> Memory:
        return _Episodic(blueprint, n_classes, seeds)


class _Episodic(ShapedNetwork):
    """A network, and rows of each task that hold its gradients back."""

    def __init__(self, blueprint: Blueprint, n_classes: int, seeds: Seeds) -> None:
        super().__init__(blueprint, n_classes, seeds)
        self._room = room(blueprint, n_classes)  # M
        self._tasks: dict[str, Exemplars] = {}  # M_k, each in random order

    def train(self, task: str | None, new: Samples, seeds: Seeds, listen: Listener) -> None:
        """Observe a task (algorithm 1), then remember rows of it."""
        task = unused_name(self._tasks.keys()) if task is None else task
        share = self._share(task)
        past = [rows.samples() for name, rows in self._tasks.items() if name != task]

        def step(optimiser: RMSProp, gradients: Gradients) -> None:
            g = _flat(gradients)
            G = torch.stack([self._gradient(rows, optimiser) for rows in past])
            bent = projected(g, G, self.options.gem_margin)
            optimiser.step(gradients if bent is g else _like(gradients, bent))

        self.learner.train_with(
            self._loss, (new.x, new.y), seeds.next(), listen, step if past else RMSProp.step
        )
        known = [self._tasks[task]] if task in self._tasks else []
        pool = joined(*known, Exemplars.of(new))
        self._tasks[task] = pool.take(torch.randperm(len(pool), generator=seeds.next()))
        self._tasks = {name: rows.first(share) for name, rows in self._tasks.items()}

    def _share(self, task: str) -> int:
        """Rows for each task once this one has come, M / t."""
        n_tasks = len(self._tasks.keys() | {task})
        if n_tasks > self._room:
            raise UsageError(
                f"exemplars is {self._room}, too few for a row of each of {n_tasks} tasks; raise it"
            )
        return self._room // n_tasks

    def _loss(self, x: Tensor, y: Tensor, rng: torch.Generator | None) -> Tensor:
        return cross_entropy(self.learner(x, rng), y, self.options.clip_probability)

    def _gradient(self, rows: Samples, optimiser: RMSProp) -> Tensor:
        """g_k: the gradient of the mean loss on all rows kept of a task."""
        return _flat(torch.autograd.grad(self._loss(rows.x, rows.y, None), optimiser.parameters))

    def state(self) -> State:
        """The weights, and the rows of each task."""
        rows = [{"task": task, **kept.state()} for task, kept in self._tasks.items()]
        return {**super().state(), "rows": rows, "room": self._room}

    def restore(self, state: State) -> None:
        """Take back what `state` gave."""
        super().restore(state)
        self._tasks = {kept["task"]: Exemplars.restored(kept) for kept in state["rows"]}
        self._room = state["room"]


def projected(g: Tensor, G: Tensor, margin: float) -> Tensor:
    """g bent until it has no negative product with a row of G, shape (t, p).

    g itself where that is so already; else g̃ = Gᵀv + g by the dual programme of section 3. Without a
    margin γ that is the nearest such gradient; with one it leans further towards every task.

        min_v ½ vᵀGGᵀv + gᵀGᵀv,  v ≥ γ     =     min_u ½ ‖Gᵀ(u + γ) + g‖²,  u ≥ 0

    which is least squares without negative numbers. Of its p rows QR leaves t + 1: [Gᵀ g] = QR, and Q
    changes no norm. The columns are brought to length 1 and get a trace of a ridge (ours): where tasks'
    gradients depend on each other, `nnls` alone may stop before it is there.
    """
    g_, G_ = g.double(), G.double()
    products = G_ @ g_
    if bool((products >= 0).all()) or not bool(products.isfinite().all()):
        return g  # where training diverges, its loss says so
    R = torch.linalg.qr(torch.column_stack([G_.T, g_]), mode="r").R.cpu().numpy()
    R_G, target = R[:, :-1], -(R[:, -1] + margin * R[:, :-1].sum(axis=1))
    lengths = np.linalg.norm(R_G, axis=0)
    lengths[lengths == 0] = 1.0  # a task without a gradient constrains nothing
    ridge = _RIDGE * np.eye(len(lengths))
    u, _ = nnls(np.vstack([R_G / lengths, ridge]), np.append(target, np.zeros(len(lengths))))
    v = torch.from_numpy(u / lengths + margin).to(g_)
    return (G_.T @ v + g_).to(g)


def _flat(gradients: Gradients) -> Tensor:
    return torch.cat([part.reshape(-1) for part in gradients])


def _like(gradients: Gradients, flat: Tensor) -> Gradients:
    """A flat gradient in the shapes of these."""
    parts: Iterable[Tensor] = flat.split([part.numel() for part in gradients])
    return tuple(part.view_as(shaped) for part, shaped in zip(parts, gradients, strict=True))
