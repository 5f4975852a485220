"""One network: NN, DropNN, PPR and Joint, and the memory that all network methods build on."""

import copy
import math
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dgdmn.algorithms.network import NetworkClassifier
from dgdmn.core.batch import Batch, concat
from dgdmn.core.errors import UsageError
from dgdmn.core.events import Context
from dgdmn.core.rng import SeedStream
from dgdmn.networks.classifier import cross_entropy
from dgdmn.networks.factory import NetworkFactory
from dgdmn.networks.protocols import CustomizableLearner, Learner
from dgdmn.networks.runtime import as_tensor, as_tensors, copy_tensor
from dgdmn.storage import State, check_class_indices, get_typed, map_arrays, to_numpy


class Network:
    """The memory of an algorithm that is one network; subclasses say how it trains."""

    learner: Learner

    def __init__(self, factory: NetworkFactory, n_classes: int, rng: SeedStream) -> None:
        self.factory, self.config, self.device = factory, factory.config, factory.device
        self.width = math.prod(factory.shape)
        self._outputs = self._n_classes = n_classes
        self.learner = self.new_learner(rng)

    def new_learner(self, rng: SeedStream) -> Learner:
        """An untrained network for the classes so far."""
        return self.factory.learner("ltm", self._n_classes, rng.next())

    def learn(self, task: str | None, new: Batch, ctx: Context) -> None:
        """Learn one task's samples, after adding outputs for new classes."""
        self.learner = copy.deepcopy(self.learner)  # training works in place: snapshots keep theirs
        if self._n_classes > self._outputs:
            self.learner.grow(self._n_classes, ctx.rng.next())
            self._outputs = self._n_classes
        self.train(task, as_tensors(new, self.device), ctx)

    def train(self, task: str | None, new: Batch, ctx: Context) -> None:
        """Train the learner on one task's samples."""
        self.learner.fit(new, ctx.rng.next(), ctx.callback)

    def sleep(self, ctx: Context) -> None:
        """Do nothing: there is no short-term memory."""

    def predict_proba(self, x: NDArray[Any], task: str | None) -> NDArray[Any]:
        """The network's answer; the task's name is not used."""
        return to_numpy(self.predict_tensor(as_tensor(x, self.device)))

    def predict_tensor(self, x: Tensor) -> Tensor:
        """Class probabilities, shape (n, outputs)."""
        return self.learner.predict_proba(x)

    def grow(self, n_classes: int) -> None:
        self._n_classes = n_classes

    def state(self) -> State:
        return {"learner": dict(self.learner.state_dict())}

    def load_state(self, state: State) -> None:
        self.load_tensors(map_arrays(state, lambda array: copy_tensor(array, self.device)))

    def load_tensors(self, state: State) -> None:
        self.learner.load_state_dict(state["learner"])


class CustomizedNetwork(Network):
    """A network that an algorithm trains with its own loss or step."""

    learner: CustomizableLearner

    def __init__(self, factory: NetworkFactory, n_classes: int, rng: SeedStream) -> None:
        super().__init__(factory, n_classes, rng)
        if not isinstance(self.learner, CustomizableLearner):
            missing = f"{type(self.learner).__name__} has no train_with, which this algorithm needs"
            advice = "see dgdmn.networks.protocols.CustomizableLearner"
            raise UsageError(f"learner {missing}: {advice}")

    def cross_entropy(self, x: Tensor, y: Tensor, rng: torch.Generator | None) -> Tensor:
        """The loss of a network without an algorithm: mean cross-entropy of a batch."""
        return cross_entropy(self.learner(x, rng), y, self.config.clip_probability)

    def zeros(self) -> list[Tensor]:
        """A zero for each weight."""
        return [torch.zeros_like(parameter) for parameter in self.learner.parameters()]


@dataclass(eq=False, repr=False, kw_only=True)
class OneNetworkClassifier(NetworkClassifier):
    """An algorithm whose memory is a `Network`."""

    learner_epochs: int | None = None
    memory_class: ClassVar[type[Network]]

    def _new_memory(self, factory: NetworkFactory, n_classes: int, rng: SeedStream) -> Network:
        return self.memory_class(factory, n_classes, rng)


