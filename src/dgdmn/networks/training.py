"""The only mini-batch loop in the project."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor, nn

from dgdmn.errors import DgdmnError
from dgdmn.events import EpochDone, Listener
from dgdmn.networks.rmsprop import RMSProp

Loss = Callable[..., Tensor]
"""Takes one batch of each tensor in `data`, then the random generator; returns the mean loss."""
Gradients = tuple[Tensor, ...]
Step = Callable[[RMSProp, Gradients], None]
"""Moves the parameters by their gradients; an algorithm may give one that watches or bends them."""


@dataclass(frozen=True)
class Schedule:
    """How one network is trained (appendix B, "Training algorithm and its parameters")."""

    epochs: int
    batch_size: int = 128
    learning_rate: float = 0.001
    rho: float = 0.9
    epsilon: float = 1e-8
    momentum: float = 0.0
    clip_norm: float = 0.0
    clip_value: float = 0.0
    min_steps: int = 0
    """At least this many steps, by more epochs."""
    cycle: bool = False
    """Whether the step size rises and falls once in a training (Smith 2018), to allow a larger one."""

    def epochs_for(self, n: int) -> int:
        """Epochs over n samples."""
        return max(self.epochs, math.ceil(self.min_steps / self._steps(n)))

    def rate(self, n: int, epoch: int, step: int) -> float:
        """The step size at a step of an epoch, each counted from 0, over n samples."""
        if not self.cycle:
            return self.learning_rate
        done = (epoch * self._steps(n) + step + 1) / (self.epochs_for(n) * self._steps(n))
        if done < _RISE:
            return self.learning_rate * done / _RISE
        return self.learning_rate * (
            _END + (1 - _END) * (1 + math.cos(math.pi * (done - _RISE) / (1 - _RISE))) / 2
        )

    def _steps(self, n: int) -> int:
        return math.ceil(n / self.batch_size)


_RISE = 0.1
"""Share of a training in which a cycled step size rises to its peak; then it falls as a cosine does."""
_END = 0.001
"""Where it ends, as a share of the peak."""


@dataclass
class Training:
    """A training under way: all it takes to go on with it, and never a row of what it trains on."""

    network: nn.Module
    optimiser: RMSProp
    generator: torch.Generator
    also: Sequence[Tensor] = ()
    """What a step of the algorithm's own adds to in place."""

    def state(self) -> list[Tensor]:
        """Copies of the weights, the optimiser's averages, the random state and whatever else."""
        return [tensor.detach().clone() for tensor in self._tensors()] + [self.generator.get_state()]

    @torch.no_grad()
    def restore(self, state: Sequence[Tensor]) -> None:
        """Take back what `state` gave."""
        for tensor, saved in zip(self._tensors(), state[:-1], strict=True):
            tensor.copy_(saved)
        self.generator.set_state(state[-1].cpu())

    def _tensors(self) -> list[Tensor]:
        optimiser = [*self.optimiser.squares, *self.optimiser.averages]
        return [*self.network.parameters(), *self.network.buffers(), *optimiser, *self.also]


class Keeper(Protocol):
    """Looks after trainings, so that a run can be killed and go on."""

    def begin(self, training: Training) -> int:
        """How many epochs of this training were done before, in a process that is gone; restores their end."""

    def epoch_done(self, training: Training, epoch: int, epochs: int) -> None:
        """An epoch has ended: a good moment to save."""


_keeper: ContextVar[Keeper | None] = ContextVar("keeper", default=None)


@contextmanager
def kept_by(keeper: Keeper) -> Iterator[None]:
    """Let a keeper look after every training meanwhile."""
    token = _keeper.set(keeper)
    try:
        yield
    finally:
        _keeper.reset(token)


