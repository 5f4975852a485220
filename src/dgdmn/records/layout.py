"""What the run directory's files are called, and which names may become a part of them."""

import re
from collections.abc import Mapping
from typing import Any, Literal, get_args

from dgdmn.errors import UsageError

MatrixName = Literal["accuracy", "accuracy_ltm"]
MATRICES: tuple[MatrixName, ...] = get_args(MatrixName)
CONFIG, EVENTS, SUMMARY, ARTEFACTS = "config.json", "events.jsonl", "summary.json", "artefacts"
FILES = (CONFIG, EVENTS, SUMMARY, *(f"{matrix}.csv" for matrix in MATRICES))


def run_name(dataset: str, algorithm: str, preset: str, seed: int) -> str:
    """The name of a run's directory.

    >>> run_name("digits", "dgdmn", "paper", 0)
    'digits-dgdmn-paper-seed0'
    """
    for part, value in (("dataset", dataset), ("algorithm", algorithm), ("preset", preset)):
        check_file_name(part, value)
    return f"{dataset}-{algorithm}-{preset}-seed{int(seed)}"


def check_file_name(what: str, name: str) -> None:
    """Refuse a name that would leave its directory or surprise a shell."""
    if not re.fullmatch(r"\w[\w.-]*", name):
        raise UsageError(f"{what} is {name!r}: use letters, digits, '.', '_' and '-', it becomes a file name")


def checked_tasks(config: Mapping[str, Any]) -> tuple[str, ...]:
    """The names of the columns, from config["tasks"]."""
    names = config.get("tasks")
    if not isinstance(names, list | tuple) or not names:
        raise UsageError('config["tasks"] is missing: list the names of the tasks, one for each column')
    for name in names:
        # One line a row is what lets the reader tell a whole row from a torn one.
        if not isinstance(name, str) or name.splitlines() != [name] or not _encodable(name):
            raise UsageError(f"task name {name!r} in config: give text without line breaks")
    if len(set(names)) != len(names):
        raise UsageError('config["tasks"] repeats a name: list each task once, a repeated task is one column')
    return tuple(names)


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
