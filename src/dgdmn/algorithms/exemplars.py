"""Exemplars: training rows that are kept, how many may be, and ER, the simplest use of them."""

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Self, final

import torch
from torch import Tensor

from dgdmn.algorithms.nn import CustomizedNetwork, OneNetworkClassifier
from dgdmn.core.batch import Batch, concat
from dgdmn.core.errors import UsageError
from dgdmn.core.events import Context
from dgdmn.core.rng import SeedStream
from dgdmn.memory.dual import DualMemory
from dgdmn.memory.generative import DeepGenerativeMemory
from dgdmn.networks.factory import NetworkFactory
from dgdmn.networks.layers import meta_weights
from dgdmn.storage import State, check_class_indices, get_int

LABEL_BYTES = 4  # a label is kept as int32


class Exemplars(Batch):
    """Inputs as uint8, round(255 x), which is exact for data that came as uint8; labels as int32."""

    @classmethod
    def from_batch(cls, batch: Batch) -> Self:
        """These samples as bytes."""
        return cls((batch.x * 255).round().to(torch.uint8), batch.y.to(torch.int32))

    def to_batch(self) -> Batch:
        """The rows as a network trains on them: inputs in [0, 1]."""
        return Batch(self.x.float() / 255, self.y.long())

    def first(self, n: int) -> Self:
        """Copies of the first n rows; a view would keep all rows in memory."""
        return type(self)(self.x[:n].clone(), self.y[:n].clone())

    def state(self) -> State:
        return {"x": self.x, "y": self.y}

    @classmethod
    def from_state(cls, state: State, width: int, n_classes: int) -> Self:
        """The rows that `state` returned: of this width, of some of these classes."""
        rows = cls(state["x"], check_class_indices(state["y"], n_classes))
        n, x, y = len(rows), rows.x, rows.y
        right_types = x.dtype == torch.uint8 and y.dtype in (torch.int32, torch.int64)
        if not right_types or n == 0 or x.shape != (n, width) or y.shape != (n,):
            raise ValueError(f"exemplars are {x.dtype} of {x.shape}, labels {y.dtype} of {y.shape}")
        return rows


def exemplar_capacity(factory: NetworkFactory, n_classes: int) -> int:
    """How many rows may be kept: `exemplars`, or as many as fit the bytes of DGDMN's memory.

    DGDMN's memory is counted with our own networks and with outputs for the classes known when learning
    begins.
    """
    config, row_bytes = factory.config, math.prod(factory.shape) + LABEL_BYTES
    if config.exemplars:
        return config.exemplars
    if config.generator == "mixture":
        return config.memory_budget // row_bytes
    ours = replace(factory, own_generator=None, own_learner=None)
    with meta_weights():
        memory = DualMemory(partial(DeepGenerativeMemory, ours), config, n_classes, SeedStream(0))
        rows = memory.nbytes() // row_bytes
    if not rows:
        raise UsageError("exemplars is 0 and DGDMN's memory is smaller than one row; set exemplars")
    return rows


class ExemplarNetwork(CustomizedNetwork):
    """A network that keeps some training rows."""

    def __init__(self, factory: NetworkFactory, n_classes: int, rng: SeedStream) -> None:
        super().__init__(factory, n_classes, rng)
        self.capacity = exemplar_capacity(factory, n_classes)

    def check_capacity(self, n: int, what: str) -> None:
        """Refuse more classes or tasks than rows."""
        if n > self.capacity:
            problem = f"too few for one row of each of {n} {what}"
            raise UsageError(f"exemplars is {self.capacity}, {problem}; raise it")

    def state(self) -> State:
        return {**super().state(), "capacity": self.capacity}

    def load_tensors(self, state: State) -> None:
        super().load_tensors(state)
        self.capacity = get_int(state, "capacity", 1)

    def load_rows(self, state: State) -> Exemplars:
        """The rows of a state; they must fit the network."""
        return Exemplars.from_state(state, self.width, self._outputs)


class _ReservoirNetwork(ExemplarNetwork):
    """A network, and a reservoir of its training rows."""

    _reservoir: Exemplars | None = None
    _seen = 0

    def train(self, task: str | None, new: Batch, ctx: Context) -> None:
        """Train on new and old rows together, then add the new ones to the reservoir."""
        self.learner.train_with(self._loss, (new.x, new.y), ctx.rng.next(), ctx.callback)
        rows = Exemplars.from_batch(new)
        kept = len(self._reservoir or ())
        pool = concat(self._reservoir, rows) if self._reservoir else rows
        chosen = reservoir_rows(kept, len(new), self._seen, self.capacity, ctx.rng.next())
        self._reservoir = pool[chosen]
        self._seen += len(new)

    def _loss(self, x: Tensor, y: Tensor, rng: torch.Generator) -> Tensor:
        if self._reservoir is not None:
            drawn = torch.randint(len(self._reservoir), (len(x),), generator=rng)
            old = self._reservoir[drawn].to_batch()
            x, y = torch.cat([x, old.x]), torch.cat([y, old.y])
        return self.cross_entropy(x, y, rng)

    def state(self) -> State:
        rows = None if self._reservoir is None else self._reservoir.state()
        return {**super().state(), "rows": rows, "seen": self._seen}

    def load_tensors(self, state: State) -> None:
        super().load_tensors(state)
        self._reservoir = self.load_rows(state["rows"]) if state["rows"] else None
        self._seen = get_int(state, "seen", len(self._reservoir or ()))


@final
@dataclass(eq=False, repr=False, kw_only=True)
class ER(OneNetworkClassifier):
    """Each mini-batch of new rows is joined by as many rows from a reservoir of all earlier tasks.

    They are drawn with replacement; the loss is the mean over both halves. The rows of a task enter the
    reservoir after it is learned, so that every row ever seen is equally likely to be in it.
    """

    memory_class = _ReservoirNetwork
    exemplars: int | None = None


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