def train(
    network: nn.Module,
    loss: Loss,
    data: tuple[Tensor, ...],
    schedule: Schedule,
    *,
    generator: torch.Generator,
    name: str,
    listen: Listener,
    squares: list[Tensor] | None = None,
    step: Step = RMSProp.step,
    also: Sequence[Tensor] = (),
) -> list[Tensor]:
    """Train a network in place on data in memory; returns the optimiser's running squares.

    Rows are visited in a new random order each epoch, the last, partial batch included. `also` are tensors
    that the step adds to in place.
    """
    n = len(data[0])
    optimiser = RMSProp(
        network.parameters(),
        learning_rate=schedule.learning_rate,
        rho=schedule.rho,
        epsilon=schedule.epsilon,
        momentum=schedule.momentum,
        clip_norm=schedule.clip_norm,
        clip_value=schedule.clip_value,
        squares=squares,
    )
    epochs = schedule.epochs_for(n)
    keeper, training = _keeper.get(), Training(network, optimiser, generator, also)
    done = keeper.begin(training) if keeper else 0
    network.train()
    for epoch in range(done + 1, epochs + 1):
        order = torch.randperm(n, generator=generator).to(data[0].device)
        losses = []
        for number, rows in enumerate(order.split(schedule.batch_size)):
            optimiser.learning_rate = schedule.rate(n, epoch - 1, number)
            value = loss(*[tensor.index_select(0, rows) for tensor in data], generator)
            step(optimiser, torch.autograd.grad(value, optimiser.parameters))
            losses.append(value.detach() * len(rows))
        mean = float(torch.stack(losses).sum()) / n
        if not math.isfinite(mean):
            raise DgdmnError(
                f"the {name}'s loss is {mean} after epoch {epoch}: lower learning_rate or clip gradients"
            )
        listen(EpochDone(name, epoch, epochs, n, mean))
        if keeper:
            keeper.epoch_done(training, epoch, epochs)
    network.eval()
    return optimiser.squares


class TrainedNetwork(nn.Module):
    """A network that knows its schedule, and keeps the optimiser's running squares where asked to."""

    kind: ClassVar[str]
    """`generator` or `learner`, for events and messages."""

    def __init__(self, schedule: Schedule, *, keep_optimiser: bool) -> None:
        super().__init__()
        self.schedule = schedule
        self.keep_optimiser = keep_optimiser
        self.squares: list[Tensor] | None = None

    def train_with(
        self,
        loss: Loss,
        data: tuple[Tensor, ...],
        rng: torch.Generator,
        listen: Listener,
        step: Step = RMSProp.step,
        also: Sequence[Tensor] = (),
    ) -> None:
        """Train by this loss, going on from the present weights."""
        squares = train(self, loss, data, self.schedule, generator=rng, name=self.kind, listen=listen,
                        squares=self.squares, step=step, also=also)  # fmt: skip
        self.squares = squares if self.keep_optimiser else None

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = True) -> Any:
        """Take weights of the right names, shapes and types, each as a copy of its own."""
        own = self.state_dict()
        for key, value in state_dict.items():
            if key in own and value.dtype != own[key].dtype:
                raise TypeError(f"{key} is of {value.dtype}, not {own[key].dtype}")
        copies = {key: value.clone() for key, value in state_dict.items()}
        return super().load_state_dict(copies, strict=strict, assign=assign)

    def get_extra_state(self) -> Tensor:
        """The running squares as one row: `state_dict` is then all there is to save."""
        return torch.cat([part.flatten() for part in self.squares or [torch.zeros(0)]])

    def set_extra_state(self, state: Tensor) -> None:
        """Take the running squares back."""
        shapes = [parameter.shape for parameter in self.parameters()]
        if len(state):
            parts = state.split([shape.numel() for shape in shapes])
            self.squares = [part.reshape(shape).clone() for part, shape in zip(parts, shapes, strict=True)]


def in_batches(function: Callable[[Tensor], Tensor], x: Tensor, size: int = 2048) -> Tensor:
    """Apply a function without gradients to many rows, a bounded number at a time."""
    with torch.no_grad():
        return torch.cat([function(part) for part in x.split(size)])
