"""What algorithms of exact sums share: a front end, and a setting chosen by rows tested before they are learned."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import cache
from numbers import Integral
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

from dgdmn.algorithms.estimator import ContinualClassifier
from dgdmn.algorithms.fitted import EstimatorInfo, FittedState, Inputs
from dgdmn.config import Config, default_threads
from dgdmn.core.batch import Batch
from dgdmn.core.errors import UsageError
from dgdmn.core.events import Context
from dgdmn.features import FeatureFunction, FrontEnd
from dgdmn.memory import gaussian
from dgdmn.memory.components import load_array
from dgdmn.memory.gaussian import Doubles, Moments
from dgdmn.storage import State, to_numpy

HELD_OUT = 8
"""One row in this many is tested before it is learned."""


@dataclass(frozen=True)
class FeatureSpec:
    """What the memory of a closed-form algorithm is made from."""

    config: Config
    shape: tuple[int]
    """(number of features,)"""


@dataclass(eq=False, repr=False, kw_only=True)
class ClosedFormClassifier(ContinualClassifier):
    """A classifier of exact sums. Its memory sees features in float64; no network, no epochs, no randomness."""

    features: str | FeatureFunction | None = None
    """`auto`, `gabor` (images), `relu` (tables), `none`, or a function from inputs to an array (n, d)."""
    code_seed: int | None = None
    image_shape: tuple[int, ...] | None = None
    """(height, width) or (height, width, channels) of flat rows that are images."""
    scale: Any = None
    """(center, spread) of the columns for `relu`; by default those of the first call."""

    @property
    def not_applicable(self) -> frozenset[str]:
        """Sums have no epochs and no randomness."""
        return frozenset({"epochs", "randomness"})

    def _new_inputs(self, X: NDArray[Any], config: Config, weight: Doubles | None = None) -> Inputs:
        features = self.features if callable(self.features) else config.features
        given: dict[str, Any] = {"image_shape": self.image_shape, "scale": self.scale}
        return FrontEnd.fit(X, features, seed=config.code_seed, weight=weight, **given)

    def _load_inputs(self, state: State, shape: tuple[int, ...], config: Config) -> Inputs:
        own = self.features if callable(self.features) else None
        return FrontEnd.restore(state.pop("features"), shape, own)

    def _factory(self, config: Config, inputs: Inputs, shape: tuple[int, ...]) -> FeatureSpec:
        assert isinstance(inputs, FrontEnd)
        return FeatureSpec(config, (inputs.n_features,))

    def _fill(self, X: NDArray[Any], fitted: FittedState | None) -> NDArray[Any]:
        return fill_columns(X, fitted)

    def _limits(self) -> AbstractContextManager[None]:
        return limit_threads(self.threads)

    def info(self) -> EstimatorInfo:
        """A summary: algorithm, options, bytes, the shrinkage chosen."""
        memory = self.fitted_.memory if self.__sklearn_is_fitted__() else None
        chosen = {"shrinkage": memory.setting} if isinstance(memory, SumsMemory) else {}
        return replace(super().info(), chosen=chosen)


def fill_columns(X: NDArray[Any], fitted: FittedState | None) -> NDArray[Any]:
    """Rows with missing values replaced by their means given the other values of the row.

    The moments are those of what a memory has learned, or of these rows if they are the first.
    """
    if fitted is None:
        return gaussian.fill_from_rows(X)
    assert isinstance(fitted.inputs, FrontEnd)
    inputs, moments = fitted.inputs, fitted.memory.column_moments(X.shape[1])  # type: ignore[attr-defined]
    filled = gaussian.fill_missing(inputs.to_columns(X), *moments)
    return np.where(np.isnan(X), inputs.from_columns(filled), X)


@contextmanager
def limit_threads(n: int | None) -> Iterator[None]:
    """Limit the threads of numpy's linear algebra inside this block; None: OMP_NUM_THREADS, else 1."""
    is_number = isinstance(n, Integral) and not isinstance(n, bool)
    if n is not None and not (is_number and 1 <= n <= 1024):
        raise UsageError(f"threads is {n!r}; it must be a whole number in [1, 1024]")
    with _controller().limit(limits=int(n or default_threads()), user_api="blas"):
        yield


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


class Sums(Protocol):
    """Sums over rows, from which a linear classifier follows for any setting."""

    def add(self, x: Doubles, y: NDArray[np.int64], weight: Doubles | None) -> Self:
        """The sums with more rows."""

    def head(self, setting: float) -> tuple[Doubles, Doubles]:
        """Weights (d, classes) and biases (classes,) of the classifier; a class without rows has −∞."""

    def grow(self, k: int) -> Self:
        """The sums with more classes."""

    def state(self) -> State:
        """All arrays by name."""

    def load(self, state: State) -> Self:
        """Sums like these with the arrays of a state."""


