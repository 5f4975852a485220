"""Features of tables: columns on a frozen scale and random ReLU units of them, or the columns themselves."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dgdmn.core.errors import UsageError
from dgdmn.storage import State, to_numpy

Doubles = NDArray[np.float64]

MAX_COLUMNS = 1_024
"""A wider table is projected to this many features: a pooled scatter of more would not fit 8 MB."""
RELU_FEATURES = 1_000
"""Columns and ReLU units together."""
HINGES = (0.1, 4.0)
"""Range of the standard deviation of hinges on the asinh scale; an upper end of 8 is no better (docs/LOG.md)."""
OFFSET = 0.05
"""Deviations between the stored center and the mean, so that the center is never a training row."""
_SCALE_KEYS = ("center", "spread")


@dataclass(frozen=True, eq=False)
class Scale:
    """Center and deviation of each column, frozen at the first call."""

    center: Doubles
    spread: Doubles
    """Deviation; 1 where the column was constant in the first call."""

    @classmethod
    def fit(cls, X: Doubles, seed: int, weight: Doubles | None = None) -> Self:
        """The scale of the first rows; raises an error for one row or equal rows, which have none."""
        mean, spread = X.mean(axis=0), X.std(axis=0)
        if weight is not None:
            mean = weight @ X / weight.sum()
            spread = np.sqrt(weight @ (X - mean) ** 2 / weight.sum())
        varies = spread > 1e-9 * np.abs(X).max(axis=0)
        if not varies.any():
            what = "1 sample, which has" if len(X) == 1 else f"{len(X)} equal samples, which have"
            raise UsageError(
                f"the first call has {what} no scale; begin with different rows, pass "
                "scale=(center, spread), or use features='none'"
            )
        spread = np.where(varies, spread, 1.0)
        sign = np.random.default_rng([seed, 3]).choice([-1.0, 1.0], X.shape[1])
        return cls(mean + OFFSET * sign * spread, spread)

    @classmethod
    def parse(cls, scale: Any, n_columns: int) -> Self:
        """The scale a user gives as (center, spread): numbers, or one for each column."""
        try:
            center, spread = (
                np.array(np.broadcast_to(np.asarray(part, np.float64), n_columns)) for part in scale
            )
        except (TypeError, ValueError) as error:
            raise UsageError(
                f"scale is {scale!r}; it must be (center, spread), numbers or one for each column"
            ) from error
        if not (np.isfinite(center).all() and np.isfinite(spread).all() and (spread > 0).all()):
            raise UsageError("scale must have finite centers and spreads above 0")
        return cls(center, spread)

    @classmethod
    def restore(cls, state: State, n_columns: int) -> Self:
        """Load what `state` returned."""
        center, spread = (np.array(to_numpy(state[key]), dtype=np.float64) for key in _SCALE_KEYS)
        if {center.shape, spread.shape} != {(n_columns,)} or not (spread > 0).all():
            shapes = f"{center.shape} and {spread.shape}"
            raise ValueError(f"the scale of {n_columns} columns has arrays of shapes {shapes}")
        return cls(center, spread)

    def state(self) -> State:
        return dict(zip(_SCALE_KEYS, (self.center, self.spread), strict=True))

    def apply(self, X: Doubles) -> Doubles:
        return (X - self.center) / self.spread


class ReluUnits:
    """Random units max(0, w · asinh(z) − t) of standardized columns z. Weights and hinges come from the seed.

    asinh bounds large values: if the first task has one class, later classes can be 100 deviations away.
    A unit sees from one column to all of them; the number is log-uniform. Few columns suit binary and heavy-tailed
    data, many suit embeddings.
    """

    def __init__(self, n_columns: int, n_units: int, seed: int) -> None:
        self.n_columns, self.n_units, self.seed = n_columns, n_units, seed

    def __call__(self, z: Doubles) -> Doubles:
        weights, hinges = self._parameters
        units: Doubles = np.maximum(np.arcsinh(z) @ weights - hinges, 0)
        return units

    @cached_property
    def _parameters(self) -> tuple[Doubles, Doubles]:
        rng = np.random.default_rng([self.seed, 4])
        shape = (self.n_columns, self.n_units)
        weights = rng.standard_normal(shape)
        n_seen = np.exp(rng.uniform(0, np.log(self.n_columns + 1), self.n_units)).astype(np.int64)
        rank = rng.random(shape).argsort(axis=0).argsort(axis=0)
        weights[rank >= np.maximum(n_seen, 1)] = 0
        low, high = np.log(HINGES)
        deviation = np.exp(rng.uniform(low, high, self.n_units))
        hinges = deviation * rng.standard_normal(self.n_units)
        return weights / np.linalg.norm(weights, axis=0), hinges


class TableFeatures:
    """The standardized columns and ReLU units of them, 1,000 features."""

    def __init__(self, n_columns: int, seed: int, scale: Scale) -> None:
        self.scale = scale
        self._units = ReluUnits(n_columns, RELU_FEATURES - n_columns, seed)
        self.n_features = RELU_FEATURES

    def __call__(self, X: NDArray[Any]) -> Doubles:
        z = self.scale.apply(X.reshape(len(X), -1).astype(np.float64))
        return np.concatenate([z, self._units(z)], axis=1)

    def invert(self, features: Doubles) -> Doubles:
        """The rows: their columns are the first features."""
        return features[:, : len(self.scale.center)] * self.scale.spread + self.scale.center


class PlainFeatures:
    """The values as they are; more than 1,024 are projected on 1,024 random directions."""

    def __init__(self, n_columns: int, seed: int) -> None:
        self.n_columns, self.seed = n_columns, seed
        self.n_features = min(n_columns, MAX_COLUMNS)

    def __call__(self, X: NDArray[Any]) -> Doubles:
        flat: Doubles = X.reshape(len(X), -1).astype(np.float64)
        return flat if self.n_columns <= MAX_COLUMNS else flat @ self._directions

    def invert(self, features: Doubles) -> Doubles:
        """The rows themselves, unless they were projected."""
        return features

    @cached_property
    def _directions(self) -> Doubles:
        rng = np.random.default_rng([self.seed, 5])
        signs = rng.integers(0, 2, (self.n_columns, MAX_COLUMNS), dtype=np.int8)
        directions: Doubles = (2.0 * signs - 1) / np.sqrt(self.n_columns)
        return directions
