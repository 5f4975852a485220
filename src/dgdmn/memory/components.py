"""Sums of the mixture memory: a component for each class within a task, and the regression from code to inputs.

All values are immutable: a change makes a new one.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

from dgdmn.core.table import MAX_VALUE
from dgdmn.memory.code import DECODER_DIM, MixtureSpec, encode, triangle_bytes
from dgdmn.memory.gaussian import Doubles, as_count, center_rows, gram, pack, shrink, unpack
from dgdmn.memory.unknown import BINS, SKETCH_BYTES, Counts, empty_sketch
from dgdmn.storage import State, get_int, get_typed, to_numpy
from dgdmn.storage.checks import MAX_COUNT, row_count


@dataclass(frozen=True, eq=False)
class Component:
    """What is kept of one class within a task."""

    task: str
    label: int
    """Class index."""
    n: float
    """Rows, or the sum of their weights."""
    mean: NDArray[Any]
    """Mean of the features, shape (d,); float32 after the budget was exceeded."""
    scatter: NDArray[Any]
    """Scatter of the leading code about the mean, shape (q', q')."""
    sketch: Counts = field(default_factory=empty_sketch)
    """Histogram of the relative scores of tested rows."""

    def merge(self, other: "Component", code: Doubles) -> Self:
        """Both components as one (Chan's formula); `code` is U."""
        n, q = self.n + other.n, min(len(self.scatter), len(other.scatter))
        difference = other.mean.astype(np.float64) - self.mean
        between = encode(difference[None], code)[0, :q]
        scatter = self.scatter[:q, :q].astype(np.float64) + other.scatter[:q, :q]
        return replace(
            self,
            n=as_count(n),
            mean=self.mean + (other.n / n) * difference,
            scatter=scatter + self.n * other.n / n * np.outer(between, between),
            sketch=self.sketch + other.sketch,
        )

    def remove_rows(self, part: "Component", code: Doubles) -> Self:
        """Return the component without some of its rows, but not all."""
        return self.merge(replace(part, n=-part.n, scatter=-part.scatter), code)

    def between_vector(self, other: "Component") -> Doubles:
        """The vector whose outer product a merge of both adds to the pooled scatter."""
        difference = other.mean.astype(np.float64) - self.mean
        vector: Doubles = math.sqrt(self.n * other.n / (self.n + other.n)) * difference
        return vector

    @property
    def nbytes(self) -> int:
        scatter = triangle_bytes(len(self.scatter), self.scatter.itemsize)
        return int(self.mean.nbytes) + scatter + SKETCH_BYTES

    def state(self) -> State:
        return {**vars(self), "scatter": pack(self.scatter)}

    @classmethod
    def load(cls, state: State, spec: MixtureSpec, n_classes: int) -> Self:
        """Load what `state` returned; every value is checked."""
        floats = (np.float64, np.float32)
        label = get_int(state, "label", 0, n_classes - 1)
        packed = np.array(to_numpy(state["scatter"]))
        q = int((math.sqrt(1 + 8 * packed.size) - 1) / 2)
        if packed.ndim != 1 or q * (q + 1) // 2 != packed.size or q > spec.q:
            raise ValueError(
                f"scatter has shape {packed.shape}; it must be a triangle of at most {spec.q}"
            )
        if packed.dtype.type not in floats:
            raise ValueError(f"scatter is {packed.dtype}; it must be float64 or float32")
        scatter = unpack(packed.astype(np.float64), q)
        check_scatter(scatter)
        mean = load_array(state, "mean", (spec.d,), floats)
        if np.abs(mean).max() > MAX_VALUE * 1.001:
            raise ValueError("a mean is too large")
        return cls(
            get_typed(state, "task", str),
            label,
            row_count(state, "n", 1),
            mean,
            scatter.astype(packed.dtype),
            load_array(state, "sketch", (BINS,), (np.uint32,)),
        )


@dataclass(frozen=True, eq=False)
class CrossMoment:
    """Sums over inputs x and their code z, from which the linear map from code to input follows."""

    n: float
    mean_x: Doubles
    mean_z: Doubles
    scatter: Doubles
    """Σ (x − mean)(z − mean)', shape (inputs, code)."""
    bounds: Doubles = field(default_factory=lambda: np.zeros(2))
    """The smallest and the largest input value; decoded values are clipped to them."""

    @classmethod
    def empty(cls, spec: MixtureSpec) -> Self | None:
        """The sums before any row; None where inputs are not decoded."""
        if not spec.n_inputs:
            return None
        p, r = spec.n_inputs, min(DECODER_DIM, spec.q)
        return cls(0, np.zeros(p), np.zeros(r), np.zeros((p, r)))

    def add(self, x: NDArray[Any], z: Doubles, weight: Doubles | None = None) -> Self:
        """The sums with more rows (Chan's formula)."""
        x = np.asarray(x, np.float64)
        (mean_x, centered_x), (mean_z, centered_z) = (center_rows(rows, weight) for rows in (x, z))
        n, bounds = len(z) if weight is None else weight.sum(), np.array([x.min(), x.max()])
        return self.merge(
            CrossMoment(as_count(n), mean_x, mean_z, centered_x.T @ centered_z, bounds)
        )

    def merge(self, other: "CrossMoment") -> Self:
        """The sums of both sets of rows."""
        n = as_count(self.n + other.n)
        share = other.n / (n or 1)
        difference_x, difference_z = other.mean_x - self.mean_x, other.mean_z - self.mean_z
        scatter = (
            self.scatter + other.scatter + self.n * share * np.outer(difference_x, difference_z)
        )
        means = self.mean_x + share * difference_x, self.mean_z + share * difference_z
        both = np.stack([moment.bounds for moment in (self, other) if moment.n] or [self.bounds])
        return type(self)(n, *means, scatter, np.array([both[:, 0].min(), both[:, 1].max()]))

    def decode(self, z: Doubles, code_scatter: Doubles) -> NDArray[np.float32]:
        """Inputs by linear regression on the code."""
        shrunk = shrink(code_scatter, 0.001, np.diag(code_scatter))
        inputs = self.mean_x + (z - self.mean_z) @ np.linalg.solve(shrunk, self.scatter.T)
        return np.clip(inputs, *self.bounds).astype(np.float32)


def sum_rows(
    x: Doubles, y: NDArray[np.int64], weight: Doubles | None, task: str, code: Doubles
) -> tuple[list[Component], Doubles]:
    """A component of the rows of each class, and each row minus the mean of its class."""
    parts, centered = [], np.empty_like(x)
    for label in np.unique(y).tolist():
        rows = y == label
        own = None if weight is None else weight[rows]
        mean, centered[rows] = center_rows(x[rows], own)
        n = as_count(rows.sum() if own is None else own.sum())
        parts.append(Component(task, label, n, mean, gram(encode(centered[rows], code))))
    return parts, centered


def stack_means(components: Sequence[Component]) -> tuple[Doubles, Doubles]:
    """Row counts and means of components in float64, shapes (k,) and (k, d)."""
    counts = np.array([component.n for component in components], dtype=np.float64)
    return counts, np.stack([component.mean for component in components]).astype(np.float64)


def cut_scatter(component: Component, q: int, dtype: type | None = None) -> Component:
    """The component with the leading block q × q of its scatter, in another type; itself if nothing changes."""
    mean = component.mean.astype(dtype or component.mean.dtype, copy=False)
    scatter = component.scatter.astype(dtype or component.scatter.dtype, copy=False)
    if len(scatter) == q and mean is component.mean and scatter is component.scatter:
        return component
    return replace(component, mean=mean, scatter=np.ascontiguousarray(scatter[:q, :q]))


def load_array(
    state: State, name: str, shape: tuple[int, ...], kinds: tuple[type, ...] = (np.float64,)
) -> Any:
    """The array of a saved state; it must have this shape and one of these types."""
    array = np.array(to_numpy(state[name]))
    if array.shape != shape or array.dtype.type not in kinds:
        raise ValueError(f"{name} is {array.dtype} of shape {array.shape}; it must be {shape}")
    return array


def check_scatter(scatter: Doubles) -> None:
    """Raise ValueError if a scatter is not positive semidefinite up to the rounding of float32."""
    variance = np.diag(scatter)
    if (variance < 0).any() or (variance > MAX_COUNT * MAX_VALUE**2).any():
        raise ValueError("a scatter is not positive")
    unit = 1 / np.sqrt(np.where(variance > 0, variance, 1))
    scaled = scatter * unit[:, None] * unit
    scaled[np.diag_indices_from(scaled)] += 1e-4
    if len(scaled) and lapack.dpotrf(scaled, lower=1)[1]:
        raise ValueError("a scatter is not positive")
