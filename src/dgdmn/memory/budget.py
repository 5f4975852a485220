"""Fit components into a byte budget: first scatters shrink, then means of a class merge."""

from collections import deque
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dgdmn.memory.code import triangle_bytes
from dgdmn.memory.components import Component, cut_scatter
from dgdmn.memory.gaussian import Doubles


def shrink_scatters(
    components: Sequence[Component],
    budget: float,
    *,
    share: float,
    new: NDArray[np.bool_],
    times: Sequence[int],
) -> list[Component]:
    """The components with scatters of at most `budget` bytes: `share` of it for new ones, the rest for the past.

    Both shares are divided in proportion to how often each task was learned. Means and scatters become float32.
    """
    weights = np.array(times, dtype=np.float64)
    for part, amount in ((new, share), (~new, 1 - share)):
        if part.any():
            weights[part] *= amount / weights[part].sum()
    blocks = fit_blocks(budget, weights, [len(component.scatter) for component in components])
    return [
        cut_scatter(component, q, np.float32)
        for component, q in zip(components, blocks, strict=True)
    ]


def merge_means(
    components: Sequence[Component], limit: int, code: Doubles
) -> tuple[tuple[Component, ...], list[Doubles]]:
    """Merge components of the same class, oldest first, until at most `limit` are left, if possible.

    Also returns the vectors whose outer products the merges add to the pooled scatter.
    """
    kept: dict[int, Component] = dict(enumerate(components))
    later: dict[int, deque[int]] = {}
    for place, component in kept.items():
        later.setdefault(component.label, deque()).append(place)
    between = []
    for place, component in enumerate(components):
        if len(kept) <= limit:
            break
        later[component.label].popleft()
        if later[component.label]:
            old, into = kept.pop(place), later[component.label][0]
            between.append(old.between_vector(kept[into]))
            kept[into] = kept[into].merge(old, code)
    return tuple(kept.values()), between


def fit_blocks(budget: float, weights: Doubles, sizes: Sequence[int]) -> list[int]:
    """Sizes q' of scatters that fit a budget: bytes by weight, but no component gets more than it has.

    >>> fit_blocks(4 * (10 + 3), np.array([1.0, 1.0]), [4, 2])
    [4, 2]
    >>> fit_blocks(40, np.array([1.0, 3.0]), [10, 10])
    [1, 3]
    """
    caps = np.array([triangle_bytes(q, 4) for q in sizes], dtype=np.float64)
    given, left = np.zeros(len(caps)), max(0.0, budget)
    for _ in range(len(caps)):  # each round fills some component or is the last
        part = np.where(given < caps, weights, 0.0)
        if left <= 0 or not part.any():
            break
        step = np.minimum(left * part / part.sum(), caps - given)
        given, left = given + step, left - float(step.sum())
    roots = (np.sqrt(1 + 2 * given + 1e-6) - 1) / 2  # 4 · q (q + 1) / 2 bytes
    blocks: list[int] = np.minimum(np.floor(roots), sizes).astype(int).tolist()
    return blocks
