"""The deep generative memory (DGM) of section 3.1: a generator, a learner and a dictionary of tasks."""

from __future__ import annotations

from collections.abc import Mapping

import torch.nn.functional as F
from torch import Tensor

from dgdmn.events import Listener
from dgdmn.memory.dictionary import Entry, TaskDictionary
from dgdmn.memory.replay import replay
from dgdmn.networks.blueprint import Blueprint
from dgdmn.networks.generator import Generator, Learner, Role
from dgdmn.presets import Preset
from dgdmn.samples import Samples
from dgdmn.seeds import Seeds
from dgdmn.storage import State


class GenerativeMemory:
    """DGM = G + L + D_dgm + age. It keeps no sample: what it knows of the past it dreams."""

    generator: Generator
    """G: models the inputs."""
    learner: Learner
    """L: predicts their class."""
    tasks: TaskDictionary
    """D_dgm: the tasks learnt, and how often each was met."""
    age: int
    """Samples seen so far (or trained on, with `age="letter"`)."""
    n_classes: int
    """Classes there are; L has fewer outputs while it has not learnt since new ones came."""
    options: Preset

    def __init__(self, blueprint: Blueprint, role: Role, n_classes: int, seeds: Seeds) -> None:
        self._blueprint, self._role = blueprint, role
        self.generator = blueprint.generator(role, seeds.next())
        self.learner = blueprint.learner(role, n_classes, seeds.next())
        self.tasks = TaskDictionary()
        self.age = 0
        self.n_classes = self._outputs = n_classes
        self.options = blueprint.preset

    def learn(self, new: Samples, tasks: Mapping[str, Entry], seeds: Seeds, listen: Listener) -> None:
        """Learn new samples by deep generative replay (Algorithm 1)."""
        if self.n_classes > self._outputs:
            self.learner.grow(self.n_classes, seeds.next())
            self._outputs = self.n_classes
        replay(self, new, tasks, seeds=seeds, listen=listen)

    def train_generator(self, x: Tensor, new: Tensor, seeds: Seeds, listen: Listener) -> None:
        """Train G on x; where recognition relies on it, on until it knows the new samples, within bounds.

        Its own dreams are among x, and not a measure: blurred ink costs more than it weighs (appendix A).
        """
        trainings = self.options.recog_trainings if self._blueprint.until_known else 1
        for _ in range(trainings):
            self.generator.fit(x, seeds.next(), listen)
            if trainings == 1 or self.recognition_loss(new).mean() < self.options.gamma:
                return

    def recognition_loss(self, x: Tensor) -> Tensor:
        """recons_loss(x) / intensity(x) for each sample, shape (n,) (appendix A).

        Intensity is the sum of pixel values; a blank image counts as one pixel of ink, since it has none.
        Appendix A sums over the samples of a task but compares with one γ for any number of them, so a
        task is judged by the mean.
        """
        return self.generator.reconstruction_loss(x) / x.sum(dim=1).clamp(min=1.0)

    def dream(self, n: int, seeds: Seeds) -> Samples:
        """Draw n inputs from G and label them with L (Algorithm 1, lines 17-18)."""
        x = self.generator.sample(n, seeds.next())
        return Samples(x, self.answers(x).argmax(dim=1))

    def recall(self, x: Tensor) -> Samples:
        """The inputs as this memory remembers them, with its own labels (section 3.2)."""
        x_recon = self.generator.reconstruct(x)
        return Samples(x_recon, self.answers(x_recon).argmax(dim=1))

    def probabilities(self, x: Tensor) -> Tensor:
        """Class probabilities, by way of the reconstruction: x → G → x_recon → L → y (figure 1)."""
        return self.answers(self.generator.reconstruct(x))

    def answers(self, x: Tensor) -> Tensor:
        """L(x), shape (n, n_classes); a class that came after this memory last learnt has probability 0."""
        known = self.learner.probabilities(x)
        return F.pad(known, (0, self.n_classes - self._outputs))

    def state(self) -> State:
        """All that was learnt."""
        return {
            "generator": dict(self.generator.state_dict()),
            "learner": dict(self.learner.state_dict()),
            "tasks": self.tasks.state(),
            "age": self.age,
            "n_classes": self.n_classes,
            "outputs": self._outputs,
        }

    def restore(self, state: State) -> None:
        """Take back what `state` gave."""
        if state["outputs"] != self._outputs:
            self.learner = self._blueprint.learner(self._role, state["outputs"], Seeds(0).next())
        self.generator.load_state_dict(state["generator"])
        self.learner.load_state_dict(state["learner"])
        self.tasks = TaskDictionary.restored(state["tasks"])
        self.age, self.n_classes, self._outputs = state["age"], state["n_classes"], state["outputs"]
