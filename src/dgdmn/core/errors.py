"""Errors as one sentence: the value, what is allowed, what to do."""

import difflib
from collections.abc import Iterable


class DgdmnError(Exception):
    """Something failed. The command line prints the sentence and exits with 1."""


class Interrupted(DgdmnError):  # noqa: N818  (not an error)
    """The user asked to stop; what was done so far is saved."""


class UsageError(DgdmnError, ValueError):
    """The request is invalid. The command line exits with 2."""


class DataError(DgdmnError):
    """A data file is missing, damaged or cannot be downloaded."""


def suggestion(word: str, known: Iterable[str]) -> str:
    """A hint for a mistyped word, to append to it; empty if nothing is close.

    >>> suggestion("digts", ["digits", "hindi"])
    ' (did you mean digits?)'
    """
    close = difflib.get_close_matches(word, list(known), 1)
    return f" (did you mean {close[0]}?)" if close else ""
