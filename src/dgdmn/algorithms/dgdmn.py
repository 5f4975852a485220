"""DGDMN: the deep generative dual memory network."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, final

from sklearn.utils.validation import check_is_fitted

from dgdmn.algorithms.generative import GenerativeClassifier
from dgdmn.algorithms.learnt import Learnt, Memory
from dgdmn.memory.dual import DualMemory
from dgdmn.memory.generative import GenerativeMemory
from dgdmn.networks.blueprint import Blueprint
from dgdmn.seeds import Seeds


@final
@dataclass(eq=False, repr=False, kw_only=True)
class DGDMN(GenerativeClassifier):
    """A short-term memory learns each task; sleep consolidates n_stm of them into the long-term memory.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> memory = DGDMN(random_state=0)
    >>> for label in (0, 1):  # two tasks of one class each; the second fills the short-term memory
    ...     X = rng.normal([4 * label, -4 * label], 1, size=(80, 2))
    ...     memory = memory.set_params(value_range=(-8, 8)).partial_fit(X, np.full(80, label), task=str(label))
    >>> memory.consolidated_tasks()
    ('0', '1')
    >>> memory.predict([[0, 0], [4, -4]]).tolist()
    [0, 1]
    """

    keeps: ClassVar[str] = "weights"

    n_stm: int | None = None
    gamma: float | None = None
    sttm_latent: int | None = None
    sttm_generator_layers: tuple[int, ...] | None = None
    sttm_generator_convolutions: tuple[int, ...] | None = None
    sttm_learner_layers: tuple[int, ...] | None = None
    sttm_learner_convolutions: tuple[int, ...] | None = None

    def _begin(self, blueprint: Blueprint, n_classes: int, seeds: Seeds) -> Memory:
        return DualMemory(replace(blueprint, own_generator=self.generator), n_classes, seeds)

    def _long_term(self, learnt: Learnt) -> GenerativeMemory:
        assert isinstance(learnt.memory, DualMemory)
        return learnt.memory.ltm

    def awake_tasks(self) -> tuple[str, ...]:
        """The tasks that the short-term memory holds and a sleep would consolidate."""
        check_is_fitted(self)
        assert isinstance(self.learnt_.memory, DualMemory)
        return tuple(held.task for held in self.learnt_.memory.stm.awake)
