"""Refusing wrong arguments in one line: the value, what is allowed, what was perhaps meant."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dgdmn.errors import UsageError


def check_seed(seed: int) -> None:
    """Refuse a seed that numpy's SeedSequence would refuse deep inside."""
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0:
        raise UsageError(f"seed is {seed!r}: give a whole number of 0 or more")


def check_fraction(name: str, value: float) -> None:
    """Refuse a fraction outside [0, 1)."""
    if not isinstance(value, (int, float, np.floating)) or not 0 <= value < 1:
        raise UsageError(f"{name} is {value!r}: give a fraction of at least 0 and less than 1")


def array(name: str, value: Any) -> NDArray[Any]:
    """`value` as an array, if its parts have one shape."""
    try:
        return np.asarray(value)
    except (TypeError, ValueError) as error:
        raise UsageError(f"{name} is no array: give rows of one shape, or a list of (name, X, y)") from error
