"""DGDMN, the deep generative dual memory network, with and without task names; and DGR, its long-term half."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from dgdmn.algorithms.fitted import EstimatorInfo
from dgdmn.algorithms.generative import GenerativeClassifier, dual_of

LONG_TERM = "long-term memory"


@dataclass(frozen=True, eq=False)
class Recognition:
    """Which memory answers for each sample when no task is named (appendix A)."""

    memories: tuple[str, ...]
    """The task of each awake task memory, then `long-term memory` if it knows anything."""
    losses: NDArray[np.float64]
    """Recognition loss of each sample in each memory, shape (n, memories); lower means better known."""
    answered_by: NDArray[Any]
    """The memory that answers for each sample, shape (n,)."""
    known: NDArray[np.bool_]
    """Whether any loss was below γ; where it was not, the answer is a guess."""


@dataclass(eq=False, repr=False, kw_only=True)
class DualClassifier(GenerativeClassifier):
    """A classifier with a short-term and a long-term memory."""

    n_stm: int | None = None
    code_buffer: bool | None = None
    gamma: float | None = None
    recognition: Literal["reconstruction", "density"] | None = None
    recognize_per: Literal["batch", "sample"] | None = None
    sttm_latent_dim: int | None = None
    sttm_min_steps: int | None = None
    sttm_generator_layers: tuple[int, ...] | None = None
    sttm_generator_convolutions: tuple[int, ...] | None = None
    sttm_learner_layers: tuple[int, ...] | None = None
    sttm_learner_convolutions: tuple[int, ...] | None = None

    def memory_bytes(self) -> int:
        """Bytes of the long-term memory and n_stm task memories, as they are before a sleep."""
        check_is_fitted(self)
        with self._empty_weights():
            return dual_of(self.fitted_).nbytes() + self.fitted_.feature_bytes()

    def recognize(self, X: ArrayLike) -> Recognition:
        """Which memory predicts each sample when no task is given, and whether the sample is known."""
        check_is_fitted(self)
        memory, awake = dual_of(self.fitted_), self.awake_tasks()
        with self._limits():
            found = memory.recognize(self._to_inputs(X))
        names = (*awake, LONG_TERM)[: len(memory.memories())] if awake else (LONG_TERM,)
        answered_by = np.array(names)[found.chosen]
        return Recognition(names, found.losses.astype(np.float64), answered_by, found.known)

    def info(self) -> EstimatorInfo:
        """A summary: algorithm, tasks, options, bytes."""
        about, stm = super().info(), dual_of(self.fitted_).stm
        return replace(
            about,
            short_term=True,
            awake=stm.tasks(),
            awake_rows={held.task: getattr(held.memory, "n_seen", 0) for held in stm.awake},
            awake_codes={
                held.task: len(getattr(held.memory, "codes", None) or ()) for held in stm.awake
            },
        )


@final
class DGDMN(DualClassifier):
    """A short-term memory learns each task; sleep consolidates n_stm of them into the long-term memory.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> memory = DGDMN(random_state=0)
    >>> for label in (0, 1):  # two tasks of one class each; the second fills the short-term memory
    ...     X = rng.normal([4 * label, -4 * label], 1, size=(80, 2))
    ...     memory = memory.partial_fit(X, np.full(80, label), task=str(label))
    >>> memory.consolidated_tasks()
    ('0', '1')
    >>> memory.predict([[0, 0], [4, -4]]).tolist()
    [0, 1]
    """


@final
@dataclass(eq=False, repr=False, kw_only=True)
class DGDMNRecog(DualClassifier):
    """DGDMN without task names: "only (X, Y) while training and only X while testing" (appendix A).

    A memory knows samples if its recognition loss is below γ. Its generator trains until that holds for what
    it learned. Task names are ignored.
    """

    uses_task_names: ClassVar[bool] = False

    recog_trainings: int | None = None


@final
class DGR(GenerativeClassifier):
    """ "We train only the LTM from DGDMN to separate the effects of replay and dual memory" (section 4)."""

    _long_term_only: ClassVar[bool] = True
