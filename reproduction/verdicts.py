"""Is our mean over seeds the paper's number? The paper gives one run, so a difference has a tolerance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, stdev


def judge(values: Sequence[float], published: float | None) -> str:
    """`matches`, `higher` or `lower`, marked if there is one seed; empty without a published number.

    >>> [judge(values, 0.85) for values in ([0.80, 0.82, 0.84], [0.80, 0.80], [0.9], [])]
    ['matches', 'lower', 'single run, higher', 'not run yet']
    """
    if not values:
        return "not run yet"
    if published is None:
        return ""
    difference = fmean(values) - published
    verdict = "higher" if difference > 0 else "lower"
    if abs(difference) <= tolerance(values) + 1e-9:  # decimals are not exact in binary
        verdict = "matches"
    return f"single run, {verdict}" if len(values) == 1 else verdict


def tolerance(values: Sequence[float]) -> float:
    """max(.02, 2 · sd · √(1 + 1/n)): two standard deviations of one more run minus the mean of n.

    >>> round(tolerance([0.80, 0.82, 0.84]), 4)
    0.0462
    """
    spread = stdev(values) if len(values) > 1 else 0.0
    return max(0.02, 2 * spread * math.sqrt(1 + 1 / len(values)))
