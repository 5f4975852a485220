"""What every algorithm is: a scikit-learn classifier that goes on learning."""

from __future__ import annotations

import copy
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from numbers import Integral
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor

from dgdmn.algorithms.learnt import Learnt, Memory
from dgdmn.algorithms.saving import save
from dgdmn.algorithms.scaling import Scaling
from dgdmn.errors import UsageError
from dgdmn.events import Listener, ignore
from dgdmn.networks.blueprint import Blueprint
from dgdmn.networks.denormals import flushed
from dgdmn.networks.generator import LearnerFactory
from dgdmn.presets import Preset, overridden, preset
from dgdmn.samples import Samples
from dgdmn.seeds import Seeds
from dgdmn.storage import bytes_in


@dataclass(eq=False, repr=False, kw_only=True)
class ContinualClassifier(ClassifierMixin, BaseEstimator, ABC):  # type: ignore[misc]
    """A classifier that learns one task after the other; algorithms say only what its memory is.

    `partial_fit` learns one task; `fit` forgets everything and learns X as one task. A call that fails
    or is interrupted leaves the estimator as it was. Hyper-parameters that are None are the preset's:
    `dgdmn.presets.Preset` says what each means and whence it comes. They are read when learning begins;
    a later `set_params` waits for the next `fit`.
    """

    preset: str | Preset = field(default="best", kw_only=False)
    """`best`, `paper`, `arrays`, `paper/hindi` and so on, or a Preset of your own."""
    learner_layers: tuple[int, ...] | None = None
    learner_convolutions: tuple[int, ...] | None = None
    n_classes: int | None = None
    min_steps: int | None = None
    batch_size: int | None = None
    learning_rate: float | None = None
    momentum: float | None = None
    rate: Literal["constant", "cycle"] | None = None
    learner: LearnerFactory | None = None
    """Makes learners of your own (`dgdmn.networks.generator`)."""
    value_range: tuple[Any, Any] | None = None
    """(low, high) of the values to come; left out, uint8 means 0-255, values in [0, 1] stay as they are,
    and any other range is that of the first task."""
    random_state: Any = None
    """An int makes everything repeatable."""
    device: str = "cpu"
    threads: int | None = None
    """torch threads to use; left out, as many as torch is set to."""
    listen: Listener | None = None
    """Is told of each epoch, replay and sleep (`dgdmn.events`)."""

    category: ClassVar[str]
    """How it meets forgetting, as the paper sorts them: none, representational overlap, slowdown, replay,
    exemplars; or the ceiling."""
    keeps: ClassVar[str]
    """What of the past the algorithm keeps, for people."""
    source: ClassVar[str]
    """Where it comes from."""

    @abstractmethod
    def _begin(self, blueprint: Blueprint, n_classes: int, seeds: Seeds) -> Memory:
        """An empty memory."""

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Forget everything, learn X as one task, and sleep."""
        with using_threads(self.threads), _undone_by_failure(self):
            X, y = self._validated(X, y, reset=True)
            learnt = self._fresh(X, y, None)
            listen = self.listen or ignore
            learnt.memory.learn("task 1", self._samples(learnt, X, y), learnt.seeds, listen)
            learnt.memory.sleep(learnt.seeds, listen)
            return self._commit(learnt)

    def partial_fit(
        self, X: ArrayLike, y: ArrayLike, classes: ArrayLike | None = None, *, task: str | None = None
    ) -> Self:
        """Learn one more task.

        Parameters
        ----------
        X : array of shape (n, d), (n, h, w) or (n, h, w, channels)
        y : array of shape (n,)
        classes : all labels that may ever come, named in the first call; left out, new ones may appear in any
        task : the task's descriptor; left out, DGDMN recognises a task it knows and takes any other as new
        """
        first = not self.__sklearn_is_fitted__()
        with using_threads(self.threads), _undone_by_failure(self):
            X, y = self._validated(X, y, reset=first)
            learnt = self._fresh(X, y, classes) if first else copy.deepcopy(self.learnt_)
            if not first and classes is not None:
                _check_same_classes(learnt, classes)
            self._make_room(learnt, y)
            new = self._samples(learnt, X, y)
            learnt.memory.learn(None if task is None else str(task), new, learnt.seeds, self.listen or ignore)
            return self._commit(learnt)

    def predict(self, X: ArrayLike, task: str | None = None) -> NDArray[Any]:
        """The label of each sample. The task only says which memory answers; it masks nothing."""
        return self._labels(self.predict_proba(X, task))

    def predict_proba(self, X: ArrayLike, task: str | None = None) -> NDArray[np.float64]:
        """Probability of each of `classes_`, shape (n, number of classes)."""
        return self._answers(
            X, lambda memory, x: memory.probabilities(x, None if task is None else str(task))
        )

    def save(self, path: str | Path) -> None:
        """Save what was learnt as a directory, complete or absent; `dgdmn.load` gives it back.

        An older memory there is replaced.
        """
        check_is_fitted(self)
        save(self, Path(path))

    def memory_bytes(self) -> int:
        """Bytes of all it keeps between two calls: weights and, in some algorithms, training rows."""
        check_is_fitted(self)
        return bytes_in(self.learnt_.memory.state())

    def exemplar_bytes(self) -> int:
        """Bytes of the training rows among them."""
        check_is_fitted(self)
        return bytes_in(self.learnt_.memory.state().get("rows"))

    def __sklearn_is_fitted__(self) -> bool:
        return "learnt_" in vars(self)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        tags.non_deterministic = False
        return tags

    def _answers(self, X: ArrayLike, ask: Any) -> NDArray[np.float64]:
        """What the memory answers for X, as probabilities of the sorted classes."""
        check_is_fitted(self)
        learnt = self.learnt_
        with using_threads(self.threads):
            x = self._inputs(learnt, self._validated(X, None, reset=False)[0])
            return learnt.named(ask(learnt.memory, x))

    def _labels(self, probabilities: NDArray[np.float64]) -> NDArray[Any]:
        labels: NDArray[Any] = self.classes_[probabilities.argmax(axis=1)]
        return labels

    def _fresh(self, X: NDArray[Any], y: NDArray[Any], classes: ArrayLike | None) -> Learnt:
        """Nothing learnt yet, ready for samples like these."""
        labels = list(np.unique(np.asarray(y if classes is None else classes)).tolist())
        if not labels:
            raise UsageError("classes is empty; give every label that may come, or leave it out")
        options = self._options()
        if options.n_classes and len(labels) > options.n_classes:
            raise UsageError(
                f"{len(labels)} classes but n_classes is {options.n_classes}; raise it, or 0 lets it grow"
            )
        seeds = seeds_of(self.random_state)
        shape, outputs = X.shape[1:], max(options.n_classes, len(labels))
        check_device(self.device)
        memory = self._begin(self._blueprint(shape), outputs, seeds)
        scaling = Scaling.fitted(X, self.value_range)
        closed = classes is not None
        return Learnt(memory, labels, scaling, seeds, shape, closed, outputs, options.n_classes, options)

    def _blueprint(self, shape: tuple[int, ...]) -> Blueprint:
        return Blueprint(self._options(), shape, self.device, own_learner=self.learner)

    def _options(self) -> Preset:
        """The preset with those of its fields that were given to the constructor."""
        if not isinstance(self.preset, str | Preset):
            raise UsageError(f"preset is {self.preset!r}; give a name, as in 'paper/hindi', or a Preset")
        chosen = self.preset if isinstance(self.preset, Preset) else preset(*self.preset.split("/", 1))
        own = vars(Preset()).keys() & self.get_params(deep=False).keys()
        return overridden(chosen, {name: getattr(self, name) for name in own})

    def _make_room(self, learnt: Learnt, y: NDArray[Any]) -> None:
        """Name new classes, and grow the output layer where its width is not fixed."""
        known = set(learnt.labels)
        new = [label for label in np.unique(y).tolist() if label not in known]
        if not new:
            return
        if learnt.closed:
            raise UsageError(
                f"label {new[0]!r} is not in classes; give every label that may come, or leave it out"
            )
        if isinstance(new[0], str) != isinstance(learnt.labels[0], str):
            raise UsageError(
                f"label {new[0]!r} is of another kind than {learnt.labels[0]!r}; use text or numbers"
            )
        learnt.labels += new
        n_fixed = learnt.n_fixed
        if n_fixed and len(learnt.labels) > n_fixed:
            raise UsageError(
                f"class {new[-1]!r} is one too many: n_classes is {n_fixed}; raise it, or 0 lets it grow"
            )
        if len(learnt.labels) > learnt.outputs:
            learnt.outputs = len(learnt.labels)
            learnt.memory.grow(learnt.outputs)

    def _samples(self, learnt: Learnt, X: NDArray[Any], y: NDArray[Any]) -> Samples:
        unit = {label: index for index, label in enumerate(learnt.labels)}
        indices = torch.tensor([unit[label] for label in y.tolist()])
        return Samples(self._inputs(learnt, X), indices.to(self.device))

    def _inputs(self, learnt: Learnt, X: NDArray[Any]) -> Tensor:
        """The door: numpy outside, torch inside."""
        if X.shape[1:] != learnt.shape:
            raise ValueError(
                f"X has samples of shape {X.shape[1:]}, but {type(self).__name__} is expecting {learnt.shape}"
            )
        if not learnt.warned and learnt.scaling.clips(X):
            learnt.warned = True
            warnings.warn(
                f"values outside {'value_range' if learnt.scaling.given else 'the range of the first task'} are "
                "clipped; give value_range=(low, high) of all values to come",
                stacklevel=4,
            )
        return torch.from_numpy(learnt.scaling.apply(X)).to(self.device)

    def _validated(self, X: Any, y: Any, *, reset: bool) -> tuple[NDArray[Any], NDArray[Any]]:
        checks: dict[str, Any] = {"reset": reset, "allow_nd": True, "ensure_all_finite": False}
        if y is None and reset is False:
            X = validate_data(self, X, **checks)
        else:
            X, y = validate_data(self, X, y, **checks)
            _check_labels(y)
        if X.size == 0:
            raise UsageError(f"X has shape {X.shape}: there is no value in it")
        if X.ndim > 4:
            raise UsageError(f"X has shape {X.shape}; it must be (n, d), (n, h, w) or (n, h, w, channels)")
        if X.dtype.kind == "f" and not np.isfinite(X).all():
            what = "NaN" if np.isnan(X).any() else "infinity"
            row = int(np.argmin(np.isfinite(X.reshape(len(X), -1)).all(axis=1)))
            raise UsageError(f"X contains {what} (first in row {row}); every value must be a finite number")
        return X, y

    def _commit(self, learnt: Learnt) -> Self:
        classes = learnt.sorted_labels()[0]  # what takes time comes first: an interrupt must not part the two
        self.learnt_, self.classes_ = learnt, classes
        return self


def seeds_of(random_state: Any) -> Seeds:
    """scikit-learn's `random_state` as our source of random generators."""
    return Seeds(int(check_random_state(random_state).randint(2**31 - 1)))


