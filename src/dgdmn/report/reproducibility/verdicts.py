"""The rule: the paper gives one run, so how far may ours be from it?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

LEAST = 0.02
"""A difference that nobody should make much of."""

Kind = Literal["reproduced", "differs", "single run", "not run yet", "ours only"]


@dataclass(frozen=True)
class Verdict:
    """What to think of a number beside the paper's."""

    kind: Kind
    difference: float = math.nan
    """Ours minus the paper's; NaN where one is missing."""

    @property
    def lower(self) -> bool:
        """Whether ours is below the paper's by more than the rule, or one run may, forgive."""
        return self.kind == "differs" or (self.kind == "single run" and self.difference < -LEAST)

    def __str__(self) -> str:
        if self.kind != "single run":
            return self.kind
        if self.difference > LEAST:
            return "single run, higher"
        return "single run, lower" if self.difference < -LEAST else "single run, close"


def judge(values: Sequence[float], published: float | None) -> Verdict:
    """Seeds against the paper's one run; larger is better, as ACC and BWT are.

    >>> str(judge([0.80, 0.82, 0.84], 0.85)), str(judge([0.80, 0.80], 0.85)), str(judge([0.8], 0.85))
    ('reproduced', 'differs', 'single run, lower')
    """
    if not values:
        return Verdict("not run yet")
    if published is None:
        return Verdict("ours only")
    difference = float(np.mean(values)) - published
    if len(values) == 1:
        return Verdict("single run", difference)
    within = difference >= -tolerance(values) - 1e-9  # of decimals that are not binary
    return Verdict("reproduced" if within else "differs", difference)


def tolerance(values: Sequence[float]) -> float:
    """max(.02, 2 · sd · √(1 + 1/n)): two standard deviations of one more run minus the mean of n.

    >>> round(tolerance([0.80, 0.82, 0.84]), 4)
    0.0462
    """
    spread = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
    return max(LEAST, 2 * spread * math.sqrt(1 + 1 / len(values)))
