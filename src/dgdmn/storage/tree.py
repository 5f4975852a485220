"""A memory's state: a tree of plain values whose heavy leaves are tensors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch import Tensor

State = dict[str, Any]
"""Text keys; leaves are tensors, numbers, text, booleans and None; dicts and lists nest."""


def tensors_in(state: Any, path: str = "") -> Iterator[tuple[str, Tensor]]:
    """Every tensor and its path.

    >>> import torch
    >>> [path for path, _ in tensors_in({"ltm": {"weights": torch.ones(2)}, "rows": [torch.ones(3)]})]
    ['ltm/weights', 'rows/0']
    """
    if isinstance(state, Tensor):
        yield path, state
    children = (
        state.items() if isinstance(state, dict) else enumerate(state) if isinstance(state, list) else ()
    )
    for key, child in children:
        yield from tensors_in(child, f"{path}/{key}".lstrip("/"))


def bytes_in(state: Any) -> int:
    """How many bytes the tensors of a state take."""
    return sum(tensor.numel() * tensor.element_size() for _, tensor in tensors_in(state))
