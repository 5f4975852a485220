"""Joint: all tasks so far at once. Not a continual learner, but the ceiling for one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

from numpy.typing import NDArray

from dgdmn.algorithms.estimator import ContinualClassifier
from dgdmn.algorithms.fitted import Memory
from dgdmn.core.batch import Batch, concat
from dgdmn.core.events import Context
from dgdmn.core.rng import SeedStream
from dgdmn.networks.factory import NetworkFactory
from dgdmn.networks.runtime import as_tensor, as_tensors, copy_tensor
from dgdmn.storage import State, map_arrays, to_numpy


@final
@dataclass(eq=False, repr=False, kw_only=True)
class Joint(ContinualClassifier):
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
        """Nothing is held for a short term."""

    def predict_proba(self, x: NDArray[Any], task: str | None) -> NDArray[Any]:
        """The network's answer."""
        return to_numpy(self.learner.predict_proba(as_tensor(x, self._factory.device)))

    def grow(self, n_classes: int) -> None:
        """From now on there are this many classes."""
        self._n_classes = n_classes

    def state(self) -> State:
        """The weights and all rows."""
        rows = [{"x": batch.x, "y": batch.y} for batch in self._rows]
        return {"learner": dict(self.learner.state_dict()), "rows": rows}

    def load_state(self, state: State) -> None:
        """Load what `state` returned."""
        self._rows = tuple(
            Batch(to_numpy(rows["x"]), to_numpy(rows["y"])) for rows in state["rows"]
        )
        weights = map_arrays(
            state["learner"], lambda array: copy_tensor(array, self._factory.device)
        )
        self.learner.load_state_dict(weights)
