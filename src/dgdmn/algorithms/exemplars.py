"""Exemplars: training rows that are kept, how many may be, and ER, the simplest use of them."""

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Self, final

import torch
from torch import Tensor

from dgdmn.algorithms.fitted import Memory
from dgdmn.algorithms.network import NetworkClassifier
from dgdmn.algorithms.nn import CustomizedNetwork
from dgdmn.core.batch import Batch
from dgdmn.core.errors import UsageError
from dgdmn.core.events import Context
from dgdmn.core.rng import SeedStream
from dgdmn.memory.dual import DualMemory
from dgdmn.memory.generative import DeepGenerativeMemory
from dgdmn.networks.classifier import cross_entropy
from dgdmn.networks.factory import NetworkFactory
from dgdmn.networks.layers import meta_weights
from dgdmn.storage import State, class_indices, whole

LABEL_BYTES = 4
"""A label is kept as int32."""


@dataclass(frozen=True, eq=False)
class Exemplars:
    """Rows as uint8, round(255 x), which is exact for data that came as uint8. Immutable."""

    x: Tensor
    """Inputs as uint8, shape (n, d)."""
    y: Tensor
    """Class indices as int32, shape (n,)."""

    @classmethod
    def from_batch(cls, batch: Batch) -> Self:
        """These samples as bytes."""
        return cls((batch.x * 255).round().to(torch.uint8), batch.y.to(torch.int32))

    def __len__(self) -> int:
        return len(self.x)

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        return self

    def to_batch(self) -> Batch:
        """The rows as a network trains on them: inputs in [0, 1]."""
        return Batch(self.x.float() / 255, self.y.long())

    def take(self, rows: Tensor) -> Self:
        """Some of these rows, by number or by a mask."""
        return replace(self, x=self.x[rows], y=self.y[rows])

    def first(self, n: int) -> Self:
        """Copies of the first n rows; a view would keep all rows in memory."""
        return replace(self, x=self.x[:n].clone(), y=self.y[:n].clone())

    def state(self) -> State:
        return {"x": self.x, "y": self.y}

    @classmethod
    def from_state(cls, state: State, width: int, n_classes: int) -> Self:
        """The rows that `state` returned: of this width, of some of these classes."""
        rows = cls(state["x"], class_indices(state["y"], n_classes))
        n, whole_numbers = len(rows), (torch.int32, torch.int64)
        if rows.x.dtype != torch.uint8 or rows.y.dtype not in whole_numbers or n == 0:
            raise ValueError(f"{n} exemplars of types {rows.x.dtype} and {rows.y.dtype}")
        if rows.x.shape != (n, width) or rows.y.shape != (n,):
            raise ValueError(f"exemplars of shapes {rows.x.shape} and {rows.y.shape}")
        return rows


def join(*parts: Exemplars) -> Exemplars:
    """Concatenate exemplars."""
    return Exemplars(torch.cat([part.x for part in parts]), torch.cat([part.y for part in parts]))


def exemplar_capacity(factory: NetworkFactory, n_classes: int) -> int:
    """How many rows may be kept: `exemplars`, or as many as fit the bytes of DGDMN's memory.

    DGDMN's memory is counted with our own networks and with outputs for the classes known when learning
    begins.
    """
    rows = factory.config.exemplars
    if not rows:
        ours = replace(factory, own_generator=None, own_learner=None)
        with meta_weights():
            make_memory = partial(DeepGenerativeMemory, ours)
            memory = DualMemory(make_memory, ours.config, n_classes, SeedStream(0))
            rows = memory.nbytes() // (math.prod(factory.shape) + LABEL_BYTES)
    if not rows:
        raise UsageError("exemplars is 0 and DGDMN's memory is smaller than one row; set exemplars")
    return rows


@final
@dataclass(eq=False, repr=False, kw_only=True)
class ER(NetworkClassifier):
    """Each mini-batch of new rows is joined by as many rows from a reservoir of all earlier tasks.

    They are drawn with replacement; the loss is the mean over both halves. The rows of a task enter the
    reservoir after it is learned, so that every row ever seen is equally likely to be in it.
    """

    learner_epochs: int | None = None
    exemplars: int | None = None

    def _new_memory(self, factory: NetworkFactory, n_classes: int, rng: SeedStream) -> Memory:
        return _ReservoirNetwork(factory, n_classes, rng)


class _ReservoirNetwork(CustomizedNetwork):
    """A network, and a reservoir of its training rows."""

    def __init__(self, factory: NetworkFactory, n_classes: int, rng: SeedStream) -> None:
        super().__init__(factory, n_classes, rng)
        self._capacity = exemplar_capacity(factory, n_classes)
        self._reservoir: Exemplars | None = None
        self._seen = 0

    def train(self, task: str | None, new: Batch, ctx: Context) -> None:
        """Train on new and old rows together, then add the new ones to the reservoir."""
        self.learner.train_with(self._loss, (new.x, new.y), ctx.rng.next(), ctx.callback)
        rows = Exemplars.from_batch(new)
        pool = rows if self._reservoir is None else join(self._reservoir, rows)
        kept = len(pool) - len(new)
        chosen = reservoir_rows(kept, len(new), self._seen, self._capacity, ctx.rng.next())
        self._reservoir = pool.take(chosen)
        self._seen += len(new)

    def _loss(self, x: Tensor, y: Tensor, rng: torch.Generator) -> Tensor:
        if self._reservoir is not None:
            drawn = torch.randint(len(self._reservoir), (len(x),), generator=rng)
            old = self._reservoir.take(drawn).to_batch()
            x, y = torch.cat([x, old.x]), torch.cat([y, old.y])
        return cross_entropy(self.learner(x, rng), y, self.config.clip_probability)

    def state(self) -> State:
        rows = None if self._reservoir is None else self._reservoir.state()
        return {**super().state(), "rows": rows, "seen": self._seen, "capacity": self._capacity}

    def load_tensors(self, state: State) -> None:
        super().load_tensors(state)
        rows = state["rows"]
        reservoir = rows and Exemplars.from_state(rows, self.width, self._outputs)
        self._reservoir = reservoir or None
        kept = len(self._reservoir) if self._reservoir else 0
        self._seen, self._capacity = whole(state, "seen", kept), whole(state, "capacity", 1)


def reservoir_rows(kept: int, new: int, seen: int, size: int, rng: torch.Generator) -> Tensor:
    """The rows in a reservoir of that size after new ones were added: indices into kept, then new rows.

    Algorithm R (Vitter 1985): row number i takes slot j, drawn from 0 … i − 1, if the reservoir has such a
    slot, else it is dropped. Each of the `seen` + `new` rows is kept with equal probability.
    """
    slots = list(range(kept))
    numbers = torch.arange(seen + 1, seen + new + 1)
    draws = (torch.rand(new, dtype=torch.float64, generator=rng) * numbers).long()
    for row, j in enumerate(draws.tolist(), start=kept):
        if len(slots) < size:
            slots.append(row)
        elif j < size:
            slots[j] = row
    return torch.tensor(slots)