class SumsMemory:
    """A memory of sums. One new row in eight is tested with every setting before it is learned.

    The counts of right answers choose the setting. Rows are tested against all classes known so far: with one
    class per task, the current task alone would say nothing.
    """

    def __init__(self, sums: Sums, settings: Sequence[float]) -> None:
        self.sums, self.settings = sums, tuple(settings)
        self.right = np.zeros(len(self.settings), dtype=np.int64)
        """Right answers of each setting on rows tested before they were learned."""
        self._head: tuple[Doubles, Doubles] | None = None  # derived from the sums, never saved

    @property
    def setting(self) -> float:
        """The setting with the most correct predictions; of ties, the middle one."""
        best = np.flatnonzero(self.right == self.right.max())
        return self.settings[int(best[len(best) // 2])]

    def learn(self, task: str | None, new: Batch, ctx: Context) -> None:
        """Add rows to the sums, after testing some of them if there is something to choose."""
        x, y, weight = np.asarray(new.x, np.float64), np.asarray(new.y), new.weight
        tested = np.arange(len(y)) % HELD_OUT == HELD_OUT - 1
        if len(self.settings) > 1 and tested.any():
            first, weight = (None, None) if weight is None else (weight[~tested], weight[tested])
            self.sums = self.sums.add(x[~tested], y[~tested], first)
            answers = [_scores(x[tested], self.sums.head(one)) for one in self.settings]
            right = [int((one.argmax(axis=1) == y[tested]).sum()) for one in answers]
            self.right = self.right + np.array(right, dtype=np.int64)
            x, y = x[tested], y[tested]
        self.sums, self._head = self.sums.add(x, y, weight), None

    def sleep(self, ctx: Context) -> None:
        """Do nothing: there is no short-term memory."""

    def predict_proba(self, x: NDArray[Any], task: str | None) -> Doubles:
        """Class probabilities; classes without rows have none."""
        if self._head is None:
            self._head = self.sums.head(self.setting)
        return gaussian.softmax(_scores(np.asarray(x, np.float64), self._head))

    def column_moments(self, d: int) -> tuple[Doubles, Doubles, float]:
        """Mean and covariance of the first d features of all rows, and their number."""
        assert isinstance(self.sums, GaussianSums)
        return self.sums.moments.pooled(d)

    def grow(self, n_classes: int) -> None:
        self.sums, self._head = self.sums.grow(n_classes), None

    def state(self) -> State:
        return {**self.sums.state(), "right": self.right}

    def load_state(self, state: State) -> None:
        right = np.array(to_numpy(state["right"]))
        if right.shape != self.right.shape or right.dtype != np.int64 or (right < 0).any():
            raise ValueError(f"right has shape {right.shape}; it must have {self.right.shape}")
        self.sums, self.right, self._head = self.sums.load(state), right, None


def _scores(x: Doubles, head: tuple[Doubles, Doubles]) -> Doubles:
    weights, bias = head
    return x @ weights + bias


@dataclass(frozen=True, eq=False)
class GaussianSums:
    """Class means and the pooled scatter, or its diagonal: Gaussians that share one covariance."""

    moments: Moments

    def add(self, x: Doubles, y: NDArray[np.int64], weight: Doubles | None) -> Self:
        return type(self)(self.moments.add(x, y, weight))

    def head(self, setting: float) -> tuple[Doubles, Doubles]:
        """The linear discriminant with shrinkage `setting`; all classes weigh the same."""
        covariance, means, total = self.moments.covariance, self.moments.means, self.moments.total
        if covariance.ndim == 1:
            weights = (means / np.where(total > 0, total, 1.0)).T
        else:
            weights = gaussian.solve(gaussian.shrink(covariance, setting, total), means.T)
        bias = -0.5 * np.einsum("kd,dk->k", means, weights)
        return weights, np.where(self.moments.counts > 0, bias, -np.inf)

    def grow(self, k: int) -> Self:
        return type(self)(self.moments.grow(k))

    def state(self) -> State:
        one = self.moments
        scatter = one.scatter if one.scatter.ndim == 1 else gaussian.pack(one.scatter)
        return {"counts": one.counts, "means": one.means, "scatter": scatter}

    def load(self, state: State) -> Self:
        k, d = self.moments.means.shape
        diagonal = self.moments.scatter.ndim == 1
        counts, means = load_array(state, "counts", (k,)), load_array(state, "means", (k, d))
        scatter = load_array(state, "scatter", (d if diagonal else d * (d + 1) // 2,))
        scatter = scatter if diagonal else gaussian.unpack(scatter, d)
        if (counts < 0).any() or ((scatter if diagonal else np.diag(scatter)) < 0).any():
            raise ValueError("a count or a variance is negative")
        return type(self)(Moments(counts, means, scatter))
