"""The memory of an algorithm that is one network, whatever protects it from forgetting."""

from __future__ import annotations

from torch import Tensor

from dgdmn.errors import UsageError
from dgdmn.events import Listener
from dgdmn.networks.blueprint import Blueprint
from dgdmn.networks.generator import Learner, ShapedLearner
from dgdmn.samples import Samples
from dgdmn.seeds import Seeds
from dgdmn.storage import State


class Network:
    """A learner that is trained on whatever comes; algorithms say how in `train`."""

    learner: Learner

    def __init__(self, blueprint: Blueprint, n_classes: int, seeds: Seeds, *, dropout: float = 0.0) -> None:
        self.options = blueprint.preset
        self.learner = blueprint.learner("ltm", n_classes, seeds.next(), dropout=dropout)
        self._outputs = self._n_classes = n_classes

    def learn(self, task: str | None, new: Samples, seeds: Seeds, listen: Listener) -> None:
        """Learn one task's samples, with room for classes that came since the last."""
        if self._n_classes > self._outputs:
            self.learner.grow(self._n_classes, seeds.next())
            self._outputs = self._n_classes
        self.train(task, new, seeds, listen)

    def train(self, task: str | None, new: Samples, seeds: Seeds, listen: Listener) -> None:
        """Train the learner on one task's samples."""
        self.learner.fit(new, seeds.next(), listen)

    def sleep(self, seeds: Seeds, listen: Listener) -> None:
        """Nothing is held for a short term."""

    def probabilities(self, x: Tensor, task: str | None) -> Tensor:
        """The learner's answer; the task has no say."""
        return self.learner.probabilities(x)

    def grow(self, n_classes: int) -> None:
        """There are more classes now; outputs for them come with the next task."""
        self._n_classes = n_classes

    def state(self) -> State:
        """The weights."""
        return {"learner": dict(self.learner.state_dict())}

    def restore(self, state: State) -> None:
        """Take back what `state` gave; this memory was begun with as many outputs."""
        self.learner.load_state_dict(state["learner"])


class ShapedNetwork(Network):
    """A network whose training the algorithm shapes by a loss or a step of its own."""

    learner: ShapedLearner

    def __init__(self, blueprint: Blueprint, n_classes: int, seeds: Seeds) -> None:
        super().__init__(blueprint, n_classes, seeds)
        if not isinstance(self.learner, ShapedLearner):
            raise UsageError(
                f"this algorithm shapes its learner's training, and {type(self.learner).__name__} offers no "
                "train_with: see dgdmn.networks.generator.ShapedLearner"
            )
