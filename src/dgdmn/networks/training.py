"""The only mini-batch loop in the project."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from dgdmn.errors import DgdmnError
from dgdmn.events import EpochDone, Listener
from dgdmn.networks.rmsprop import RMSProp

Loss = Callable[..., Tensor]
"""Takes one batch of each tensor in `data`, then the random generator; returns the mean loss."""


@dataclass(frozen=True)
class Schedule:
    """How one network is trained (appendix B, "Training algorithm and its parameters")."""

    epochs: int
    batch_size: int = 128
    learning_rate: float = 0.001
    rho: float = 0.9
    epsilon: float = 1e-8
    clip_norm: float = 0.0
    clip_value: float = 0.0
    min_steps: int = 0
    """At least this many steps, by more epochs."""

    def epochs_for(self, n: int) -> int:
        """Epochs over n samples."""
        return max(self.epochs, math.ceil(self.min_steps / math.ceil(n / self.batch_size)))


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
) -> list[Tensor]:
    """Train a network in place on data in memory; returns the optimiser's running squares.

    Rows are visited in a new random order each epoch, the last, partial batch included.
    """
    n = len(data[0])
    optimiser = RMSProp(
        network.parameters(),
        learning_rate=schedule.learning_rate,
        rho=schedule.rho,
        epsilon=schedule.epsilon,
        clip_norm=schedule.clip_norm,
        clip_value=schedule.clip_value,
        squares=squares,
    )
    epochs = schedule.epochs_for(n)
    network.train()
    for epoch in range(1, epochs + 1):
        order = torch.randperm(n, generator=generator).to(data[0].device)
        losses = []
        for rows in order.split(schedule.batch_size):
            value = loss(*[tensor.index_select(0, rows) for tensor in data], generator)
            optimiser.step(torch.autograd.grad(value, optimiser.parameters))
            losses.append(value.detach() * len(rows))
        mean = float(torch.stack(losses).sum()) / n
        if not math.isfinite(mean):
            raise DgdmnError(
                f"the {name}'s loss is {mean} after epoch {epoch}: lower learning_rate or clip gradients"
            )
        listen(EpochDone(name, epoch, epochs, n, mean))
    network.eval()
    return optimiser.squares


def in_batches(function: Callable[[Tensor], Tensor], x: Tensor, size: int = 2048) -> Tensor:
    """Apply a function without gradients to many rows, a bounded number at a time."""
    with torch.no_grad():
        return torch.cat([function(part) for part in x.split(size)])
