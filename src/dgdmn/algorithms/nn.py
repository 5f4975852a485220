"""One network: NN, DropNN, PPR and Joint, and the memory that all network methods build on."""

import copy
import math
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dgdmn.algorithms.fitted import Memory
from dgdmn.algorithms.network import NetworkClassifier
from dgdmn.core.batch import Batch, concat
from dgdmn.core.errors import UsageError
from dgdmn.core.events import Context
from dgdmn.core.rng import SeedStream
from dgdmn.networks.factory import NetworkFactory
from dgdmn.networks.protocols import CustomizableLearner, Learner
from dgdmn.networks.runtime import as_tensor, as_tensors, copy_tensor
from dgdmn.storage import State, class_indices, map_arrays, to_numpy, typed


@final
@dataclass(eq=False, repr=False, kw_only=True)
class NN(NetworkClassifier):
    """The paper's "feedforward neural network": the learner alone, six epochs a task (section 4)."""

    learner_epochs: int | None = None

    def _new_memory(self, factory: NetworkFactory, n_classes: int, rng: SeedStream) -> Memory:
        return Network(factory, n_classes, rng)


@final
@dataclass(eq=False, repr=False, kw_only=True)
class DropNN(NetworkClassifier):
    """NN with dropout after each hidden layer, "to prevent representational overlaps" (section 4)."""

    learner_epochs: int | None = None
    dropout: float | None = None

    def _new_memory(self, factory: NetworkFactory, n_classes: int, rng: SeedStream) -> Memory:
        return Network(factory, n_classes, rng, dropout=factory.config.dropout)


class Network:
    """The memory of an algorithm that is one network; subclasses say how it trains."""

    learner: Learner

    def __init__(
        self, factory: NetworkFactory, n_classes: int, rng: SeedStream, *, dropout: float = 0.0
    ) -> None:
        self.config, self.device = factory.config, factory.device
        self.width = math.prod(factory.shape)
        self.learner = factory.learner("ltm", n_classes, rng.next(), dropout=dropout)
        self._outputs = self._n_classes = n_classes

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
            raise UsageError(
                f"learner {type(self.learner).__name__} has no train_with, which this algorithm needs: "
                "see dgdmn.networks.protocols.CustomizableLearner"
            )


@final
@dataclass(eq=False, repr=False, kw_only=True)
class PPR(NetworkClassifier):
    """Trains on the new samples and on random inputs that the network labeled before.

    Inputs are uniform in [0, 1]; "apart from the task samples, the remaining memory was filled with random
    samples and corresponding labels" (appendix B).
    """

    learner_epochs: int | None = None
    ppr_memory: int | None = None

    def _new_memory(self, factory: NetworkFactory, n_classes: int, rng: SeedStream) -> Memory:
        return _RehearsingNetwork(factory, n_classes, rng)


class _RehearsingNetwork(Network):
    """A network that rehearses its own answers to noise."""

    def __init__(self, factory: NetworkFactory, n_classes: int, rng: SeedStream) -> None:
        super().__init__(factory, n_classes, rng)
        self._trained = False

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
        self._trained = typed(state, "trained", bool)


@final
@dataclass(eq=False, repr=False, kw_only=True)
class Joint(NetworkClassifier):
    """A new network after each task, trained twenty epochs on all rows so far (section 4.1, appendix B).

    It keeps every training row.
    """

    joint_epochs: int | None = None

    def _new_memory(self, factory: NetworkFactory, n_classes: int, rng: SeedStream) -> Memory:
        return _AllRows(factory, n_classes, rng)


class _AllRows:
    """All rows, and a network trained on them from scratch after each task."""

    def __init__(self, factory: NetworkFactory, n_classes: int, rng: SeedStream) -> None:
        self._factory = factory
        self._n_classes = n_classes
        self._rows: tuple[Batch, ...] = ()
        self._reset_learner(rng)

    def _reset_learner(self, rng: SeedStream) -> None:
        epochs = self._factory.config.joint_epochs
        self.learner = self._factory.learner("ltm", self._n_classes, rng.next(), epochs=epochs)

    def learn(self, task: str | None, new: Batch, ctx: Context) -> None:
        """Keep the rows, then train a new network on all of them."""
        self._rows = (*self._rows, new)
        self._reset_learner(ctx.rng)
        rows = as_tensors(concat(*self._rows), self._factory.device)
        self.learner.fit(rows, ctx.rng.next(), ctx.callback)

    def sleep(self, ctx: Context) -> None:
        """Do nothing: there is no short-term memory."""

    def predict_proba(self, x: NDArray[Any], task: str | None) -> NDArray[Any]:
        """The network's answer."""
        return to_numpy(self.learner.predict_proba(as_tensor(x, self._factory.device)))

    def grow(self, n_classes: int) -> None:
        self._n_classes = n_classes

    def state(self) -> State:
        rows = [{"x": batch.x, "y": batch.y} for batch in self._rows]
        return {"learner": dict(self.learner.state_dict()), "rows": rows}

    def load_state(self, state: State) -> None:
        self._rows = tuple(
            Batch(to_numpy(rows["x"]), class_indices(to_numpy(rows["y"]), self._n_classes))
            for rows in state["rows"]
        )
        width = math.prod(self._factory.shape)
        for x, y in ((rows.x, rows.y) for rows in self._rows):
            if (x.dtype, y.dtype) != (np.float32, np.int64) or x.shape != (*y.shape, width):
                raise ValueError(f"rows are {x.dtype} of {x.shape}, their labels {y.dtype}")
        weights = map_arrays(
            state["learner"], lambda array: copy_tensor(array, self._factory.device)
        )
        self.learner.load_state_dict(weights)
