"""Features of tables: columns on a frozen scale and random ReLU units of them, or the columns themselves."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dgdmn.core.errors import UsageError
from dgdmn.core.table import CATEGORY_COLUMNS
from dgdmn.core.text import shorten
from dgdmn.storage import State, to_numpy

Doubles = NDArray[np.float64]

MAX_COLUMNS = 1_024
"""A wider table is projected to this many features: a pooled scatter of more would not fit 8 MB."""
RELU_FEATURES = 1_000
"""Columns and ReLU units together."""
HINGES = (0.1, 4.0)
"""Range of the standard deviation of hinges on the asinh scale; an upper end of 8 is no better (docs/LOG.md)."""
OFFSET = 0.05
"""Deviations between a stored center and the mean or median, so that no center is a training row."""
BEND = 5.0
"""Columns are nearly linear up to this many spreads from the center and logarithmic beyond (docs/LOG.md)."""
MAX_COLUMN = 250.0
"""Larger generated columns are clipped: sinh of them would overflow."""
_SCALE_KEYS = ("center", "spread")
QUANTILES = (0.16, 0.5, 0.84)
"""The median, and one deviation below and above it if a column is normal."""
FEW_ROWS = 50
"""Weight of mean and deviation relative to the quantiles, in rows (docs/LOG.md)."""
MIN_SIDE_SHARE = 0.05
"""If one side's spread is below this share of the mean spread, the mean spread is used."""


@dataclass(frozen=True, eq=False)
class Scale:
    """Center and spread of each column, frozen at the first call."""

    center: Doubles
    spread: Doubles
    """Deviations, shape (columns,); or how far a column reaches below and above its center, shape (2, columns)."""

    @classmethod
    def fit(cls, X: Doubles, seed: int, weight: Doubles | None = None) -> Self:
        """Mean and deviation of the first rows. One row, or equal rows, have no spread and raise an error."""
        mean, deviation = _moments(X, weight)
        return cls(mean + _offset(seed, deviation), deviation)

    @classmethod
    def fit_sides(cls, X: Doubles, seed: int, weight: Doubles | None = None) -> Self:
        """Medians, and the reach on either side of them: a few huge values change neither.

        Quantiles of few rows are noisy, so mean and deviation count as FEW_ROWS more rows; the deviation as three
        reaches at most.
        """
        mean, deviation = _moments(X, weight)
        low, median, high = weighted_quantiles(X, QUANTILES, weight)
        reach = (high - low) / 2
        reach = np.where(reach > 1e-9 * deviation, reach, deviation)  # most rows may be equal
        sides = np.stack([median - low, high - median])
        sides = np.where(sides > MIN_SIDE_SHARE * reach, sides, reach)
        n = len(X) if weight is None else weight.sum()
        share = n / (n + FEW_ROWS)
        spread = sides**share * np.minimum(deviation, 3 * reach) ** (1 - share)
        center = share * median + (1 - share) * np.clip(mean, low, high)
        return cls(center + _offset(seed, reach), spread)

    @classmethod
    def parse(cls, scale: Any, n_columns: int) -> Self:
        """The scale a user gives as (center, spread): numbers, or one for each column."""
        try:
            center, spread = (
                np.array(np.broadcast_to(np.asarray(part, np.float64), n_columns)) for part in scale
            )
        except (TypeError, ValueError) as error:
            found = shorten(" ".join(repr(scale).split()))
            needs = f"numbers or {n_columns} entries each (a category has {CATEGORY_COLUMNS})"
            raise UsageError(f"scale is {found}; it must be (center, spread), {needs}") from error
        if not (np.isfinite(center).all() and np.isfinite(spread).all() and (spread > 0).all()):
            raise UsageError("scale must have finite centers and spreads above 0")
        return cls(center, spread)

    @classmethod
    def restore(cls, state: State, n_columns: int) -> Self:
        """Load what `state` returned."""
        center, spread = (np.array(to_numpy(state[key]), dtype=np.float64) for key in _SCALE_KEYS)
        shapes = ((n_columns,), (2, n_columns))
        if center.shape != shapes[0] or spread.shape not in shapes or not (spread > 0).all():
            found = f"{center.shape} and {spread.shape}"
            raise ValueError(f"the scale of {n_columns} columns has arrays of shapes {found}")
        return cls(center, spread)

    def state(self) -> State:
        return dict(zip(_SCALE_KEYS, (self.center, self.spread), strict=True))

    def apply(self, X: Doubles) -> Doubles:
        distance = X - self.center
        return distance / self._side(distance)

    def invert(self, z: Doubles) -> Doubles:
        return z * self._side(z) + self.center

    def _side(self, distance: Doubles) -> Doubles:
        """The spread on the side of each value."""
        if self.spread.ndim == 1:
            return self.spread
        side: Doubles = np.where(distance < 0, self.spread[0], self.spread[1])
        return side


