"""The paper's tables and curves as package data, for everything that puts our numbers beside theirs.

`tables.json` holds the two tables of section 4, what appendix A says in its text, and values read off the
figures on noise, occlusion and training time. `curves.json` holds curves read off the pictures of version 1
(2017; about ±0.01, so a few exceed 1). Version 1's Digits run ended lower than the tables (DGDMN .693, DGR
.674): one run each, so expect a large spread between seeds.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, Literal

from dgdmn.errors import UsageError


@dataclass(frozen=True)
class Published:
    """What the paper reports for one algorithm on one dataset."""

    acc: float
    """Average accuracy: the table of ACC, or the text."""
    bwt: float
    """Backward transfer: the table of BWT, or the text."""


@dataclass(frozen=True)
class Curve:
    """The series of one figure."""

    name: str
    """The figure's name in `curve_names()`."""
    x: tuple[float, ...]
    """Tasks seen, from 1; for noise its standard deviation, for occlusion its factor."""
    series: dict[str, tuple[float, ...]]
    """Values at each x by algorithm, in lower case; NaN where the picture hides the curve."""


def table(name: Literal["acc", "bwt"]) -> dict[str, dict[str, float]]:
    """A table of section 4 as algorithm -> dataset -> value.

    >>> table("acc")["dgdmn"]["digits"]
    0.818
    """
    if name not in ("acc", "bwt"):
        raise UsageError(f"table {name!r} is not in the paper: choose acc or bwt")
    return {algorithm: dict(row) for algorithm, row in _data("tables.json")[name].items()}


def published(algorithm: str, dataset: str) -> Published | None:
    """The paper's ACC and BWT, None where it gives none.

    >>> published("dgdmn-recog", "digits")
    Published(acc=0.766, bwt=-0.197)
    """
    tables = _data("tables.json")
    if dataset in tables["acc"].get(algorithm, {}):
        return Published(tables["acc"][algorithm][dataset], tables["bwt"][algorithm][dataset])
    text = tables["text"].get(algorithm, {}).get(dataset)
    return Published(**text) if text else None


def tdigits_seconds() -> dict[str, float]:
    """Training time to TDigits' 40th task on the authors' machine, by algorithm.

    >>> round(tdigits_seconds()["dgr"] / tdigits_seconds()["dgdmn"], 1)
    3.3
    """
    return {
        algorithm: float(seconds) for algorithm, seconds in _data("tables.json")["tdigits_seconds"].items()
    }


def curve_names() -> tuple[str, ...]:
    """The figures that `curve` knows."""
    return tuple(_figures())


def curve(name: str) -> Curve:
    """A figure's curves by name.

    >>> curve("tdigits_last10").series["dgdmn"][-1]
    0.833
    """
    figures = _figures()
    if name not in figures:
        raise UsageError(f"curve {name!r} was not read off the paper: choose one of {', '.join(figures)}")
    figure = figures[name]
    x = figure.get("x") or range(1, figure["n_xticks"] + 1)
    series = {key.lower(): _values(value) for key, value in figure.items() if key not in _AXES}
    return Curve(name, tuple(float(value) for value in x), series)


_AXES = frozenset({"x", "n_xticks", "n_yticks"})


def _figures() -> Mapping[str, Any]:
    return {**_data("curves.json"), **_data("tables.json")["resilience"]}


def _values(values: Sequence[float | None]) -> tuple[float, ...]:
    return tuple(math.nan if value is None else float(value) for value in values)


@cache
def _data(file: str) -> Mapping[str, Any]:
    content: Mapping[str, Any] = json.loads(
        resources.files(__name__).joinpath(file).read_text(encoding="utf-8")
    )
    return content
