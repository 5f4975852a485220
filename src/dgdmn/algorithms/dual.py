"""What DGDMN is with and without task descriptors: a classifier with a dual memory."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from dgdmn.algorithms.base import using_threads
from dgdmn.algorithms.generative import GenerativeClassifier
from dgdmn.algorithms.learnt import Learnt, Memory
from dgdmn.memory.dual import DualMemory
from dgdmn.memory.generative import GenerativeMemory
from dgdmn.networks.blueprint import Blueprint
from dgdmn.seeds import Seeds


@dataclass(frozen=True, eq=False)
class Recognition:
    """Which memory answers for each sample when no task is named, and on what grounds (appendix A)."""

    memories: tuple[str, ...]
    """The task of each short-term task memory that is awake, then `long-term memory` if it knows anything."""
    losses: NDArray[np.float64]
    """Recognition loss of each sample in each memory, shape (n, memories); lower is better known."""
    answered_by: NDArray[Any]
    """The memory that answers for each sample, shape (n,)."""
    known: NDArray[np.bool_]
    """Whether any loss was below γ; where it was not, the answer is "none of these", and a guess."""


@dataclass(eq=False, repr=False, kw_only=True)
class DualClassifier(GenerativeClassifier):
    """A classifier with a short-term and a long-term memory."""

    n_stm: int | None = None
    index: Literal["none", "codes"] | None = None
    gamma: float | None = None
    recognition: Literal["reconstruction", "density"] | None = None
    recognise_each: Literal["batch", "sample"] | None = None
    sttm_latent: int | None = None
    sttm_steps: int | None = None
    sttm_generator_layers: tuple[int, ...] | None = None
    sttm_generator_convolutions: tuple[int, ...] | None = None
    sttm_learner_layers: tuple[int, ...] | None = None
    sttm_learner_convolutions: tuple[int, ...] | None = None

    def _begin(self, blueprint: Blueprint, n_classes: int, seeds: Seeds) -> Memory:
        return DualMemory(replace(blueprint, own_generator=self.generator), n_classes, seeds)

    def _long_term(self, learnt: Learnt) -> GenerativeMemory:
        return self._dual(learnt).ltm

    def awake_tasks(self) -> tuple[str, ...]:
        """The tasks that the short-term memory holds and a sleep would consolidate."""
        check_is_fitted(self)
        return tuple(held.task for held in self._dual(self.learnt_).stm.awake)

    def memory_bytes(self) -> int:
        """Bytes of the long-term memory and n_stm task memories with codes and priors, as before a sleep."""
        check_is_fitted(self)
        return self._dual(self.learnt_).room()

    def recognise(self, X: ArrayLike) -> Recognition:
        """Which memory `predict` without a task asks for each sample, and whether any knows it."""
        check_is_fitted(self)
        learnt, awake = self.learnt_, self.awake_tasks()
        memory = self._dual(learnt)
        with using_threads(self.threads):
            found = memory.recognise(self._inputs(learnt, self._validated(X, None, reset=False)[0]))
        names = (*awake, "long-term memory")[: len(memory.memories())] if awake else ("long-term memory",)
        return Recognition(
            names,
            found.losses.double().cpu().numpy(),
            np.array(names)[found.answers.cpu().numpy()],
            found.known.cpu().numpy(),
        )

    def _dual(self, learnt: Learnt) -> DualMemory:
        assert isinstance(learnt.memory, DualMemory)
        return learnt.memory
