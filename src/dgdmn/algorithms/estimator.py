"""Base class of every algorithm: a scikit-learn classifier that learns incrementally."""

import copy
import threading
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self
from weakref import WeakSet

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_array, check_random_state, check_X_y
from sklearn.utils.validation import check_is_fitted, validate_data

from dgdmn.algorithms.checks import (
    Array,
    Weights,
    check_label_dtype,
    check_label_objects,
    check_labels,
    check_new_names,
    check_same_kind,
    check_values,
    drop_zero_weights,
    first_row,
)
from dgdmn.algorithms.fitted import (
    EstimatorInfo,
    FittedState,
    Inputs,
    Memory,
)
from dgdmn.algorithms.persistence import algorithm_name, save
from dgdmn.config import DEFAULT_PRESET, Config, override, resolve
from dgdmn.config.registry import algorithm_info
from dgdmn.core.batch import Batch
from dgdmn.core.errors import UsageError
from dgdmn.core.events import Callback, Context, ignore
from dgdmn.core.rng import SeedStream
from dgdmn.core.table import Columns, Table, is_frame, warn_about_names
from dgdmn.core.text import join_names
from dgdmn.features.tables import MAX_COLUMNS
from dgdmn.storage import State, bytes_in

Classes = ArrayLike | None


class Prepared(NamedTuple):
    """Inputs that `prepare` has translated already; every method that takes X takes them too."""

    inputs: Array


LEFT_OUT = ".*: dates in .* are left out"
"""The warning about columns of dates."""


