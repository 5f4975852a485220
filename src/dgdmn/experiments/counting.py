"""Networks that only count: stand-ins with which an algorithm tells beforehand what it will train."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from dgdmn.events import EpochDone, Listener
from dgdmn.networks.generator import Role
from dgdmn.networks.rmsprop import RMSProp
from dgdmn.networks.training import Loss, Schedule, Step
from dgdmn.samples import Samples


class _Counting:
    """Trains nothing and says what it would have trained."""

    network: str

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule

    def _count(self, n: int, listen: Listener) -> None:
        epochs = self._schedule.epochs_for(n)
        for epoch in range(1, epochs + 1):
            listen(EpochDone(self.network, epoch, epochs, n, math.nan))

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        pass


class CountingGenerator(_Counting):
    """Dreams inputs without content; its codes have none either."""

    network = "generator"
    latent = 1

    def fit(self, x: Tensor, rng: torch.Generator, listen: Listener) -> None:
        self._count(len(x), listen)

    def sample(self, n: int, rng: torch.Generator) -> Tensor:
        return torch.zeros(n, 1)

    def reconstruct(self, x: Tensor) -> Tensor:
        return x

    def reconstruction_loss(self, x: Tensor) -> Tensor:
        return torch.zeros(len(x))

    def posterior(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return torch.zeros(len(x), 1), torch.zeros(len(x), 1)

    def decoded(self, z: Tensor) -> Tensor:
        return torch.zeros(len(z), 1)


class CountingLearner(_Counting):
    """Answers nothing."""

    network = "learner"

    def __init__(
        self,
        schedule: Schedule,
        shape: tuple[int, ...],
        n_classes: int,
        role: Role,
        rng: torch.Generator,
    ) -> None:
        super().__init__(schedule)
        self._n_classes = n_classes

    def fit(self, samples: Samples, rng: torch.Generator, listen: Listener) -> None:
        self._count(len(samples), listen)

    def train_with(
        self,
        loss: Loss,
        data: tuple[Tensor, ...],
        rng: torch.Generator,
        listen: Listener,
        step: Step = RMSProp.step,
        also: Sequence[Tensor] = (),
    ) -> None:
        self._count(len(data[0]), listen)

    def __call__(self, x: Tensor, rng: torch.Generator | None = None) -> Tensor:
        return torch.zeros(len(x), self._n_classes)

    def features(self, x: Tensor) -> Tensor:
        return torch.zeros(len(x), 1)

    def parameters(self) -> Iterator[nn.Parameter]:
        return iter(())

    def probabilities(self, x: Tensor) -> Tensor:
        return torch.zeros(len(x), self._n_classes)

    def grow(self, n_classes: int, rng: torch.Generator) -> None:
        self._n_classes = n_classes
