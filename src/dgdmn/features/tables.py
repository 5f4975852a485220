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
HINGES = (0.25, 8.0)
"""Range of the distance, in deviations, at which a unit switches on. The first task may have one class,
and then its deviation says little about the distance of later classes."""
OFFSET = 0.05
"""Deviations between the stored center and the mean, so that the center is never a training row."""


_SCALE = ("center", "spread", "varies")


@dataclass(frozen=True, eq=False)
class Scale:
    """Center and deviation of each column, frozen at the first call."""

    center: Doubles
    spread: Doubles
    """Deviation; 1 where the column was constant."""
    varies: NDArray[np.bool_]
    """Whether the column varied. Units ignore a column whose scale is unknown."""

    @classmethod
    def fit(cls, X: Doubles, seed: int) -> Self:
        """The scale of the first rows. One row, or equal rows, have none."""
        spread = X.std(axis=0)
        varies = spread > 1e-9 * np.abs(X).max(axis=0)
        if not varies.any():
            what = "1 sample" if len(X) == 1 else f"{len(X)} equal samples"
            raise UsageError(
                f"the first call has {what}, which have no scale; begin with different rows, pass "
                "scale=(center, spread), or use features='none'"
            )
        spread = np.where(varies, spread, 1.0)
        sign = np.random.default_rng([seed, 3]).choice([-1.0, 1.0], X.shape[1])
        return cls(X.mean(axis=0) + OFFSET * sign * spread, spread, varies)

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
        return cls(center, spread, np.ones(n_columns, dtype=bool))

    @classmethod
    def restore(cls, state: State, n_columns: int) -> Self:
        """The scale that `state` described."""
        center, spread, varies = (np.array(to_numpy(state[key])) for key in _SCALE)
        shapes = {center.shape, spread.shape, varies.shape}
        if shapes != {(n_columns,)} or varies.dtype != np.bool_ or not (spread > 0).all():
            raise ValueError(f"the scale of {n_columns} columns has arrays of shapes {shapes}")
        return cls(center.astype(np.float64), spread.astype(np.float64), varies)

    def state(self) -> State:
        return dict(zip(_SCALE, (self.center, self.spread, self.varies), strict=True))

    def apply(self, X: Doubles) -> Doubles:
        return (X - self.center) / self.spread


class ReluUnits:
    """Random units max(0, w · z − t) of standardized columns z. Directions and hinges come from the seed."""

    def __init__(self, n_columns: int, n_units: int, seed: int) -> None:
        self.n_columns, self.n_units, self.seed = n_columns, n_units, seed

    def __call__(self, z: Doubles, varies: NDArray[np.bool_]) -> Doubles:
        weights, hinges = self.parameters(varies)
        return np.maximum(z @ weights - hinges, 0)

    def parameters(self, varies: NDArray[np.bool_]) -> tuple[Doubles, Doubles]:
        """Directions of unit norm in the columns that vary, shape (columns, units), and hinges."""
        weights, hinges = self._parameters
        used = weights * varies[:, None]
        norm = np.linalg.norm(used, axis=0)
        return used / np.where(norm > 0, norm, 1), hinges

    @cached_property
    def _parameters(self) -> tuple[Doubles, Doubles]:
        rng = np.random.default_rng([self.seed, 4])
        weights = rng.standard_normal((self.n_columns, self.n_units))
        low, high = np.log(HINGES)
        distance = np.exp(rng.uniform(low, high, self.n_units))
        return weights, distance * rng.standard_normal(self.n_units)


class TableFeatures:
    """The standardized columns and ReLU units of them, 1,000 features."""

    def __init__(self, n_columns: int, seed: int, scale: Scale) -> None:
        self.scale = scale
        self._units = ReluUnits(n_columns, RELU_FEATURES - n_columns, seed)
        self.n_features = RELU_FEATURES

    def __call__(self, X: NDArray[Any]) -> Doubles:
        z = self.scale.apply(X.reshape(len(X), -1).astype(np.float64))
        return np.concatenate([z, self._units(z, self.scale.varies)], axis=1)

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
