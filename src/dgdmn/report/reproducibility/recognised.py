"""How often recognition was right, counted from the events of a run without task descriptors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dgdmn.report.runs import Run

LONG_TERM = "long-term memory"
KEPT = ("kind", "step", "memories", "losses", "answered_by", "known")


def counts(run: Run) -> dict[str, Any] | None:
    """Right answers among the tasks met, refusals among those not met, and the events themselves."""
    events = [event for event in run.record.events if event.get("kind") == "recognised"]
    if not events:
        return None
    met = [one for event in events for one in _met(run, event)]
    strange = [one for event in events for one in _strange(run, event)]
    return {
        "met": len(met),
        "answered_by_the_right_memory": sum(met),
        "not_met": len(strange),
        "marked_unknown": sum(strange),
        "events": [{key: event[key] for key in KEPT if key in event} for event in events],
    }


def _met(run: Run, event: Mapping[str, Any]) -> list[bool]:
    """For each task met, whether the memory that holds it answered."""
    step = int(event["step"])
    slept = max((sleep for sleep in run.timeline.sleeps if sleep <= step), default=0)
    order = [run.tasks[column] for column in run.columns[:step]]
    awake, answered = _holders(order[slept:], event["memories"]), event["answered_by"]
    return [answered[task] == awake.get(task, LONG_TERM) for task in dict.fromkeys(order) if task in answered]


def _holders(awake: Sequence[str], memories: Sequence[str]) -> dict[str, str]:
    """The short-term memory of each task since the last sleep: they are listed in the order of learning."""
    return dict(zip(dict.fromkeys(awake), (name for name in memories if name != LONG_TERM), strict=False))


def _strange(run: Run, event: Mapping[str, Any]) -> list[bool]:
    """For each task not yet met, whether no memory took most of its samples for known."""
    met = {run.tasks[column] for column in run.columns[: int(event["step"])]}
    return [share < 0.5 for task, share in event["known"].items() if task not in met]