def check_device(device: str) -> None:
    """Refuse a device that torch does not have here."""
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise UsageError(f"device {device!r} cannot be used here ({reason}); 'cpu' can") from error


def _check_labels(y: NDArray[Any]) -> None:
    try:
        kinds = {type(label) for label in np.unique(y).tolist()}
    except TypeError as error:
        raise UsageError("y mixes labels of several kinds; use only text or only numbers") from error
    for kind in kinds - {str, int, float, bool}:
        raise UsageError(f"y has labels of kind {kind.__name__}; use text or numbers")
    check_classification_targets(y)


def _check_same_classes(learnt: Learnt, classes: ArrayLike) -> None:
    unknown: Sequence[Any] = [
        label for label in np.unique(np.asarray(classes)).tolist() if label not in learnt.labels
    ]
    if learnt.closed and unknown:
        raise UsageError(f"classes now names {unknown[0]!r}, which the first call did not; it cannot change")


@contextmanager
def _undone_by_failure(estimator: ContinualClassifier) -> Iterator[None]:
    """Give an estimator its attributes back: checking X notes the number of features before it is learnt."""
    before = dict(estimator.__dict__)
    try:
        yield
    except BaseException:
        estimator.__dict__ = before
        raise


@contextmanager
def using_threads(n: int | None) -> Iterator[None]:
    """Use n torch threads meanwhile, which take what is too small to be normal for zero."""
    if n is not None and (not isinstance(n, Integral) or n < 1):
        raise UsageError(f"threads is {n!r}; it must be a whole number of at least 1")
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(n or before)
        with flushed():
            yield
    finally:
        torch.set_num_threads(before)
