"""Checks of values that come from a file. A wrong one is a ValueError; `load` adds the file's name."""

from typing import Any, TypeVar

from dgdmn.core.text import shorten
from dgdmn.storage.tree import State

MAX_COUNT = 10**12
"""No memory counts more samples or tasks than this."""
MAX_TASKS = 10_000
"""No memory records more tasks than this: loading and showing them takes time."""
MIN_WEIGHT, MAX_WEIGHT = 1e-6, 1e6
"""Smallest and largest weight of a row."""
Kind = TypeVar("Kind")


def get_typed(state: State, name: str, kind: type[Kind]) -> Kind:
    """A value of a state; it must have this type."""
    value = state[name]
    if type(value) is not kind:
        raise ValueError(f"{name} is {shorten(repr(value))}; it must be of type {kind.__name__}")
    return value


def get_int(state: State, name: str, low: int = 0, high: int = MAX_COUNT) -> int:
    """A value of a state; it must be a whole number in this range."""
    value = get_typed(state, name, int)
    if not low <= value <= high:
        allowed = f"a whole number in [{low:,}, {high:,}]"
        raise ValueError(f"{name} is {shorten(repr(value))}; it must be {allowed}")
    return value


def row_count(state: State, name: str, low: int = 0) -> float:
    """A value of a state; it must be a number of rows, or a sum of weights."""
    value = state[name]
    if type(value) is float and MIN_WEIGHT <= value <= MAX_COUNT and not value.is_integer():
        return value  # a whole number is saved as one
    return get_int(state, name, low)


def check_class_indices(values: Any, n_classes: int) -> Any:
    """These class indices, an array or a list; each must be below `n_classes`."""
    if isinstance(values, list):
        right = all(type(value) is int and 0 <= value < n_classes for value in values)
    else:
        right = len(values) == 0 or bool(values.min() >= 0 and values.max() < n_classes)
    if not right:
        raise ValueError(f"a class index is not in [0, {n_classes})")
    return values
