"""A memory's state: a tree of plain values whose large leaves are arrays (numpy or torch)."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

State = dict[str, Any]
"""Text keys; leaves are arrays, numbers, text, booleans and None; dicts and lists nest."""


def is_array(leaf: Any) -> bool:
    """Whether a leaf is a numpy array or a tensor."""
    return isinstance(leaf, np.ndarray) or hasattr(leaf, "untyped_storage")


def arrays_in(state: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every array and its path.

    >>> [path for path, _ in arrays_in({"ltm": {"weights": np.ones(2)}, "rows": [np.ones(3)]})]
    ['ltm/weights', 'rows/0']
    """
    if is_array(state):
        yield path, state
    pairs = enumerate(state) if isinstance(state, list) else ()
    for key, child in state.items() if isinstance(state, dict) else pairs:
        yield from arrays_in(child, f"{path}/{key}".lstrip("/"))


def map_arrays(state: Any, function: Callable[[Any], Any]) -> Any:
    """The same tree with a function applied to every array."""
    if is_array(state):
        return function(state)
    if isinstance(state, dict):
        return {key: map_arrays(child, function) for key, child in state.items()}
    return [map_arrays(child, function) for child in state] if isinstance(state, list) else state


def bytes_in(state: Any) -> int:
    """How many bytes the arrays of a state take."""
    return sum(int(array.nbytes) for _, array in arrays_in(state))


def to_numpy(array: Any) -> NDArray[Any]:
    """An array or tensor as a contiguous numpy array."""
    is_numpy = isinstance(array, np.ndarray)
    return np.ascontiguousarray(array if is_numpy else array.detach().cpu().numpy())
