"""The only formatter: numbers, sizes, durations and lists for people."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean, stdev
from typing import Any

MISSING = "–"
"""Shown where there is no number."""


def count_noun(n: int, noun: str, plural: str = "") -> str:
    """A number and its noun.

    >>> count_noun(1, "row"), count_noun(2000, "class", "classes")
    ('1 row', '2,000 classes')
    """
    return f"{n:,} {noun if n == 1 else plural or noun + 's'}"


def join_names(things: Iterable[object], limit: int = 12) -> str:
    """A list in one line, cut after `limit` items."""
    words = [str(thing) for thing in things]
    return ", ".join(words[:limit]) + (f", … ({len(words)} in all)" if len(words) > limit else "")


def sort_by_accuracy(by: Mapping[str, Sequence[int]]) -> list[tuple[str, Sequence[int]]]:
    """Sort {name: (correct, rows)} by accuracy, lowest first; ties in natural order (2 before 10).

    >>> [name for name, _ in sort_by_accuracy({"c10": [3, 3], "c2": [3, 3], "c0": [3, 3], "a": [1, 3]})]
    ['a', 'c0', 'c2', 'c10']
    """

    def key(one: tuple[str, Sequence[int]]) -> tuple[float, list[tuple[int, str]]]:
        name, (right, rows) = one
        parts = re.findall(r"0*([1-9][0-9]*|0)|([^0-9]+)", name)  # longer numbers are larger
        return right / rows, [(len(number), number or text) for number, text in parts]

    return sorted(by.items(), key=key)


def format_duration(seconds: float) -> str:
    """Format seconds.

    >>> format_duration(0.04), format_duration(42), format_duration(600), format_duration(9000)
    ('0.0 s', '42 s', '10 min', '2.5 h')
    """
    if not math.isfinite(seconds):
        return MISSING
    if seconds < 90:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def format_bytes(n: float) -> str:
    """Format bytes.

    >>> format_bytes(999), format_bytes(2_048_000)
    ('999 B', '2.0 MB')
    """
    if not math.isfinite(n):
        return MISSING
    return f"{n:.0f} B" if n < 1000 else f"{n / 1e3:.0f} kB" if n < 1e6 else f"{n / 1e6:.1f} MB"


def format_ratio(value: float, digits: int = 3) -> str:
    """An accuracy or a difference of two, without the leading zero.

    >>> format_ratio(0.8184), format_ratio(1), format_ratio(-0.15), format_ratio(float("nan"))
    ('.818', '1.000', '−.150', '–')
    """
    if not math.isfinite(value):
        return MISSING
    text = f"{abs(round(value, digits)):.{digits}f}"
    sign = "−" if round(value, digits) < 0 else ""
    return sign + (text[1:] if text.startswith("0.") else text)


def format_mean_sem(values: Sequence[float]) -> str:
    """Mean and standard error over seeds, of the finite values; the mean alone for one value.

    >>> format_mean_sem([0.5, 0.6]), format_mean_sem([0.5, math.nan]), format_mean_sem([math.inf])
    ('.550 ± .050', '.500', '–')
    """
    known = [value for value in values if math.isfinite(value)]
    if len(known) < 2:
        return format_ratio(known[0]) if known else MISSING
    error = stdev(known) / math.sqrt(len(known))
    return f"{format_ratio(fmean(known))} ± {format_ratio(error)}"


def format_percent(share: float) -> str:
    """A share in percent.

    >>> format_percent(0.844)
    '84 %'
    """
    return f"{share * 100:.0f} %" if math.isfinite(share) else MISSING


def format_option(value: Any) -> str:
    """An option's value as it is typed.

    >>> format_option([24, 24]), format_option(()), format_option(0.05)
    ('24 24', 'none', '0.05')
    """
    if isinstance(value, list | tuple):
        return " ".join(str(item) for item in value) or "none"
    return "none" if value is None else str(value)


def format_entry(name: str, options: Mapping[str, Any]) -> str:
    """An algorithm and its options as one word of the command line.

    >>> format_entry("er", {"exemplars": 50, "learner_layers": (8, 4), "code_buffer": False})
    'er+exemplars=50+learner_layers=8,4+code_buffer=false'
    """
    words = [name]
    for key, value in options.items():
        text = format_option(value)
        text = text.lower() if isinstance(value, bool) else text
        words.append(f"{key}={text.replace(' ', ',') if isinstance(value, list | tuple) else text}")
    return "+".join(words)


def shorten(text: str, limit: int = 60) -> str:
    """Text cut to a length.

    >>> shorten("abcdef", 4)
    'abc…'
    """
    return text if len(text) <= limit else text[: limit - 1] + "…"


def printable(value: Any) -> str:
    """A value as text in which control characters are replaced.

    >>> printable("a" + chr(27) + "[31m")
    'a\ufffd[31m'
    """
    text = "" if value is None else str(value)
    return text if text.isprintable() else "".join(c if c.isprintable() else "\ufffd" for c in text)
