"""What the silent core tells whoever listens: plain values, no clock, no disk."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace


@dataclass(frozen=True)
class EpochDone:
    """One pass of one network over its training samples has ended."""

    network: str
    """`generator` or `learner`."""
    epoch: int
    """How many epochs of this training are done, from 1."""
    epochs: int
    """How many it will have."""
    samples: int
    """Samples trained on in this epoch."""
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
    """N_gen: own dreams trained on."""
    age: int
    """Age of the memory afterwards."""
    dreamt: tuple[int, ...] = field(default=())
    """How many of the dreams carried each class index: class balance of replay."""
    memory: str = ""


@dataclass(frozen=True)
class SleepBegan:
    """The short-term memory is full, or `sleep()` was called."""

    tasks: tuple[str, ...]
    """Tasks about to be consolidated."""
    dreams: int
    """Samples the short-term memory dreamt of them."""


@dataclass(frozen=True)
class SleepEnded:
    """The long-term memory holds the tasks now, the short-term memory is empty."""

    tasks: tuple[str, ...]


Event = EpochDone | Replayed | SleepBegan | SleepEnded
Listener = Callable[[Event], None]


def ignore(event: Event) -> None:
    """Listen to nothing."""


def heard_in(memory: str, listen: Listener) -> Listener:
    """Tell the listener in which memory a training happens."""

    def tell(event: Event) -> None:
        listen(replace(event, memory=memory) if isinstance(event, EpochDone | Replayed) else event)

    return tell
