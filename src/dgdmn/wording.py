"""How numbers and lists are said."""

from __future__ import annotations

import math
from collections.abc import Iterable


def counted(n: int, what: str, plural: str = "") -> str:
    """A number and its noun.

    >>> counted(1, "row"), counted(2000, "class", "classes")
    ('1 row', '2,000 classes')
    """
    return f"{n:,} {what if n == 1 else plural or what + 's'}"


def listed(things: Iterable[object], most: int = 12) -> str:
    """A few things in a line."""
    words = [str(thing) for thing in things]
    return ", ".join(words[:most]) + (f", … ({len(words)} in all)" if len(words) > most else "")


def duration(seconds: float) -> str:
    """Seconds for people.

    >>> duration(0.04), duration(42), duration(600), duration(9000)
    ('0.0 s', '42 s', '10 min', '2.5 h')
    """
    if not math.isfinite(seconds):
        return "–"
    if seconds < 90:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def size(n: float) -> str:
    """Bytes for people.

    >>> size(999), size(2_048_000)
    ('999 B', '2.0 MB')
    """
    if not math.isfinite(n):
        return "–"
    return f"{n:.0f} B" if n < 1000 else f"{n / 1e3:.0f} kB" if n < 1e6 else f"{n / 1e6:.1f} MB"
