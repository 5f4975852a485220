"""A few rows of every class of every task, in equal parts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dgdmn.streams import Rows


@dataclass(frozen=True, eq=False)
class Labelled:
    """Rows of several tasks, one task after the other."""

    x: NDArray[Any]
    y: NDArray[Any]
    task: NDArray[np.int64]
    """The number of each row's task, from 0: a column of the accuracy matrix."""


def stacked(parts: Mapping[str, Rows]) -> Labelled:
    """The rows of all tasks."""
    sizes = [len(rows) for rows in parts.values()]
    return Labelled(
        np.concatenate([rows.x for rows in parts.values()]),
        np.concatenate([rows.y for rows in parts.values()]),
        np.repeat(np.arange(len(sizes)), sizes),
    )


def balanced(tests: Mapping[str, Rows], each: int, most: int, rng: np.random.Generator) -> Labelled:
    """At most `each` rows of each class of each task, and `most` in all; a smaller class gives all it has."""
    groups = {name: [np.flatnonzero(rows.y == y) for y in np.unique(rows.y)] for name, rows in tests.items()}
    each = min(each, most // sum(map(len, groups.values())))
    return stacked(
        {
            name: rows.take(np.concatenate([rng.permutation(group)[:each] for group in groups[name]]))
            for name, rows in tests.items()
        }
    )
