"""Scaling of the user's values to [0, 1]."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dgdmn.core.errors import UsageError
from dgdmn.memory.gaussian import Doubles, column_means
from dgdmn.storage import State, get_typed, to_numpy

MARGIN = 0.05
"""Share of the first task's range that is added at both ends."""


@dataclass(frozen=True, eq=False)
class Scaling:
    """Maps [low, high] to [0, 1] and clips what lies outside."""

    low: NDArray[np.float64]
    """A number, or one for each feature."""
    high: NDArray[np.float64]
    given: bool
    """Whether the user gave the range. If not, uint8 always means 0-255."""

    @classmethod
    def fit(
        cls, X: NDArray[Any], value_range: Any, is_coded: NDArray[np.bool_] | None = None
    ) -> Self:
        """The given range; else [0, 1] for values within it, else the range of these first samples.

        Each column of a table has its own range. An image has one for all pixels, and so has a single row:
        its own range would be the row itself. Columns that are codes of categories and text have [-1, 1].
        """
        if value_range is not None:
            return cls(*_parse_range(value_range, X.shape[1:]), given=True)
        if X.dtype.kind == "f" and (missing := np.isnan(X)).any():  # they must not count
            X = np.where(missing, column_means(X), X)
        if X.dtype == np.uint8 or (X.min() >= 0 and X.max() <= 1):
            return cls(np.asarray(0.0), np.asarray(1.0), given=False)
        axis = 0 if X.ndim == 2 and len(X) > 1 else None
        low, high = (np.asarray(bound(axis=axis), np.float64) for bound in (X.min, X.max))
        # A constant feature has no range: it gets one unit. The margin keeps the range of few or extreme
        # rows from being a row itself, in memory and on disk.
        high = np.where(high > low, high, low + 1)
        margin = MARGIN * (high - low) + 1e-6 * np.maximum(abs(low), abs(high))
        low, high = low - margin, high + margin
        if is_coded is not None and is_coded.any():
            low, high = np.where(is_coded, -1.0, low), np.where(is_coded, 1.0, high)
        return cls(low, high, given=False)

    @classmethod
    def restore(cls, state: State, shape: tuple[int, ...]) -> Self:
        """The scaling that `state` described."""
        low, high = (np.asarray(to_numpy(state[key]), np.float64) for key in ("low", "high"))
        np.broadcast_to(low, shape), np.broadcast_to(high, shape)
        if (low > high).any():
            raise ValueError("a low end of the range of values is above its high end")
        return cls(low, high, get_typed(state, "given", bool))

    def state(self) -> State:
        """The range, as it is saved."""
        bounds = {"low": np.asarray(self.low), "high": np.asarray(self.high), "given": self.given}
        return {"scaling": bounds}

    def clips(self, X: NDArray[Any]) -> bool:
        """Whether some value lies outside the range."""
        if self._is_bytes(X):
            return False
        return bool((self.low > X).any() or (self.top < X).any())

    def apply(self, X: NDArray[Any]) -> NDArray[np.float32]:
        """The values in [0, 1] as float32, one flat row per sample."""
        if self._is_bytes(X):
            scaled = X.astype(np.float32) / np.float32(255)
        else:
            scaled = np.clip(self._scale(X), 0, 1).astype(np.float32)
        if X.dtype.kind == "f" and (missing := np.isnan(scaled)).any():
            scaled[missing] = 0.5  # the middle of the range
        return scaled.reshape(len(scaled), -1)

    def apply_unclipped(self, X: NDArray[Any]) -> NDArray[np.float32]:
        """The same for numbers, without clipping: the range becomes [0, 1], and values outside it stay outside."""
        rows = self._scale(X).astype(np.float32)
        return rows.reshape(len(rows), -1)

    def _scale(self, X: NDArray[Any]) -> NDArray[Any]:
        if np.ndim(self.low) == 0 and self.low == 0 and self.high == 1:
            return X
        scaled: Doubles = (X - self.low) / (self.top - self.low)
        return scaled

    def raw(self, X: NDArray[Any]) -> None:
        """None: a memory sees the inputs themselves."""

    def invert(self, rows: NDArray[np.float32], shape: tuple[int, ...]) -> NDArray[np.float32]:
        """Flat rows in [0, 1] back in the user's shape and range; what was uint8 stays in [0, 1]."""
        values = rows.reshape(len(rows), *shape)
        return np.asarray(self.low + values * (self.top - self.low), dtype=np.float32)

    @property
    def top(self) -> NDArray[np.float64]:
        """The value that becomes 1; for a constant feature, one unit above its value."""
        return np.where(self.high > self.low, self.high, self.low + 1)

    def _is_bytes(self, X: NDArray[Any]) -> bool:
        return X.dtype == np.uint8 and not self.given


def _parse_range(value_range: Any, shape: tuple[int, ...]) -> tuple[Doubles, Doubles]:
    try:
        low, high = (np.asarray(bound, dtype=np.float64) for bound in value_range)
        np.broadcast_to(low, shape), np.broadcast_to(high, shape)
    except (TypeError, ValueError) as error:
        allowed = "(low, high), numbers or one for each feature"
        raise UsageError(f"value_range is {value_range!r}; it must be {allowed}") from error
    if not (np.isfinite(low).all() and np.isfinite(high).all() and (low < high).all()):
        raise UsageError(f"value_range is {value_range!r}; it must be finite, with low below high")
    return low, high
