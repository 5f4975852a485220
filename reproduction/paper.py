"""The paper's numbers, from paper.json.

`acc` and `bwt` are the tables of section 4, `text` what appendix A states in words. Curves were read off
the pictures to about ±.01, so a few values exceed 1. The curves of averages and of TDigits come from
version 1 (2017), whose runs are not all those of the tables: its Digits runs ended at .693 (DGDMN) and
.674 (DGR).
"""

from __future__ import annotations

import json
import math
from functools import cache
from pathlib import Path
from typing import Any

TDIGITS_CURVES = {"acc": "tdigits_average", "last10": "tdigits_last10"}


@cache
def _data() -> dict[str, Any]:
    path = Path(__file__).with_name("paper.json")
    data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return data


def published(measure: str, algorithm: str, stream: str) -> float | None:
    """The paper's `acc`, `bwt` or `last10` at the end of a stream, None where it gives none.

    >>> published("acc", "dgdmn", "digits"), published("bwt", "dgdmn-recog", "digits")
    (0.818, -0.197)
    """
    if stream == "tdigits":
        series = curve(TDIGITS_CURVES.get(measure, "")).get(algorithm)
        return series[-1] if series else None
    in_table = _data().get(measure, {}).get(algorithm, {}).get(stream)
    in_text = _data()["text"].get(algorithm, {}).get(stream, {})
    value: float | None = in_table if in_table is not None else in_text.get(measure)
    return value


def curve(name: str) -> dict[str, list[float]]:
    """The series of a figure, NaN where the picture hides them, and their `x`; empty if unknown.

    >>> curve("tdigits_last10")["dgdmn"][-1]
    0.833
    """
    series = _data()["curves"].get(name, {})
    return {
        key: [math.nan if y is None else float(y) for y in values] for key, values in series.items()
    }