@final
class NN(OneNetworkClassifier):
    """The paper's "feedforward neural network": the learner alone, six epochs a task (section 4)."""

    memory_class = Network


class _DropoutNetwork(Network):
    """A network with dropout after each hidden layer."""

    def new_learner(self, rng: SeedStream) -> Learner:
        dropout = self.config.dropout
        return self.factory.learner("ltm", self._n_classes, rng.next(), dropout=dropout)


@final
@dataclass(eq=False, repr=False, kw_only=True)
class DropNN(OneNetworkClassifier):
    """NN with dropout after each hidden layer, "to prevent representational overlaps" (section 4)."""

    memory_class = _DropoutNetwork
    dropout: float | None = None


class _RehearsingNetwork(Network):
    """A network that rehearses its own predictions for noise."""

    _trained = False

    def train(self, task: str | None, new: Batch, ctx: Context) -> None:
        """Train on the new samples and, after the first task, on pseudopatterns."""
        n = max(0, (self.config.ppr_memory or 3 * len(new)) - len(new))
        patterns = [self.pseudopatterns(n, new.x.shape[1], ctx.rng)] if self._trained else []
        self.learner.fit(concat(new, *patterns), ctx.rng.next(), ctx.callback)
        self._trained = True

    def pseudopatterns(self, n: int, d: int, rng: SeedStream) -> Batch:
        """n inputs of d uniform numbers, labeled by the network."""
        x = torch.rand(n, d, generator=rng.next()).to(self.device)
        return Batch(x, self.learner.predict_proba(x).argmax(dim=1))

    def state(self) -> State:
        return {**super().state(), "trained": self._trained}

    def load_tensors(self, state: State) -> None:
        super().load_tensors(state)
        self._trained = get_typed(state, "trained", bool)


@final
@dataclass(eq=False, repr=False, kw_only=True)
class PPR(OneNetworkClassifier):
    """Trains on the new samples and on random inputs that the network labeled before.

    Inputs are uniform in [0, 1]; "apart from the task samples, the remaining memory was filled with random
    samples and corresponding labels" (appendix B).
    """

    memory_class = _RehearsingNetwork
    ppr_memory: int | None = None


class _AllRows(Network):
    """All rows, and a network trained on them from scratch after each task."""

    _rows: tuple[Batch, ...] = ()

    def new_learner(self, rng: SeedStream) -> Learner:
        epochs = self.config.joint_epochs
        return self.factory.learner("ltm", self._n_classes, rng.next(), epochs=epochs)

    def learn(self, task: str | None, new: Batch, ctx: Context) -> None:
        """Keep the rows, then train a new network on all of them."""
        self._rows = (*self._rows, new)
        self.learner = self.new_learner(ctx.rng)
        self.train(task, as_tensors(concat(*self._rows), self.device), ctx)

    def state(self) -> State:
        return {**super().state(), "rows": [{"x": rows.x, "y": rows.y} for rows in self._rows]}

    def load_tensors(self, state: State) -> None:
        super().load_tensors(state)
        self._rows = tuple(
            Batch(to_numpy(rows["x"]), check_class_indices(to_numpy(rows["y"]), self._n_classes))
            for rows in state["rows"]
        )
        for x, y in ((rows.x, rows.y) for rows in self._rows):
            if (x.dtype, y.dtype) != (np.float32, np.int64) or x.shape != (*y.shape, self.width):
                raise ValueError(f"rows are {x.dtype} of {x.shape}, their labels {y.dtype}")


@final
@dataclass(eq=False, repr=False, kw_only=True)
class Joint(NetworkClassifier):
    """A new network after each task, trained twenty epochs on all rows so far (section 4.1, appendix B).

    It keeps every training row.
    """

    joint_epochs: int | None = None

    def _new_memory(self, factory: NetworkFactory, n_classes: int, rng: SeedStream) -> Network:
        return _AllRows(factory, n_classes, rng)
