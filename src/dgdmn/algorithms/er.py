"""ER: experience replay from a reservoir, the plainest use of kept rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import torch
from torch import Tensor

from dgdmn.algorithms.base import ContinualClassifier
from dgdmn.algorithms.exemplars import Exemplars, joined, room
from dgdmn.algorithms.learnt import Memory
from dgdmn.algorithms.network import ShapedNetwork
from dgdmn.events import Listener
from dgdmn.networks.blueprint import Blueprint
from dgdmn.networks.learner import cross_entropy
from dgdmn.samples import Samples
from dgdmn.seeds import Seeds
from dgdmn.storage import State


@final
@dataclass(eq=False, repr=False, kw_only=True)
class ER(ContinualClassifier):
    """Each batch of new rows is joined by as many from a reservoir of all rows before this task.

    They are drawn with replacement; the loss is the mean over both halves together. The rows of a task
    enter the reservoir when it is learnt, so that each row ever seen is equally likely to be in it.
    """

    category: ClassVar[str] = "exemplars"
    keeps: ClassVar[str] = "weights and some rows of all so far"
    source: ClassVar[str] = "Chaudhry 2019"

    learner_epochs: int | None = None
    exemplars: int | None = None

    def _begin(self, blueprint: Blueprint, n_classes: int, seeds: Seeds) -> Memory:
        return _Replaying(blueprint, n_classes, seeds)


class _Replaying(ShapedNetwork):
    """A network, and a reservoir of what it was trained on."""

    def __init__(self, blueprint: Blueprint, n_classes: int, seeds: Seeds) -> None:
        super().__init__(blueprint, n_classes, seeds)
        self._room = room(blueprint, n_classes)
        self._reservoir: Exemplars | None = None
        self._seen = 0

    def train(self, task: str | None, new: Samples, seeds: Seeds, listen: Listener) -> None:
        """Train on new rows beside old ones, then let the new ones into the reservoir."""
        self.learner.train_with(self._loss, (new.x, new.y), seeds.next(), listen)
        rows = Exemplars.of(new)
        pool = rows if self._reservoir is None else joined(self._reservoir, rows)
        self._reservoir = pool.take(
            sampled(len(pool) - len(new), len(new), self._seen, self._room, seeds.next())
        )
        self._seen += len(new)

    def _loss(self, x: Tensor, y: Tensor, rng: torch.Generator) -> Tensor:
        if self._reservoir is not None:
            drawn = torch.randint(len(self._reservoir), (len(x),), generator=rng)
            old = self._reservoir.take(drawn).samples()
            x, y = torch.cat([x, old.x]), torch.cat([y, old.y])
        return cross_entropy(self.learner(x, rng), y, self.options.clip_probability)

    def state(self) -> State:
        """The weights, the reservoir, and how many rows passed it."""
        rows = None if self._reservoir is None else self._reservoir.state()
        return {**super().state(), "rows": rows, "seen": self._seen, "room": self._room}

    def restore(self, state: State) -> None:
        """Take back what `state` gave."""
        super().restore(state)
        self._reservoir = None if state["rows"] is None else Exemplars.restored(state["rows"])
        self._seen, self._room = state["seen"], state["room"]


def sampled(kept: int, new: int, seen: int, size: int, rng: torch.Generator) -> Tensor:
    """Which rows a reservoir of that size holds after new ones came: of `kept` and then `new`, by number.

    Algorithm R (Vitter 1985): the row that comes as number i takes slot j, drawn from 0 … i − 1, if the
    reservoir has one of that number, and is let go if not. Each of `seen` + `new` rows stays alike likely.
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