@dataclass(eq=False, repr=False, kw_only=True)
class ContinualClassifier(ClassifierMixin, BaseEstimator, ABC):  # type: ignore[misc]
    """A classifier that learns one task after the other. An algorithm defines its memory.

    `partial_fit` learns one task; `fit` forgets everything and learns X as one task. A call that fails or is
    interrupted leaves the estimator as it was. A hyperparameter that is None comes from the preset; see
    `dgdmn.config.Config`. They are read when learning begins; a later `set_params` takes effect at the next
    `fit`.
    """

    preset: str | Config = field(default=DEFAULT_PRESET, kw_only=False)
    """`best`, `deep`, `paper`, `quick`, one for a stream such as `paper/hindi`, or your own Config."""
    n_classes: int | None = None
    random_state: Any = None
    """An int makes results repeatable."""
    threads: int | None = None
    """Threads of a call; None: OMP_NUM_THREADS, else 1."""
    callback: Callback | None = None
    """Is called with each event (`dgdmn.core.events`)."""
    text: tuple[str, ...] | None = None
    """Columns of a data frame that are sentences; other text is categories."""

    fills_missing: ClassVar[bool] = False
    """Whether rows of a table may have NaN."""
    uses_task_names: ClassVar[bool] = True
    """Whether the algorithm uses task names; if not, they are ignored."""

    @property
    def not_applicable(self) -> frozenset[str]:
        """What it does not have, of "epochs" and "randomness" (`dgdmn.testing.check_algorithm`)."""
        return frozenset()

    @abstractmethod
    def _new_inputs(self, X: Array, config: Config, weight: Weights = None) -> Inputs:
        """What translates inputs like X for the memory."""

    @abstractmethod
    def _load_inputs(self, state: State, shape: tuple[int, ...], config: Config) -> Inputs:
        """Restore the inputs from a saved state and remove their entry there."""

    @abstractmethod
    def _factory(self, config: Config, inputs: Inputs, shape: tuple[int, ...]) -> Any:
        """What `_new_memory` makes memories from: it has `config` and the `shape` of the memory's inputs."""

    @abstractmethod
    def _new_memory(self, factory: Any, n_classes: int, rng: SeedStream) -> Memory:
        """An empty memory."""

    def _empty_weights(self) -> AbstractContextManager[None]:
        """Inside this block memories are created without weights; the caller loads them next."""
        return nullcontext()

    @abstractmethod
    def _limits(self) -> AbstractContextManager[None]:
        """Context manager around every call: thread limits and floating-point mode."""

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Forget everything, learn X as one task, and sleep."""
        return self._learn(X, y, None, None, "task 1", restart=True)

    def partial_fit(
        self, X: ArrayLike, y: ArrayLike, classes: Classes = None, *, task: str | None = None
    ) -> Self:
        """Learn one more task.

        Parameters
        ----------
        X : array of shape (n, d), (n, h, w) or (n, h, w, channels)
        y : array of shape (n,)
        classes : all labels that may ever come, given in the first call; by default any call may bring new ones
        task : the task's name
        """
        return self._learn(X, y, classes, None, self._task_name(task))

    def _learn(
        self, X: Any, y: Any, classes: Any, weights: Any, task: str | None, restart: bool = False
    ) -> Self:
        """Learn one task; `restart` forgets everything before it and sleeps after it."""
        first = restart or not self.__sklearn_is_fitted__()
        with self._limits(), _transaction(self):
            X, y = self._validate(X, y, reset=first)
            X, y, weight = drop_zero_weights(X, y, weights)
            X = self._fill_missing(X, None if first else self.fitted_)
            fitted = self._begin(X, y, classes, weight) if first else self.fitted_.snapshot()
            if not first and fitted.closed and classes is not None:
                for label in sorted({*np.unique(np.asarray(classes)).tolist()} - {*fitted.labels}):
                    raise UsageError(f"classes has a new label, {label!r}; classes cannot change")
            self._add_classes(fitted, y)
            ctx = self._context(fitted)
            fitted.memory.learn(task, self._to_batch(fitted, X, y, weight), ctx)
            if restart:
                fitted.memory.sleep(ctx)
            return self._commit(fitted)

    def check_rows(self, X: ArrayLike, y: ArrayLike) -> None:
        """Raise the error that `partial_fit` would raise for these rows of one or more tasks; learn nothing."""
        trial, first = copy.copy(self), not self.__sklearn_is_fitted__()
        trial.random_state = 0  # a RandomState must not advance
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # `partial_fit` repeats them
            X, y = trial._validate(X, y, reset=first)
            X = trial._fill_missing(X, None if first else trial.fitted_)
            fitted = trial._begin(X, y, None) if first else trial.fitted_.snapshot()
            trial._add_classes(fitted, y)

    def predict(self, X: ArrayLike, task: str | None = None) -> Array:
        """The label of each sample. The task only chooses which memory answers; it masks no class."""
        return self._most_likely(self.predict_proba(X, task))

    def predict_proba(self, X: ArrayLike, task: str | None = None) -> NDArray[np.float64]:
        """Probability of each of `classes_`, shape (n, number of classes)."""
        name = self._task_name(task)
        return self._predict_with(X, lambda memory, x: memory.predict_proba(x, name))

    def prepare(self, X: ArrayLike) -> Prepared:
        """Translate X once. The result can be passed to `predict` and other methods instead of X."""
        check_is_fitted(self)
        with self._limits():
            return Prepared(self._to_inputs(X))

    def prepare_unclipped(self, X: ArrayLike) -> Prepared:
        """The same, but values outside the learned range are not clipped: those of noise, for instance."""
        check_is_fitted(self)
        with self._limits():
            return Prepared(self.fitted_.inputs.apply_unclipped(np.asarray(X)))

    def rename(
        self, *, labels: Mapping[Any, Any] | None = None, tasks: Mapping[str, str] | None = None
    ) -> Self:
        """Give labels or tasks new names, {old: new}; a name that is in use is refused."""
        check_is_fitted(self)
        with self._limits(), exclusive_learning(self):
            fitted = self.fitted_.snapshot()
            if labels:
                fitted.rename_labels(labels)
            if tasks:
                rename_tasks = getattr(fitted.memory, "rename_tasks", None)
                if rename_tasks is None:
                    raise UsageError(f"{type(self).__name__} keeps no names of tasks")
                info = self.info()
                known = {**info.consolidated, **info.awake} or getattr(fitted.memory, "tasks", {})
                rename_tasks(check_new_names("task", known, tasks))
            return self._commit(fitted)

    def save(self, path: str | Path) -> None:
        """Save what was learned as a directory, complete or absent; `dgdmn.load` reads it.

        An older memory there is replaced.
        """
        check_is_fitted(self)
        save(self, Path(path))

    def memory_bytes(self) -> int:
        """Bytes of all it keeps between two calls: weights or sums, a front end's scale, training rows."""
        check_is_fitted(self)
        return bytes_in(self.fitted_.memory.state()) + self.fitted_.feature_bytes()

    def exemplar_bytes(self) -> int:
        """Bytes of stored training rows, a part of `memory_bytes`."""
        check_is_fitted(self)
        return bytes_in(self.fitted_.memory.state().get("rows"))

    def info(self) -> EstimatorInfo:
        """A summary: algorithm, tasks, options, bytes."""
        check_is_fitted(self)
        about, fitted = algorithm_info(algorithm_name(type(self))), self.fitted_
        labels, sizes = tuple(fitted.labels), (self.memory_bytes(), self.exemplar_bytes())
        return EstimatorInfo(about.name, about.title, fitted.config, fitted.shape, labels, *sizes)

    def __sklearn_is_fitted__(self) -> bool:
        return "fitted_" in vars(self)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        tags.input_tags.allow_nan = self._can_fill()
        tags.non_deterministic = False
        return tags

    def _predict_with(self, X: ArrayLike, predict_memory: Any) -> NDArray[np.float64]:
        """Apply `predict_memory(memory, inputs)` and return probabilities of the sorted classes."""
        check_is_fitted(self)
        fitted = self.fitted_
        with self._limits():
            return fitted.class_probabilities(predict_memory(fitted.memory, self._to_inputs(X)))

    def _to_inputs(self, X: ArrayLike) -> Array:
        """Validated inputs as the memory sees them, one flat row per sample."""
        if isinstance(X, Prepared):
            return X.inputs
        X = self._validate(X, None, reset=False)[0]
        return self._translate(self.fitted_, self._fill_missing(X, self.fitted_))

    def _most_likely(self, probabilities: NDArray[np.float64]) -> Array:
        labels: Array = self.classes_[probabilities.argmax(axis=1)]
        return labels

    def _task_name(self, task: Any) -> str | None:
        """The name of one task; a column of names is refused, because one call learns one task."""
        if task is None or not self.uses_task_names:
            return None
        if isinstance(task, list) or getattr(task, "ndim", 0) > 0:
            advice = "call partial_fit once for each task"
            raise UsageError(f"task has a name for each row; it must be one name: {advice}")
        return str(task)

    def _context(self, fitted: FittedState) -> Context:
        return Context(fitted.rng, self.callback or ignore)

    def _begin(self, X: Array, y: Array, classes: Any, weight: Weights = None) -> FittedState:
        """The state of an untrained model for inputs of this shape."""
        labels = list(np.unique(np.asarray(y if classes is None else classes)).tolist())
        if not labels:
            raise UsageError("classes is empty; give every label that may come, or leave it out")
        config, shape = self.resolve_config(), X.shape[1:]
        check_labels(labels, config.n_classes)
        rng, outputs = seed_stream(self.random_state), max(config.n_classes, len(labels))
        inputs, closed = self._new_inputs(X, config, weight), classes is not None
        memory = self._new_memory(self._factory(config, inputs, shape), outputs, rng)
        return FittedState(memory, labels, inputs, rng, shape, closed, outputs, config)

    def resolve_config(self) -> Config:
        """The preset, overridden by what was passed to the constructor."""
        if not isinstance(self.preset, str | Config):
            raise UsageError(f"preset is {self.preset!r}; give a name or a Config")
        chosen = self.preset if isinstance(self.preset, Config) else resolve(self.preset)
        return override(chosen, self._given_options())

    def _given_options(self) -> dict[str, Any]:
        """Options passed to the constructor; None keeps the preset's. A function is not an option."""
        own = vars(Config()).keys() & self.get_params(deep=False).keys()
        return {name: None if callable(value := getattr(self, name)) else value for name in own}

    def _add_classes(self, fitted: FittedState, y: Array) -> None:
        """Register new labels, and grow the output layer where its width is not fixed."""
        known = set(fitted.labels)
        new = [label for label in np.unique(y).tolist() if label not in known]
        if not new:
            return
        label = f"label {new[0]!r}"
        if fitted.closed:
            raise UsageError(f"{label} is not in classes; name every label, or leave it out")
        check_same_kind(label, new[0], fitted.labels[0])
        fitted.labels += new
        check_labels(fitted.labels, fitted.config.n_classes)
        if len(fitted.labels) > fitted.outputs:
            fitted.outputs = len(fitted.labels)
            fitted.memory.grow(fitted.outputs)

    def _to_batch(self, fitted: FittedState, X: Array, y: Array, weight: Weights) -> Batch:
        unit = {label: index for index, label in enumerate(fitted.labels)}
        indices = np.array([unit[label] for label in y.tolist()], dtype=np.int64)
        return Batch(self._translate(fitted, X), indices, fitted.inputs.raw(X), weight)

    def _translate(self, fitted: FittedState, X: Array) -> Array:
        if X.shape[1:] != fitted.shape:
            expected = f"{type(self).__name__} is expecting {fitted.shape}"
            raise ValueError(f"X has samples of shape {X.shape[1:]}, but {expected}")
        if not fitted.warned and fitted.inputs.clips(X):
            fitted.warned = True
            source = "value_range" if fitted.inputs.given else "the range of the first task"
            advice = "give value_range=(low, high) of all values to come"
            warnings.warn(f"values outside {source} are clipped; {advice}", stacklevel=5)
        return fitted.inputs.apply(X)

    def _validate(self, X: Any, y: Any, *, reset: bool) -> tuple[Array, Array]:
        checks: dict[str, Any] = {"reset": reset, "allow_nd": True, "ensure_all_finite": False}
        if getattr(getattr(X, "dtype", None), "kind", "") in ("m", "M"):
            raise UsageError(f"X has dtype {X.dtype}; dates and times must be made numbers first")
        if isinstance(y, list | tuple) or getattr(getattr(y, "dtype", None), "kind", "") == "O":
            check_label_objects(y)
        given, X = X, self._read_table(X, reset=reset, learning=y is not None)
        if X is not given and isinstance(X, np.ndarray):  # a table; its columns are checked already
            del checks["reset"]
            X, y = (check_array(X, **checks), y) if y is None else check_X_y(X, y, **checks)
        elif y is None and reset is False:
            X = validate_data(self, X, **checks)
        else:
            X, y = validate_data(self, X, y, **checks)
        if y is not None:
            check_label_dtype(y)
        if X.size == 0:
            raise UsageError(f"X has shape {X.shape}; it must contain values")
        X = np.ascontiguousarray(X)  # a data frame is not, and sums would differ in the last bit
        if X.ndim > 4:
            raise UsageError(f"X has shape {X.shape}; it must be (n, d), (n, h, w) or (n, h, w, c)")
        check_values(X, learning=y is not None)
        return X, y

    def _read_table(self, X: Any, *, reset: bool, learning: bool) -> Any:
        """A table or data frame by the names of its columns; anything else as it is.

        Returns a data frame if it has nothing but numbers, because scikit-learn keeps their type. Else returns
        what `columns_` makes of it, an array.
        """
        known: Columns | None = getattr(self, "columns_", None)
        if reset:
            known = None
            self.__dict__.pop("columns_", None)
        if not is_frame(X):
            if known is not None and not known.is_numeric:
                have = join_names(known.names)
                raise UsageError(f"X has no column names; pass a table with the columns {have}")
            if reset and self.text:
                raise UsageError("text names columns, but X has no names; pass a data frame")
            return X
        dtypes = list(getattr(X, "dtypes", ()))
        plain = all(isinstance(t, np.dtype) and t.kind in "uif" for t in dtypes)
        numbers = bool(dtypes) and plain and not (reset and self.text)
        if numbers and known is not None and known.is_numeric:
            known.check_names([*X.columns], "X")
            return X[list(known.names)]
        if numbers and known is None:
            names = tuple(X.columns)
            if reset and all(isinstance(name, str) for name in names):
                self.columns_ = Columns.all_numeric(names)
            return X
        with warnings.catch_warnings():
            if not reset:  # the first call has said it
                warnings.filterwarnings("ignore", LEFT_OUT)
            table = Table.from_frame(X)
        columns = known or Columns.fit(table, self.text or ())
        if reset:
            warn_about_names(table, columns)
            self.n_features_in_ = len(columns.names)
            self.feature_names_in_ = np.array(columns.names, dtype=object)
        elif known is None and not columns.is_numeric:
            raise UsageError(f"{table.source} has text, but the memory has learned numbers only")
        if not learning:
            return columns.encode(table, unlearned=np.nan if self._can_fill() else 0.0)
        encoded = columns.encode(table)
        if reset or known is not None:
            self.columns_ = columns.learn(table)
        return encoded

    def _can_fill(self) -> bool:
        """Whether rows of a table may lack values: a user's features, and rows that are images, may not."""
        own = callable(getattr(self, "features", None))
        return self.fills_missing and not own and getattr(self, "image_shape", None) is None

    def _fill_missing(self, X: Array, fitted: FittedState | None) -> Array:
        """X without NaN as far as the memory needs it; `fitted` is None in the first call."""
        if X.dtype.kind != "f" or not (missing := np.isnan(X)).any():
            return X
        place = f"X contains NaN (first in row {first_row(missing)})"
        if X.ndim > 2:
            raise UsageError(f"{place}; images must have all values")
        if not self._can_fill():
            advice = "fill missing values first, or use DGDMN with its own features"
            raise UsageError(f"{place}; {advice}")
        if X.shape[1] > MAX_COLUMNS:
            raise UsageError(f"{place}; values are filled in at most {MAX_COLUMNS:,} columns")
        return self._fill(X, fitted)

    def _fill(self, X: Array, fitted: FittedState | None) -> Array:
        """Rows of a table that may have NaN, as `_new_inputs` and `Inputs.apply` take them."""
        return X

    def _commit(self, fitted: FittedState) -> Self:
        classes = fitted.sorted_labels()[0]  # first: an interrupt must not separate the two
        self.fitted_, self.classes_ = fitted, classes
        return self


