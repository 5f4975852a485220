"""What the algorithms with a generative memory have in common: they dream, reconstruct and sleep."""

from __future__ import annotations

import copy
from abc import abstractmethod
from dataclasses import dataclass
from numbers import Integral
from typing import Any, ClassVar, Literal, Self

import numpy as np
import torch.nn.functional as F
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from dgdmn.algorithms.base import ContinualClassifier, seeds_of, using_threads
from dgdmn.algorithms.learnt import Learnt
from dgdmn.errors import UsageError
from dgdmn.events import ignore
from dgdmn.memory.generative import GenerativeMemory
from dgdmn.networks.generator import Coder, GeneratorFactory


@dataclass(eq=False, repr=False, kw_only=True)
class GenerativeClassifier(ContinualClassifier):
    """A classifier whose memory can dream."""

    by_descriptor: ClassVar[bool] = True
    """Whether the name of a task says which memory answers for it."""

    n_max: int | None = None
    kappa: float | None = None
    kappa_per: Literal["replay", "task"] | None = None
    age: Literal["seen", "letter"] | None = None
    allocation: Literal["age", "class"] | None = None
    reconstructed: Literal["new", "all", "none"] | None = None
    optimiser_state: Literal["fresh", "kept"] | None = None
    latent: int | None = None
    generator_layers: tuple[int, ...] | None = None
    generator_convolutions: tuple[int, ...] | None = None
    generator_epochs: int | None = None
    learner_epochs: int | None = None
    beta: float | None = None
    prior_components: int | None = None
    dreams: Literal["once", "anew"] | None = None
    soft_labels: float | None = None
    latent_noise: float | None = None
    answers: Literal["learner", "both"] | None = None
    generator: GeneratorFactory | None = None
    """Makes generators of your own (`dgdmn.networks.generator`)."""

    @abstractmethod
    def _long_term(self, learnt: Learnt) -> GenerativeMemory:
        """The generative memory that holds the past."""

    @abstractmethod
    def awake_tasks(self) -> tuple[str, ...]:
        """The tasks that a short-term memory holds and a sleep would consolidate."""

    def sleep(self) -> Self:
        """Consolidate now what the short-term memory holds."""
        check_is_fitted(self)
        with using_threads(self.threads):
            learnt = copy.deepcopy(self.learnt_)
            learnt.memory.sleep(learnt.seeds, self.listen or ignore)
        return self._commit(learnt)

    def sample(self, n: int = 1, random_state: Any = None) -> tuple[NDArray[np.float32], NDArray[Any]]:
        """Dream n samples of the long-term memory: inputs of the shape and range learnt, and their labels.

        Another `random_state` gives other dreams. Dreaming leaves no trace in what is learnt later.
        """
        learnt, long_term = self._consolidated()
        if not isinstance(n, Integral) or n < 1:
            raise UsageError(f"n is {n!r}; it must be a whole number of at least 1")
        seeds = learnt.seeds.aside() if random_state is None else seeds_of(random_state)
        with using_threads(self.threads):
            dreams = long_term.dream(int(n), seeds)
            # with a latent prior a dream's class is known; without one the learner says what it sees
            outputs = (
                F.one_hot(dreams.y, long_term.n_classes) if long_term.prior else long_term.answers(dreams.x)
            )
            answers = learnt.named(outputs)
        return learnt.scaling.invert(dreams.x.cpu().numpy(), learnt.shape), self._labels(answers)

    def reconstruct(self, X: ArrayLike) -> NDArray[np.float32]:
        """X as the long-term memory sees it, in its own range (uint8 as floats in [0, 1])."""
        learnt, long_term = self._consolidated()
        with using_threads(self.threads):
            x = self._inputs(learnt, self._validated(X, None, reset=False)[0])
            rows = long_term.generator.reconstruct(x)
        return learnt.scaling.invert(rows.cpu().numpy(), learnt.shape)

    def has_latents(self) -> bool:
        """Whether the long-term memory's generator has a latent space; one of your own may have none."""
        check_is_fitted(self)
        return isinstance(self._long_term(self.learnt_).generator, Coder)

    def latents(self, X: ArrayLike) -> NDArray[np.float32]:
        """Where X lies in the long-term memory's latent space: the means of q(z | x), shape (n, latent)."""
        learnt, long_term = self._consolidated()
        generator = long_term.generator
        if not isinstance(generator, Coder):
            raise UsageError(
                f"generator {type(generator).__name__} has no latents; make it a Coder, or use ours"
            )
        with using_threads(self.threads):
            x = self._inputs(learnt, self._validated(X, None, reset=False)[0])
            z: NDArray[np.float32] = generator.posterior(x)[0].cpu().numpy()
        return z

    def predict_long_term(self, X: ArrayLike) -> NDArray[Any]:
        """The labels that the long-term memory alone would give."""
        long_term = self._consolidated()[1]
        return self._labels(self._answers(X, lambda _, x: long_term.probabilities(x)))

    def _consolidated(self) -> tuple[Learnt, GenerativeMemory]:
        check_is_fitted(self)
        long_term = self._long_term(self.learnt_)
        if not long_term.tasks:
            raise UsageError(
                "the long-term memory knows nothing yet: its first sleep is to come, or call sleep()"
            )
        return self.learnt_, long_term

    def consolidated_tasks(self) -> tuple[str, ...]:
        """The tasks in the long-term memory; none before the first sleep."""
        check_is_fitted(self)
        return tuple(self._long_term(self.learnt_).tasks)
