"""iCaRL: a representation learned with distillation, and the nearest mean of exemplars."""

from dataclasses import dataclass
from typing import final

import torch
import torch.nn.functional as F
from torch import Tensor

from dgdmn.algorithms.exemplars import ExemplarNetwork, Exemplars
from dgdmn.algorithms.nn import OneNetworkClassifier
from dgdmn.core.batch import Batch, concat
from dgdmn.core.events import Context
from dgdmn.core.rng import SeedStream
from dgdmn.networks.factory import NetworkFactory
from dgdmn.networks.train import map_batches
from dgdmn.storage import State


class _NearestMeanNetwork(ExemplarNetwork):
    """A network that computes features, and exemplars whose means classify them."""

    def __init__(self, factory: NetworkFactory, n_classes: int, rng: SeedStream) -> None:
        super().__init__(factory, n_classes, rng)
        self._classes: dict[int, Exemplars] = {}  # P_y, most representative first
        self.check_capacity(n_classes, "classes")

    def train(self, task: str | None, new: Batch, ctx: Context) -> None:
        """Learn the classes of a task (algorithm 2)."""
        self._update_representation(new, ctx)
        m = self.capacity // len(self._classes.keys() | new.classes())
        reduced = {y: rows.first(m) for y, rows in self._classes.items()}  # algorithm 5
        self._classes = {**reduced, **self._construct(new, m)}

    def _update_representation(self, new: Batch, ctx: Context) -> None:
        """Train on new rows and exemplars with one sigmoid per class (algorithm 3).

        Targets are the labels for classes of this task, and the network's earlier answers for the other
        known classes. The loss is summed over known classes and averaged over rows.
        """
        rows = concat(new, *[kept.to_batch() for kept in self._classes.values()])
        current = sorted(new.classes())
        known = sorted(self._classes.keys() | new.classes())
        targets = map_batches(self.learner, rows.x).sigmoid()  # q
        targets[:, current] = F.one_hot(rows.y, self._outputs)[:, current].to(targets)

        def loss(x: Tensor, q: Tensor, rng: torch.Generator) -> Tensor:
            logits = self.learner(x, rng)[:, known]
            return F.binary_cross_entropy_with_logits(logits, q, reduction="sum") / len(x)

        self.learner.train_with(loss, (rows.x, targets[:, known]), ctx.rng.next(), ctx.callback)

    def _construct(self, new: Batch, m: int) -> dict[int, Exemplars]:
        """At most m exemplars of each class of a task (algorithm 4)."""
        rows, chosen = Exemplars.from_batch(new), {}
        for y in sorted(new.classes()):
            known = [self._classes[y]] if y in self._classes else []
            pool = concat(*known, rows[rows.y == y])
            chosen[y] = pool[herding(self._features(pool.to_batch().x), m)]
        return chosen

    def _features(self, x: Tensor) -> Tensor:
        """φ(x), normalized."""
        return F.normalize(self.learner.features(x))

    def predict_tensor(self, x: Tensor) -> Tensor:
        """Softmax over negative distances to the means of exemplars (algorithm 1); 0 for an unknown class."""
        if not self._classes:
            return super().predict_tensor(x)
        means = [self._features(rows.to_batch().x).mean(dim=0) for rows in self._classes.values()]
        exact = "donot_use_mm_for_euclid_dist"  # the other mode depends on the batch
        centers = F.normalize(torch.stack(means))
        distances = torch.cdist(self._features(x), centers, compute_mode=exact)
        answers = distances.new_zeros(len(x), self._outputs)
        answers[:, list(self._classes)] = F.softmax(-distances, dim=1)
        return answers

    def grow(self, n_classes: int) -> None:
        self.check_capacity(n_classes, "classes")
        super().grow(n_classes)

    def state(self) -> State:
        rows = [kept.state() for kept in self._classes.values()]
        return {**super().state(), "rows": rows}

    def load_tensors(self, state: State) -> None:
        super().load_tensors(state)
        kept = [self.load_rows(rows) for rows in state["rows"]]
        if any(bool((rows.y != rows.y[0]).any()) for rows in kept):
            raise ValueError("the exemplars of one class have several labels")
        self._classes = {int(rows.y[0]): rows for rows in kept}


@final
@dataclass(eq=False, repr=False, kw_only=True)
class ICaRL(OneNetworkClassifier):
    """The classes share the exemplars evenly; a row belongs to the class whose mean is nearest.

    Features are those of the last hidden layer, normalized. `predict_proba` is a softmax over negative
    distances to the means (ours; the paper only names the nearest). The exemplars of a class that comes again are
    chosen again from old and new rows.
    """

    memory_class = _NearestMeanNetwork
    exemplars: int | None = None


def herding(features: Tensor, m: int) -> Tensor:
    """The m rows whose mean is nearest to the mean of all, most representative first (algorithm 4).

    Every mean is normalized as the features are. No row is chosen twice.
    """
    mu = F.normalize(features.mean(dim=0), dim=0)
    total, taken, chosen = torch.zeros_like(mu), torch.zeros_like(features[:, 0]), []
    for _ in range(min(m, len(features))):
        # ‖μ − 1/k (φ(x) + Σ_j<k φ(p_j))‖
        distances = (mu - F.normalize(total + features)).norm(dim=1)
        p = int((distances + taken).argmin())
        total, taken[p] = total + features[p], torch.inf
        chosen.append(p)
    return torch.tensor(chosen)