class WeightedClassifier(ContinualClassifier):
    """A classifier of sums: a row of weight 2 counts as the row twice, a row of weight 0 is not there."""

    fills_missing: ClassVar[bool] = True

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Forget everything, learn X as one task, and sleep."""
        return self._learn(X, y, None, sample_weight, "task 1", restart=True)

    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        classes: Classes = None,
        sample_weight: ArrayLike | None = None,
        *,
        task: str | None = None,
    ) -> Self:
        """Learn one more task.

        Parameters
        ----------
        X : array of shape (n, d), (n, h, w) or (n, h, w, channels)
        y : array of shape (n,)
        classes : all labels that may ever come, given in the first call; by default any call may bring new ones
        sample_weight : how often each row counts, shape (n,); by default once
        task : the task's name; without one, DGDMN recognizes a task it knows and takes any other as new
        """
        return self._learn(X, y, classes, sample_weight, self._task_name(task))


def seed_stream(random_state: Any) -> SeedStream:
    """scikit-learn's `random_state` as a source of random generators."""
    return SeedStream(int(check_random_state(random_state).randint(2**31 - 1)))


_guard = threading.Lock()
_learning: "WeakSet[ContinualClassifier]" = WeakSet()
"""Estimators inside a call that learns."""


@contextmanager
def exclusive_learning(estimator: "ContinualClassifier") -> Iterator[None]:
    """Allow one learning call at a time: a second one, from a thread or a callback, would lose a task."""
    with _guard:
        if estimator in _learning:
            raise UsageError("this model is learning in another call; wait until that call ends")
        _learning.add(estimator)
    try:
        yield
    finally:
        _learning.discard(estimator)


@contextmanager
def _transaction(estimator: "ContinualClassifier") -> Iterator[None]:
    """Restore the estimator, and a RandomState it was given, if the block fails."""
    with exclusive_learning(estimator):
        before, source = dict(estimator.__dict__), estimator.random_state
        drawn = source.get_state() if isinstance(source, np.random.RandomState) else None
        try:
            yield
        except BaseException:
            estimator.__dict__ = before
            if drawn is not None:
                source.set_state(drawn)
            raise
