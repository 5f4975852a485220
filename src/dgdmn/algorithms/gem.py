"""GEM: gradient episodic memory. No step may raise the loss on rows kept of another task."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from scipy.optimize import nnls
from torch import Tensor
from torch.autograd import grad

from dgdmn.algorithms.exemplars import ExemplarNetwork, Exemplars
from dgdmn.algorithms.nn import OneNetworkClassifier
from dgdmn.core.batch import Batch, concat
from dgdmn.core.events import Context
from dgdmn.core.rng import SeedStream
from dgdmn.memory.task_log import new_task_name
from dgdmn.networks.factory import NetworkFactory
from dgdmn.networks.optimizer import RMSProp
from dgdmn.networks.train import Gradients
from dgdmn.storage import State, get_typed

_RIDGE = 1e-6


class _EpisodicNetwork(ExemplarNetwork):
    """A network, and rows of each task that constrain its gradients."""

    def __init__(self, factory: NetworkFactory, n_classes: int, rng: SeedStream) -> None:
        super().__init__(factory, n_classes, rng)
        self._tasks: dict[str, Exemplars] = {}  # M_k, each in random order

    def train(self, task: str | None, new: Batch, ctx: Context) -> None:
        """Learn a task (algorithm 1), then keep rows of it."""
        task = new_task_name(self._tasks.keys()) if task is None else task
        n_tasks = len(self._tasks.keys() | {task})
        self.check_capacity(n_tasks, "tasks")
        past = [rows.to_batch() for name, rows in self._tasks.items() if name != task]

        def step(optimizer: RMSProp, gradients: Gradients) -> None:
            g = _flat(gradients)
            losses = (self.cross_entropy(rows.x, rows.y, None) for rows in past)
            G = torch.stack([_flat(grad(loss, optimizer.parameters)) for loss in losses])
            projected = project(g, G, self.config.gem_margin)
            if projected is not g:
                parts = projected.split([part.numel() for part in gradients])
                shaped = zip(parts, gradients, strict=True)
                gradients = tuple(part.view_as(gradient) for part, gradient in shaped)
            optimizer.step(gradients)

        data, own_step = (new.x, new.y), step if past else RMSProp.step
        self.learner.train_with(self.cross_entropy, data, ctx.rng.next(), ctx.callback, own_step)
        known = [self._tasks[task]] if task in self._tasks else []
        pool = concat(*known, Exemplars.from_batch(new))
        shuffled = pool.subsample(len(pool), ctx.rng.next())
        tasks = {**self._tasks, task: shuffled}
        self._tasks = {name: rows.first(self.capacity // n_tasks) for name, rows in tasks.items()}

    @property
    def tasks(self) -> tuple[str, ...]:
        """The tasks it keeps rows of."""
        return tuple(self._tasks)

    def rename_tasks(self, names: Mapping[str, str]) -> None:
        self._tasks = {names.get(task, task): rows for task, rows in self._tasks.items()}

    def state(self) -> State:
        rows = [{"task": task, **kept.state()} for task, kept in self._tasks.items()]
        return {**super().state(), "rows": rows}

    def load_tensors(self, state: State) -> None:
        super().load_tensors(state)
        self._tasks = {get_typed(kept, "task", str): self.load_rows(kept) for kept in state["rows"]}


@final
@dataclass(eq=False, repr=False, kw_only=True)
class GEM(OneNetworkClassifier):
    """Projects each gradient so that it does not raise the loss on the rows kept of another task.

    The tasks share the exemplars evenly: M / t rows each after t tasks. The paper keeps a task's last rows;
    ours are drawn at random, because the rows of a task may come sorted. A task that comes again does not constrain
    itself, and its rows are drawn again from old and new ones. Without a name every call is a new task. The
    paper uses plain gradient descent; here the projected gradient goes through RMSProp.
    """

    memory_class = _EpisodicNetwork
    exemplars: int | None = None
    gem_margin: float | None = None


def project(g: Tensor, G: Tensor, margin: float) -> Tensor:
    """The gradient near g without a negative product with any row of G, shape (t, p).

    Returns g if it has none, otherwise g̃ = Gᵀv + g by the dual program of section 3. Without a margin γ
    it is the nearest such gradient; with one it moves further towards every task.

        min_v ½ vᵀGGᵀv + gᵀGᵀv,  v ≥ γ     =     min_u ½ ‖Gᵀ(u + γ) + g‖²,  u ≥ 0

    which is non-negative least squares. QR reduces its p rows to t + 1: [Gᵀ g] = QR, and Q keeps norms.
    Columns are scaled to length 1 and get a small ridge (ours): with dependent gradients `nnls` alone may
    stop early.
    """
    g_, G_ = g.double(), G.double()
    products = G_ @ g_
    if bool((products >= 0).all()) or not bool(products.isfinite().all()):
        return g  # a diverging training is reported by its loss
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
