"""The only training loop in the project."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor, nn

from dgdmn.core.errors import DgdmnError
from dgdmn.core.events import Callback, EpochDone
from dgdmn.networks.optimizer import RMSProp

Loss = Callable[..., Tensor]
"""Takes one mini-batch of each tensor in `data`, then the random generator; returns the mean loss."""
Gradients = tuple[Tensor, ...]
Step = Callable[[RMSProp, Gradients], None]
"""Updates the parameters from their gradients; an algorithm may pass its own."""

OPTIMIZER_SETTINGS = ("learning_rate", "rho", "epsilon", "momentum", "clip_norm", "clip_value")
# A one-cycle training: the step size rises linearly to its peak, then falls along a cosine.
WARM_UP = 0.1  # share of the training in which it rises
FINAL_RATE = 0.001  # step size at the end, as a share of the peak


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
    min_steps: int = 0  # small data gets more epochs
    one_cycle: bool = False  # whether the step size rises and falls once (Smith 2018)

    def epochs_for(self, n: int) -> int:
        return max(self.epochs, math.ceil(self.min_steps / self._steps(n)))

    def rate(self, n: int, epoch: int, step: int) -> float:
        """The step size at a step of an epoch, each counted from 0, over n samples."""
        if not self.one_cycle:
            return self.learning_rate
        done = (epoch * self._steps(n) + step + 1) / (self.epochs_for(n) * self._steps(n))
        if done < WARM_UP:
            return self.learning_rate * done / WARM_UP
        falling = (1 + math.cos(math.pi * (done - WARM_UP) / (1 - WARM_UP))) / 2
        return self.learning_rate * (FINAL_RATE + (1 - FINAL_RATE) * falling)

    def _steps(self, n: int) -> int:
        return math.ceil(n / self.batch_size)


@dataclass
class TrainingState:
    """A training in progress: everything needed to continue it, and no row of its data."""

    network: nn.Module
    optimizer: RMSProp
    generator: torch.Generator
    accumulators: Sequence[Tensor] = ()  # an algorithm's own step adds to them in place

    def state(self) -> list[Tensor]:
        """Copies of the weights, the optimizer's averages, the accumulators and the random state."""
        copies = [tensor.detach().clone() for tensor in self._tensors()]
        return [*copies, self.generator.get_state()]

    @torch.no_grad()
    def load_state(self, state: Sequence[Any]) -> None:
        """Load what `state` returned, as tensors or numpy arrays."""
        for tensor, saved in zip(self._tensors(), state[:-1], strict=True):
            tensor.copy_(torch.as_tensor(saved))
        self.generator.set_state(torch.as_tensor(state[-1]).cpu())

    def _tensors(self) -> list[Tensor]:
        weights = [*self.network.parameters(), *self.network.buffers()]
        return [*weights, *self.optimizer.squares, *self.optimizer.averages, *self.accumulators]


class TrainingHook(Protocol):
    """Called at the start and after each epoch of every training, so that a run can resume inside one."""

    def begin(self, training: TrainingState) -> int:
        """Load what an earlier process reached, and return how many epochs it had done."""

    def epoch_done(self, training: TrainingState, epoch: int, epochs: int) -> None:
        """Called after each epoch, for example to save."""


_hook: ContextVar[TrainingHook | None] = ContextVar("hook", default=None)


@contextmanager
def use_hook(hook: TrainingHook) -> Iterator[None]:
    """Call the hook for every training inside this block."""
    token = _hook.set(hook)
    try:
        yield
    finally:
        _hook.reset(token)


class TrainableNetwork(nn.Module):
    """A network that knows its training schedule."""

    kind: ClassVar[str]
    """`generator` or `learner`, for events and messages."""

    def __init__(self, schedule: Schedule) -> None:
        super().__init__()
        self.schedule = schedule

    def train_with(
        self,
        loss: Loss,
        data: tuple[Tensor, ...],
        rng: torch.Generator,
        callback: Callback,
        step: Step = RMSProp.step,
        accumulators: Sequence[Tensor] = (),
    ) -> None:
        """Train with this loss, from the present weights, with a fresh optimizer.

        Rows come in a new random order each epoch; the last, partial batch is included.
        """
        schedule, n = self.schedule, len(data[0])
        settings = {name: getattr(schedule, name) for name in OPTIMIZER_SETTINGS}
        optimizer, epochs = RMSProp(list(self.parameters()), **settings), schedule.epochs_for(n)
        hook, training = _hook.get(), TrainingState(self, optimizer, rng, accumulators)
        done = hook.begin(training) if hook else 0
        self.train()
        for epoch in range(done + 1, epochs + 1):
            order = torch.randperm(n, generator=rng).to(data[0].device)
            losses = []
            for number, rows in enumerate(order.split(schedule.batch_size)):
                optimizer.learning_rate = schedule.rate(n, epoch - 1, number)
                value = loss(*[tensor.index_select(0, rows) for tensor in data], rng)
                step(optimizer, torch.autograd.grad(value, optimizer.parameters))
                losses.append(value.detach() * len(rows))
            mean = float(torch.stack(losses).sum()) / n
            if not math.isfinite(mean):
                problem = f"the {self.kind}'s loss is {mean} after epoch {epoch}"
                raise DgdmnError(f"{problem}; lower learning_rate or clip gradients")
            callback(EpochDone(self.kind, epoch, epochs, n, mean))
            if hook:
                hook.epoch_done(training, epoch, epochs)
        self.eval()

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = True
    ) -> Any:
        """Load copies of weights with the right names, shapes and types."""
        own = self.state_dict()
        for key, value in state_dict.items():
            if key in own and value.dtype != own[key].dtype:
                raise TypeError(f"{key} is {value.dtype}, not {own[key].dtype}")
        copies = {key: value.clone() for key, value in state_dict.items()}
        return super().load_state_dict(copies, strict=strict, assign=assign)


def map_batches(function: Callable[[Tensor], Tensor], x: Tensor, size: int = 2048) -> Tensor:
    """Apply a function without gradients to many rows, a bounded number at a time."""
    with torch.no_grad():
        return torch.cat([function(part) for part in x.split(size)])
