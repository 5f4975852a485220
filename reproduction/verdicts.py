"""Is our mean over seeds the paper's number? The paper gives one run, so a difference has a tolerance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

MIN_TOLERANCE = 0.02
RULE = (
    "Ours **matches** if the mean over n seeds is within max(.02, 2 · sd · √(1 + 1/n)) of the paper's "
    "single run; otherwise it is **higher** or **lower**."
)


@dataclass(frozen=True)
class Verdict:
    """`matches`, `higher` or `lower`; `not run yet` without a run, empty where the paper has no number."""

    kind: str
    runs: int = 0

    @property
    def differs(self) -> bool:
        """Whether it needs an explanation."""
        return self.kind in ("higher", "lower")

    def __str__(self) -> str:
        return f"single run, {self.kind}" if self.runs == 1 and self.kind else self.kind


def judge(values: Sequence[float], published: float | None) -> Verdict:
    """Compare the values of several seeds with the paper's one run.

    >>> [str(judge(values, 0.85)) for values in ([0.80, 0.82, 0.84], [0.80, 0.80], [0.9], [])]
    ['matches', 'lower', 'single run, higher', 'not run yet']
    """
    if not values:
        return Verdict("not run yet")
    if published is None or math.isnan(published):
        return Verdict("", len(values))
    difference = fmean(values) - published
    if abs(difference) <= tolerance(values) + 1e-9:  # decimals are not exact in binary
        return Verdict("matches", len(values))
    return Verdict("higher" if difference > 0 else "lower", len(values))


def tolerance(values: Sequence[float]) -> float:
    """max(.02, 2 · sd · √(1 + 1/n)): two standard deviations of one more run minus the mean of n.

    >>> round(tolerance([0.80, 0.82, 0.84]), 4)
    0.0462
    """
    spread = stdev(values) if len(values) > 1 else 0.0
    return max(MIN_TOLERANCE, 2 * spread * math.sqrt(1 + 1 / len(values)))
