"""Values become numbers in [0, 1]: the estimator owns its scaling."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dgdmn.errors import UsageError

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Scaling:
    """Maps [low, high] to [0, 1]; what lies outside is clipped. uint8 always means 0-255."""

    low: Floats
    """A number, or one for each feature."""
    high: Floats

    @classmethod
    def fitted(cls, X: NDArray[Any], value_range: tuple[Any, Any] | None) -> Scaling:
        """The given range; else [0, 1] for values within it, else the range of these first samples.

        Tables have features of different units, so each gets its own range; an image has one for all pixels.
        """
        if value_range is not None:
            low, high = (np.asarray(bound, dtype=np.float64) for bound in value_range)
            if not (np.isfinite(low).all() and np.isfinite(high).all() and (low < high).all()):
                raise UsageError(
                    f"value_range is {value_range}; it must be (low, high), finite, with low below high"
                )
            return cls(low, high)
        if X.dtype == np.uint8 or (X.min() >= 0 and X.max() <= 1):
            return cls(np.float64(0), np.float64(1))  # type: ignore[arg-type]
        axis = 0 if X.ndim == 2 else None
        return cls(np.asarray(X.min(axis=axis), np.float64), np.asarray(X.max(axis=axis), np.float64))

    def clips(self, X: NDArray[Any]) -> bool:
        """Whether some value lies outside the range."""
        return X.dtype != np.uint8 and bool((self.low > X).any() or (self.high < X).any())

    def apply(self, X: NDArray[Any]) -> NDArray[np.float32]:
        """The values in [0, 1] as float32, one flat row a sample."""
        if X.dtype == np.uint8:
            scaled = X.astype(np.float32) / np.float32(255)
        elif np.ndim(self.low) == 0 and self.low == 0 and self.high == 1:
            scaled = np.clip(X, 0, 1).astype(np.float32)
        else:
            width = np.where(self.high > self.low, self.high - self.low, 1.0)  # a constant feature becomes 0
            scaled = np.clip((X - self.low) / width, 0, 1).astype(np.float32)
        return scaled.reshape(len(scaled), -1)
