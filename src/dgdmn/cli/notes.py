"""Notes saved beside a memory: rows of its tasks, its last sleep, and the history of its evaluations."""

import json
from contextlib import suppress
from typing import Any

from dgdmn.storage import State, get_int, get_typed

Notes = dict[str, Any]
"""`tasks` {name: [times learned, rows in all]}; `learned` {name: UTC time of the last time}; `slept`, a UTC time or
None; `evaluations`, the latest last; of tables the names of the `label` and `task` columns and of those to `ignore`."""
MAX_EVALUATIONS = 1_000
MAX_BYTES = 1_000_000
"""Most evaluations that are kept, and their most bytes as JSON."""


def read_notes(saved: Any) -> Notes:
    """The notes of a saved memory. Those of another program, or edited ones, are left out."""
    notes = Notes(tasks={}, learned={}, slept=None, evaluations=[])
    notes |= {"label": "label", "ignore": [], "task": "task"}
    wrong = (TypeError, KeyError, ValueError, AttributeError)
    with suppress(*wrong):
        tasks = {
            t: [get_int({"n": n}, "n") for n in (a, b)] for t, (a, b) in saved["tasks"].items()
        }
        notes |= {"tasks": tasks, "slept": saved["slept"] and str(saved["slept"])}
    with suppress(*wrong):
        notes["learned"] = {str(t): str(when) for t, when in saved["learned"].items()}
    with suppress(*wrong):
        ignored = [str(one) for one in get_typed(saved, "ignore", list)]
        notes |= {"label": get_typed(saved, "label", str), "ignore": ignored}
    with suppress(*wrong):
        notes["task"] = get_typed(saved, "task", str)
    with suppress(*wrong):
        history = get_typed(saved, "evaluations", list)[-MAX_EVALUATIONS:]
        notes["evaluations"] = [_check_evaluation(one) for one in history]
    return notes


def add_evaluation(notes: Notes, entry: dict[str, Any]) -> None:
    """Add an evaluation to the history; the oldest ones leave when there are too many."""
    history, size = [entry, *reversed(notes["evaluations"])][:MAX_EVALUATIONS], 0
    if len(json.dumps(entry)) > MAX_BYTES:  # more classes than a history can hold
        history[0] = entry | {"by_class": {}, "by_task": {}}
    kept = []
    for one in history:
        size += len(json.dumps(one))
        if size > MAX_BYTES:
            break
        kept.append(one)
    notes["evaluations"] = kept[::-1]


def _check_evaluation(saved: State) -> dict[str, Any]:
    return {
        "time": get_typed(saved, "time", str),
        "data": get_typed(saved, "data", str),
        "rows": get_int(saved, "rows", 1),
        **{name: _share(saved, name) for name in ("accuracy", "macro")},
        **{name: _counts(get_typed(saved, name, dict)) for name in ("by_class", "by_task")},
        "ece": _share(saved, "ece"),
        "unknown": None if saved["unknown"] is None else _share(saved, "unknown"),
    }


def _share(saved: State, name: str) -> float:
    if not 0 <= (value := get_typed(saved, name, float)) <= 1:
        raise ValueError(f"{name} is {value}; it must be in [0, 1]")
    return value


def _counts(saved: State) -> dict[str, list[int]]:
    found = {}
    for name, (right, rows) in saved.items():
        rows = get_int({"rows": rows}, "rows", 1)
        found[name] = [get_int({"right": right}, "right", 0, rows), rows]
    return found
