"""The paper's numbers, from paper.json, and the verdict on ours.

`acc` and `bwt` are the tables of section 4, `text` what appendix A states in words. Curves were read off
the pictures to about ±.01, so a few values exceed 1. The curves of averages and of TDigits come from
version 1 (2017), whose runs are not all those of the tables: its Digits runs ended at .693 (DGDMN) and
.674 (DGR).
"""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

TDIGITS_CURVES = {"acc": "tdigits_average", "last10": "tdigits_last10"}
_DATA: dict[str, Any] = json.loads(Path(__file__).with_name("paper.json").read_text("utf-8"))


def published(measure: str, algorithm: str, stream: str) -> float | None:
    """The paper's `acc`, `bwt` or `last10` at the end of a stream, None where it gives none.

    >>> published("acc", "dgdmn", "digits"), published("bwt", "dgdmn-recog", "digits")
    (0.818, -0.197)
    """
    if stream == "tdigits":
        series = curve(TDIGITS_CURVES.get(measure, "")).get(algorithm)
        return series[-1] if series else None
    in_table = _DATA.get(measure, {}).get(algorithm, {}).get(stream)
    in_text = _DATA["text"].get(algorithm, {}).get(stream, {})
    value: float | None = in_table if in_table is not None else in_text.get(measure)
    return value


def curve(name: str) -> dict[str, list[float]]:
    """The series of a figure, NaN where the picture hides them, and their `x`; empty if unknown.

    >>> curve("tdigits_last10")["dgdmn"][-1]
    0.833
    """
    series = _DATA["curves"].get(name, {}).items()
    return {key: [math.nan if y is None else float(y) for y in ys] for key, ys in series}


def compare(values: Sequence[float], published: float | None) -> str:
    """`matches`, `higher` or `lower`, marked if there is one seed; empty without a published number.

    The paper gives one run, so a difference has a tolerance.

    >>> [compare(values, 0.85) for values in ([0.80, 0.82, 0.84], [0.80, 0.80], [0.9], [])]
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
