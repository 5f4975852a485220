"""DGDMN, the deep generative dual memory network, with and without task names; and DGR, its long-term half."""

import copy
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from dgdmn.algorithms.fitted import EstimatorInfo, FittedState, Memory
from dgdmn.algorithms.generative import GenerativeClassifier
from dgdmn.core.batch import Batch
from dgdmn.core.events import Context
from dgdmn.core.rng import SeedStream
from dgdmn.memory.dual import DualMemory, rename_in, split_by_newest_task
from dgdmn.memory.protocols import GenerativeMemory, JointlyScored
from dgdmn.memory.task_log import TaskInfo, new_task_name
from dgdmn.storage import State

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

    def _new_memory(self, factory: Any, n_classes: int, rng: SeedStream) -> Memory:
        return DualMemory(self._memory_factory(factory), factory.config, n_classes, rng)

    def _long_term(self, fitted: FittedState) -> GenerativeMemory:
        return _dual(fitted).ltm

    def awake_tasks(self) -> tuple[str, ...]:
        """The tasks that the short-term memory holds and a sleep would consolidate."""
        check_is_fitted(self)
        return tuple(held.task for held in _dual(self.fitted_).stm.awake)

    def memory_bytes(self) -> int:
        """Bytes of the long-term memory and n_stm task memories, as they are before a sleep."""
        check_is_fitted(self)
        with self._empty_weights():
            return _dual(self.fitted_).nbytes() + self.fitted_.feature_bytes()

    def recognize(self, X: ArrayLike) -> Recognition:
        """Which memory predicts each sample when no task is given, and whether the sample is known."""
        check_is_fitted(self)
        memory, awake = _dual(self.fitted_), self.awake_tasks()
        with self._limits():
            found = memory.recognize(self._to_inputs(X))
        names = (*awake, LONG_TERM)[: len(memory.memories())] if awake else (LONG_TERM,)
        answered_by = np.array(names)[found.chosen]
        return Recognition(names, found.losses.astype(np.float64), answered_by, found.known)

    def info(self) -> EstimatorInfo:
        """A summary: algorithm, tasks, options, bytes."""
        about, stm = super().info(), _dual(self.fitted_).stm
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


def _dual(fitted: FittedState) -> DualMemory:
    assert isinstance(fitted.memory, DualMemory)
    return fitted.memory


@final
class DGR(GenerativeClassifier):
    """ "We train only the LTM from DGDMN to separate the effects of replay and dual memory" (section 4)."""

    def _new_memory(self, factory: Any, n_classes: int, rng: SeedStream) -> Memory:
        return _LongTermOnly(self._memory_factory(factory)("ltm", n_classes, rng))

    def _long_term(self, fitted: FittedState) -> GenerativeMemory:
        assert isinstance(fitted.memory, _LongTermOnly)
        return fitted.memory.ltm

    def awake_tasks(self) -> tuple[str, ...]:
        """None: every task is consolidated as it comes."""
        return ()


class _LongTermOnly:
    """A long-term memory that learns each task as it comes."""

    def __init__(self, ltm: GenerativeMemory) -> None:
        self.ltm = ltm

    def learn(self, task: str | None, new: Batch, ctx: Context) -> None:
        ltm = copy.copy(self.ltm)
        name = new_task_name(ltm.tasks.keys()) if task is None else task
        parts = [(name, new)]
        if task is None and isinstance(ltm, JointlyScored):
            parts = split_by_newest_task(new, [ltm], name)
        for one, part in parts:
            ltm.learn(part, {one: TaskInfo(1, part.classes())}, ctx)
        if isinstance(ltm, JointlyScored):
            ltm.consolidate([], ctx)
        self.ltm = ltm

    def sleep(self, ctx: Context) -> None:
        """Every task is consolidated already."""

    def predict_proba(self, x: NDArray[Any], task: str | None) -> NDArray[Any]:
        return self.ltm.predict_proba(x)

    def column_moments(self, d: int) -> tuple[NDArray[Any], NDArray[Any], float]:
        """Mean and covariance of the first d features of all samples learned, and their number."""
        assert isinstance(self.ltm, JointlyScored)
        return self.ltm.column_moments(d, ())

    def copy_memories(self) -> list[GenerativeMemory]:
        """Replace the long-term memory by a copy and return it."""
        self.ltm = copy.copy(self.ltm)
        return [self.ltm]

    def rename_tasks(self, names: Mapping[str, str]) -> None:
        for memory in self.copy_memories():
            rename_in(memory, names)

    def replace_long_term(self, ltm: GenerativeMemory) -> None:
        self.ltm = ltm

    def refresh(self, n_classes: int, ctx: Context) -> None:
        """After components were removed or added: freeze again."""
        self.ltm.consolidate([], ctx)
        self.grow(n_classes)

    def grow(self, n_classes: int) -> None:
        self.ltm = copy.copy(self.ltm)
        self.ltm.grow(n_classes)

    def state(self) -> State:
        return {"ltm": self.ltm.state()}

    def load_state(self, state: State) -> None:
        self.ltm.load_state(state["ltm"])
