"""Events: what the core reports while it learns. Plain values; no clock, no disk."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from dgdmn.core.rng import SeedStream


@dataclass(frozen=True)
class EpochDone:
    """One network has passed once over its training samples."""

    network: str
    """`generator` or `learner`."""
    epoch: int
    """Epochs done in this training, from 1."""
    epochs: int
    """Epochs this training will have."""
    samples: int
    """Samples in this epoch."""
    loss: float
    """Mean loss over the epoch."""
    memory: str = ""
    """`stm` or `ltm`; empty for an algorithm without memories."""


@dataclass(frozen=True)
class Replayed:
    """A generative memory has been trained by deep generative replay (Algorithm 1)."""

    tasks: tuple[str, ...]
    """Tasks of the new samples."""
    n_tasks: int
    """N_tasks: new samples trained on."""
    n_gen: int
    """N_gen: the memory's own dreams trained on."""
    age: int
    """Age of the memory afterwards."""
    dreamed: tuple[int, ...] = ()
    """Number of dreams of each class index."""
    memory: str = ""


@dataclass(frozen=True)
class SleepStarted:
    """The short-term memory is full, or `sleep()` was called."""

    tasks: tuple[str, ...]
    """Tasks to be consolidated."""


@dataclass(frozen=True)
class SleepEnded:
    """The long-term memory holds the tasks now; the short-term memory is empty."""

    tasks: tuple[str, ...]


Event = EpochDone | Replayed | SleepStarted | SleepEnded
Callback = Callable[[Event], None]


def ignore(event: Event) -> None:
    """A callback that does nothing."""


@dataclass(frozen=True)
class Context:
    """Random numbers and callback of one learning call. Never stored."""

    rng: SeedStream
    callback: Callback = ignore

    def in_memory(self, name: str) -> Context:
        """The same context whose events name the memory they come from."""

        def tag(event: Event) -> None:
            if isinstance(event, EpochDone | Replayed):
                event = replace(event, memory=name)
            self.callback(event)

        return Context(self.rng, tag)
