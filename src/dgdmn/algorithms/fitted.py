"""What an estimator has learned: a memory, and how to translate between it and the user's labels."""

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from dgdmn.algorithms.checks import (
    Array,
    check_labels,
    check_new_names,
    check_same_kind,
    to_plain,
)
from dgdmn.config import Config
from dgdmn.core.batch import Batch
from dgdmn.core.errors import DgdmnError, UsageError
from dgdmn.core.events import Context
from dgdmn.core.rng import SeedStream
from dgdmn.core.text import join_names
from dgdmn.memory.task_log import TaskInfo
from dgdmn.storage import State, bytes_in


class Inputs(Protocol):
    """Translates a user's inputs for a memory: `Scaling` to [0, 1], or a `FrontEnd` to features."""

    @property
    def given(self) -> bool:
        """Whether the user gave a range of values."""

    def apply(self, X: Array) -> Array:
        """Inputs as the memory sees them, one flat row per sample."""

    def apply_unclipped(self, X: Array) -> Array:
        """The same without clipping values outside the range."""

    def invert(self, rows: Array, shape: tuple[int, ...]) -> NDArray[np.float32]:
        """What a memory generates, in the user's shape and range."""

    def raw(self, X: Array) -> Array | None:
        """Flat inputs for a memory that learns to decode features; None where none does."""

    def clips(self, X: Array) -> bool:
        """Whether some value lies outside the range."""

    def state(self) -> State:
        """What is saved of it, as plain values and arrays."""


class Memory(Protocol):
    """What an algorithm learns with.

    `copy.copy(memory)` is a snapshot: methods replace attributes and never modify what a snapshot shares.
    That is how a failed call is undone without copying everything.
    """

    def learn(self, task: str | None, new: Batch, ctx: Context) -> None:
        """Learn one task's samples and keep no reference to them."""

    def sleep(self, ctx: Context) -> None:
        """Consolidate the short-term memory, if there is one."""

    def predict_proba(self, x: Array, task: str | None) -> Array:
        """Class probabilities, shape (n, outputs)."""

    def grow(self, n_classes: int) -> None:
        """From now on there are this many classes; `learn` follows."""

    def state(self) -> State:
        """All that was learned, as plain values and arrays; kept training rows are under `rows`."""

    def load_state(self, state: State) -> None:
        """Load what `state` returned, into a memory made the same way."""


@dataclass
class FittedState:
    """All that an estimator has learned; replaced as a whole when a call succeeds."""

    memory: Memory
    labels: list[Any]
    """The label of each output unit, in order of appearance."""
    inputs: Inputs
    rng: SeedStream
    shape: tuple[int, ...]
    """Shape of one input as the user gave it."""
    closed: bool
    """Whether `classes` was given, so that no other label may come."""
    outputs: int
    """Output units of the memory."""
    config: Config
    """The options it learns with, resolved when it began."""
    warned: bool = False
    """Whether the user was warned about clipped values."""
    priors: dict[Any, float] = field(default_factory=dict)
    """Weights of labels that the user gave; other labels weigh 1."""

    def snapshot(self) -> Self:
        """A copy to learn with: it shares what learning replaces, and copies what learning changes."""
        memory, rng = copy.copy(self.memory), replace(self.rng)
        return replace(self, memory=memory, labels=list(self.labels), rng=rng)

    def feature_bytes(self) -> int:
        """Bytes that a front end keeps: the frozen scale of a table, and a fingerprint."""
        return bytes_in(self.inputs.state().get("features"))

    def index_of(self, label: Any) -> int:
        """The class index of a label."""
        if label not in self.labels:
            raise UsageError(f"no label {label!r}; there are {join_names(map(repr, self.labels))}")
        return self.labels.index(label)

    def rename_labels(self, names: Mapping[Any, Any]) -> None:
        """Give labels new names, {old: new}."""
        names = {to_plain(old): to_plain(new) for old, new in names.items()}
        check_new_names("label", self.labels, names)
        for old, new in names.items():
            check_same_kind(f"label {new!r}", new, old)
        self.labels = [names.get(label, label) for label in self.labels]
        check_labels(self.labels)
        self.priors = {names.get(label, label): one for label, one in self.priors.items()}

    def sorted_labels(self) -> tuple[Array, NDArray[np.intp]]:
        """`classes_`, and the output unit of each."""
        classes, units = np.unique(np.asarray(self.labels), return_index=True)
        return classes, units

    def class_probabilities(self, outputs: Array) -> NDArray[np.float64]:
        """Outputs as probabilities of the sorted classes; units without a label are dropped."""
        known = outputs.astype(np.float64)[:, self.sorted_labels()[1]]
        if not np.isfinite(known).all():
            reason = "the weights are too large or damaged"
            raise DgdmnError(f"predicted probabilities are not finite: {reason}")
        total = known.sum(axis=1, keepdims=True)
        return np.where(total > 0, known / np.where(total > 0, total, 1), 1 / known.shape[1])


@dataclass(frozen=True)
class EstimatorInfo:
    """What a fitted estimator knows, for people and programs that show it."""

    algorithm: str
    """Its name in the registry."""
    title: str
    config: Config
    shape: tuple[int, ...]
    labels: tuple[Any, ...]
    """In order of appearance."""
    memory_bytes: int
    exemplar_bytes: int
    generative: bool = False
    """Whether it sleeps, samples and reconstructs."""
    short_term: bool = False
    """Whether it has a short-term memory."""
    by_task_name: bool = False
    """Whether the name of a task chooses the memory that answers."""
    consolidated: dict[str, TaskInfo] = field(default_factory=dict)
    """Tasks in the long-term memory."""
    awake: dict[str, TaskInfo] = field(default_factory=dict)
    """Tasks in the short-term memory."""
    awake_rows: dict[str, int] = field(default_factory=dict)
    """Samples seen of each task in the short-term memory."""
    awake_codes: dict[str, int] = field(default_factory=dict)
    """Codes kept of each task in the short-term memory."""
    age: int = 0
    """Samples the long-term memory has seen."""
    chosen: dict[str, float] = field(default_factory=dict)
    """Settings that held-out rows chose while it learned."""
