"""What an estimator has learnt: a memory, and what it takes to speak with it in the user's terms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from dgdmn.algorithms.scaling import Scaling
from dgdmn.events import Listener
from dgdmn.presets import Preset
from dgdmn.samples import Samples
from dgdmn.seeds import Seeds
from dgdmn.storage import State


class Memory(Protocol):
    """What an algorithm learns with. It may be copied at any time: that is how a call is undone."""

    def learn(self, task: str | None, new: Samples, seeds: Seeds, listen: Listener) -> None:
        """Learn one task's samples and let go of them."""

    def sleep(self, seeds: Seeds, listen: Listener) -> None:
        """Consolidate what is still held for a short term; nothing, where there is no such thing."""

    def probabilities(self, x: Tensor, task: str | None) -> Tensor:
        """Class probabilities, shape (n, outputs)."""

    def grow(self, n_classes: int) -> None:
        """There are this many classes now; `learn` follows."""

    def state(self) -> State:
        """All that was learnt, as plain values and tensors; training rows, if any are kept, under `rows`."""

    def restore(self, state: State) -> None:
        """Take back what `state` gave, into a memory begun alike."""


@dataclass
class Learnt:
    """All that an estimator has learnt; replaced as a whole when a call succeeds."""

    memory: Memory
    labels: list[Any]
    """The label of each output unit, in order of appearance."""
    scaling: Scaling
    seeds: Seeds
    shape: tuple[int, ...]
    """Shape of one input as the user gave it."""
    closed: bool
    """Whether `classes` was given, so that no other label may come."""
    outputs: int
    """Output units of the memory."""
    n_fixed: int
    """The preset's n_classes: output units fixed from the start; 0 where they grow."""
    options: Preset
    """What it learns with: the preset's values when it began, whatever the preset's name comes to mean."""
    warned: bool = False
    """Whether clipping was warned of."""

    def sorted_labels(self) -> tuple[NDArray[Any], NDArray[np.intp]]:
        """`classes_`, and the output unit of each."""
        classes, units = np.unique(np.asarray(self.labels), return_index=True)
        return classes, units

    def named(self, outputs: Tensor) -> NDArray[np.float64]:
        """Outputs of a learner as probabilities of the sorted classes; units without a label have no say."""
        known = outputs.double().cpu().numpy()[:, self.sorted_labels()[1]]
        total = known.sum(axis=1, keepdims=True)
        return np.where(total > 0, known / np.where(total > 0, total, 1), 1 / known.shape[1])
