"""iCaRL: a representation learnt with distillation, and the nearest mean of exemplars."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import torch
import torch.nn.functional as F
from torch import Tensor

from dgdmn.algorithms.base import ContinualClassifier
from dgdmn.algorithms.exemplars import Exemplars, joined, room
from dgdmn.algorithms.learnt import Memory
from dgdmn.algorithms.network import ShapedNetwork
from dgdmn.errors import UsageError
from dgdmn.events import Listener
from dgdmn.networks.blueprint import Blueprint
from dgdmn.networks.training import in_batches
from dgdmn.samples import Samples, concat
from dgdmn.seeds import Seeds
from dgdmn.storage import State


@final
@dataclass(eq=False, repr=False, kw_only=True)
class ICaRL(ContinualClassifier):
    """The classes met share the room for exemplars evenly; a row belongs to the class whose mean is nearest.

    Features are those of the last hidden layer at length 1. `predict_proba` is a softmax over negative
    distances to the means, ours: the paper only says which is nearest. The exemplars of a class met
    again are chosen anew from those kept and the rows that came.
    """

    category: ClassVar[str] = "exemplars"
    keeps: ClassVar[str] = "weights and some rows of each class"
    source: ClassVar[str] = "Rebuffi 2017"

    learner_epochs: int | None = None
    exemplars: int | None = None

    def _begin(self, blueprint: Blueprint, n_classes: int, seeds: Seeds) -> Memory:
        return _NearestMean(blueprint, n_classes, seeds)


class _NearestMean(ShapedNetwork):
    """A network that makes features, and exemplars whose means classify them."""

    def __init__(self, blueprint: Blueprint, n_classes: int, seeds: Seeds) -> None:
        super().__init__(blueprint, n_classes, seeds)
        self._room = room(blueprint, n_classes)  # K
        self._classes: dict[int, Exemplars] = {}  # P_y, the most telling first
        self._check_room(n_classes)

    def train(self, task: str | None, new: Samples, seeds: Seeds, listen: Listener) -> None:
        """Learn the classes of a task (algorithm 2)."""
        self._update_representation(new, seeds, listen)
        met = self._classes.keys() | new.classes()
        m = self._room // len(met)
        reduced = {y: rows.first(m) for y, rows in self._classes.items()}  # algorithm 5
        self._classes = {**reduced, **self._construct(new, m)}

    def _update_representation(self, new: Samples, seeds: Seeds, listen: Listener) -> None:
        """Train on new rows and exemplars by the cross-entropy of one sigmoid a class (algorithm 3).

        Targets are the labels for classes of this task, and for the others met what the network answers
        before it learns. Summed over classes, mean over rows. Classes not met yet have no say.
        """
        rows = concat(new, *[kept.samples() for kept in self._classes.values()])
        current = sorted(new.classes())
        met = sorted(self._classes.keys() | new.classes())
        targets = in_batches(self.learner, rows.x).sigmoid()  # q
        targets[:, current] = F.one_hot(rows.y, self._outputs)[:, current].to(targets)

        def loss(x: Tensor, q: Tensor, rng: torch.Generator) -> Tensor:
            logits = self.learner(x, rng)[:, met]
            return F.binary_cross_entropy_with_logits(logits, q, reduction="sum") / len(x)

        self.learner.train_with(loss, (rows.x, targets[:, met]), seeds.next(), listen)

    def _construct(self, new: Samples, m: int) -> dict[int, Exemplars]:
        """At most m exemplars of each class of a task (algorithm 4)."""
        rows, chosen = Exemplars.of(new), {}
        for y in sorted(new.classes()):
            known = [self._classes[y]] if y in self._classes else []
            pool = joined(*known, rows.take(rows.y == y))
            chosen[y] = pool.take(herding(self._features(pool.samples().x), m))
        return chosen

    def _features(self, x: Tensor) -> Tensor:
        """φ(x) at length 1."""
        return F.normalize(self.learner.features(x))

    def probabilities(self, x: Tensor, task: str | None) -> Tensor:
        """Softmax over negative distances to the means of exemplars (algorithm 1); 0 for a class not met."""
        if not self._classes:
            return super().probabilities(x, task)
        means = [self._features(rows.samples().x).mean(dim=0) for rows in self._classes.values()]
        distances = torch.cdist(
            self._features(x),
            F.normalize(torch.stack(means)),
            compute_mode="donot_use_mm_for_euclid_dist",  # whose answers depend on the rows beside
        )
        answers = distances.new_zeros(len(x), self._outputs)
        answers[:, list(self._classes)] = F.softmax(-distances, dim=1)
        return answers

    def grow(self, n_classes: int) -> None:
        """There are more classes now; each needs an exemplar."""
        self._check_room(n_classes)
        super().grow(n_classes)

    def _check_room(self, n_classes: int) -> None:
        if n_classes > self._room:
            raise UsageError(
                f"exemplars is {self._room}, too few for a row of each of {n_classes} classes; raise it"
            )

    def state(self) -> State:
        """The weights, and the exemplars of each class in order."""
        rows = [kept.state() for kept in self._classes.values()]
        return {**super().state(), "rows": rows, "room": self._room}

    def restore(self, state: State) -> None:
        """Take back what `state` gave."""
        super().restore(state)
        self._classes = {int(kept["y"][0]): Exemplars.restored(kept) for kept in state["rows"]}
        self._room = state["room"]


def herding(features: Tensor, m: int) -> Tensor:
    """Which m rows have together the mean nearest to that of all, the most telling first (algorithm 4).

    Every mean is brought to length 1 as the features are. No row is chosen twice.
    """
    mu = F.normalize(features.mean(dim=0), dim=0)
    total, taken, chosen = torch.zeros_like(mu), torch.zeros_like(features[:, 0]), []
    for _ in range(min(m, len(features))):
        distances = (mu - F.normalize(total + features)).norm(dim=1)  # ‖μ − 1/k (φ(x) + Σ_j<k φ(p_j))‖
        p = int((distances + taken).argmin())
        total, taken[p] = total + features[p], torch.inf
        chosen.append(p)
    return torch.tensor(chosen)
