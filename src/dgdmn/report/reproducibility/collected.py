"""What a finished run leaves behind in `results/`: a few kB of JSON and csv, no pictures, no weights."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dgdmn.disk import json_bytes, os_errors, read_object
from dgdmn.disk import replace as write
from dgdmn.errors import DgdmnError
from dgdmn.records import RunRecord
from dgdmn.records.layout import CONFIG, MATRICES, SUMMARY
from dgdmn.report import artefacts
from dgdmn.report.reproducibility.recognised import counts
from dgdmn.report.runs import Run, read_runs
from dgdmn.report.sections.dreams import balance
from dgdmn.report.timeline import PHASES, Timeline

EXTRA = "extra.json"
COPIED = (SUMMARY, *(f"{matrix}.csv" for matrix in MATRICES), CONFIG)
"""Files that are copied as they are; a config names no path, and comes last: without it there is no result."""
CURVES = ("noise", "noise_accuracy", "noise_accuracy_unclipped", "occlusion", "occlusion_accuracy")
"""Arrays of the artefact on resilience that are numbers, not pictures."""


@dataclass(frozen=True)
class Result:
    """A finished run as `results/` has it."""

    run: Run
    """What a report's figures take; it has the collected times and recognitions, and no artefacts."""
    extra: Mapping[str, Any]
    """extra.json."""

    def resilience(self, field: str) -> dict[float, float]:
        """Accuracy by strength: `noise_accuracy`, `noise_accuracy_unclipped` or `occlusion_accuracy`; may be empty."""
        known = self.extra.get("resilience") or {}
        strengths = known.get(field.split("_")[0], ())
        return dict(zip(strengths, known.get(field, ()), strict=False))


def collect(record: RunRecord, results: Path) -> Path:
    """Copy what is small of a complete run into results/<name>/, and sum up the rest in extra.json."""
    runs, problems = read_runs([record.directory])
    if problems:
        raise DgdmnError(f"cannot collect {record.directory}: {problems[0].reason}")
    place, told = results / record.name, extra(runs[0])
    if (place / EXTRA).exists() and not told["resilience"] and read_object(place / EXTRA).get("resilience"):
        return place  # the same run, done by an older version that measured less
    with os_errors("write", place):
        place.mkdir(parents=True, exist_ok=True)
        (place / CONFIG).unlink(missing_ok=True)  # who is killed here leaves nothing, not a half of each
    write(place / EXTRA, json_bytes(told, indent=1))
    for name in COPIED:
        source = record.directory / name
        if source.exists():
            with os_errors("read", source):
                content = source.read_bytes()
            write(place / name, content)
    return place


def extra(run: Run) -> dict[str, Any]:
    """The small numbers of a run's events and artefacts."""
    return {
        "trained": _rounded(run.timeline.trained),
        "sleeps": list(run.timeline.sleeps),
        "phases": {name: round(taken, 3) for name, taken in run.timeline.seconds.items()},
        "dreams": _dreams(run),
        "resilience": _resilience(run),
        "recognised": counts(run),
    }


def read_result(directory: Path) -> Result:
    """A run as it was collected; damage is an error in one line."""
    runs, problems = read_runs([directory])
    if problems:
        raise DgdmnError(f"cannot use {directory}: {problems[0].reason}; collect it again")
    run = runs[0]
    if not run.complete:
        raise DgdmnError(f"cannot use {directory}: the run has not ended; remove it, or collect it again")
    known = read_object(directory / EXTRA)
    recognised = (known.get("recognised") or {}).get("events", [])
    return Result(
        replace(run, record=replace(run.record, events=recognised), timeline=_timeline(known)), known
    )


def _timeline(known: Mapping[str, Any]) -> Timeline:
    phases = dict.fromkeys(PHASES, 0.0) | dict(known.get("phases", {}))
    trained = tuple(math.nan if value is None else float(value) for value in known.get("trained", ()))
    return Timeline(phases, trained, tuple(known.get("sleeps", ())), (), 1.0)


def _rounded(values: tuple[float, ...]) -> list[float]:
    return [round(value, 3) for value in values]


def _dreams(run: Run) -> list[dict[str, float]]:
    """Label purity and class balance after each sleep: of the dreams kept, and of those replayed."""
    purity = {one.step: one.purity for one in artefacts.dreams(run)[0] if math.isfinite(one.purity)}
    even = {replay.step: balance(replay.dreamt) for replay in run.timeline.replays if len(replay.dreamt) > 1}
    return [
        {"step": step, "purity": purity.get(step, math.nan), "balance": even.get(step, math.nan)}
        for step in sorted({*purity, *even})
    ]


def _resilience(run: Run) -> dict[str, list[float]]:
    arrays = artefacts.read_artefact(run, "resilience")
    return {name: [float(value) for value in arrays[name]] for name in CURVES if name in arrays}