def _moments(X: Doubles, weight: Doubles | None) -> tuple[Doubles, Doubles]:
    """Mean and deviation of each column; the deviation is 1 where a column is constant."""
    mean, deviation = X.mean(axis=0), X.std(axis=0)
    if weight is not None:
        mean = weight @ X / weight.sum()
        deviation = np.sqrt(weight @ (X - mean) ** 2 / weight.sum())
    varies = deviation > 1e-9 * np.abs(X).max(axis=0)
    if not varies.any():
        what = "1 sample, which has" if len(X) == 1 else f"{len(X)} equal samples, which have"
        raise UsageError(
            f"the first call has {what} no scale; begin with different rows, pass "
            "scale=(center, spread), or use features='none'"
        )
    return mean, np.where(varies, deviation, 1.0)


def _offset(seed: int, spread: Doubles) -> Doubles:
    """A small step away from the middle of each column, up or down."""
    sign = np.random.default_rng([seed, 3]).choice([-1.0, 1.0], len(spread))
    offset: Doubles = OFFSET * sign * spread
    return offset


def weighted_quantiles(X: Doubles, shares: Sequence[float], weight: Doubles | None) -> Doubles:
    """Quantiles of each column, shape (shares, columns): the least value that reaches a share of the weight.

    >>> weighted_quantiles(np.array([[1.0], [2], [9]]), [0.5], np.array([1.0, 1, 3]))
    array([[9.]])
    """
    order = X.argsort(axis=0, kind="stable")
    weights = (np.ones(len(X)) if weight is None else weight)[order]
    reached = weights.cumsum(axis=0)
    rows = np.take_along_axis(X, order, axis=0)
    # Sums of weights are rounded, so a share that is reached exactly may seem to be missed.
    places = [(reached < (share - 1e-9) * reached[-1]).sum(axis=0) for share in shares]
    return np.take_along_axis(rows, np.array(places), axis=0)


class ReluUnits:
    """Random units max(0, w · asinh(z) − t) of columns z on a scale. Weights and hinges come from the seed.

    asinh bounds large values: if the first task has one class, later classes can be 100 spreads away.
    A unit sees from one column to all of them; the number is log-uniform. Few columns suit binary and heavy-tailed
    data, many suit embeddings.
    """

    def __init__(self, n_columns: int, n_units: int, seed: int) -> None:
        self.n_columns, self.n_units, self.seed = n_columns, n_units, seed

    def __call__(self, z: Doubles) -> Doubles:
        weights, hinges = self.parameters
        units: Doubles = np.maximum(np.arcsinh(z) @ weights - hinges, 0)
        return units

    @cached_property
    def parameters(self) -> tuple[Doubles, Doubles]:
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
    """The columns on a scale with two sides, huge values bent, and ReLU units of them: 1,000 features.

    So a few huge values change covariances little, and units resolve most rows of a heavy-tailed column.
    """

    def __init__(self, n_columns: int, seed: int, scale: Scale) -> None:
        self.scale = scale
        self.units = ReluUnits(n_columns, RELU_FEATURES - n_columns, seed)
        self.n_features = RELU_FEATURES

    def __call__(self, X: NDArray[Any]) -> Doubles:
        rows: Doubles = X.reshape(len(X), -1).astype(np.float64)
        return np.concatenate([self.columns(rows), self.units(self.scale.apply(rows))], axis=1)

    def columns(self, X: Doubles) -> Doubles:
        """The first features, one for each column; a missing value stays missing."""
        bent: Doubles = BEND * np.arcsinh(self.scale.apply(X) / BEND)
        return bent

    def invert(self, features: Doubles) -> Doubles:
        """The rows: their columns are the first features."""
        columns = np.clip(features[:, : len(self.scale.center)], -MAX_COLUMN, MAX_COLUMN)
        return self.scale.invert(BEND * np.sinh(columns / BEND))


class PlainFeatures:
    """The values as they are; more than 1,024 are projected on 1,024 random directions."""

    def __init__(self, n_columns: int, seed: int) -> None:
        self.n_columns, self.seed = n_columns, seed
        self.n_features = min(n_columns, MAX_COLUMNS)

    def __call__(self, X: NDArray[Any]) -> Doubles:
        flat: Doubles = X.reshape(len(X), -1).astype(np.float64)
        return flat if self.n_columns <= MAX_COLUMNS else flat @ self.directions

    def invert(self, features: Doubles) -> Doubles:
        """The rows themselves, unless they were projected."""
        return features

    @cached_property
    def directions(self) -> Doubles:
        rng = np.random.default_rng([self.seed, 5])
        signs = rng.integers(0, 2, (self.n_columns, MAX_COLUMNS), dtype=np.int8)
        directions: Doubles = (2.0 * signs - 1) / np.sqrt(self.n_columns)
        return directions
