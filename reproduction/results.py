"""Collected runs: a few kilobytes of each finished run, loaded once and found by run key."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from dgdmn import metrics
from dgdmn.core.files import json_bytes, os_errors, read_json, write_atomic
from dgdmn.report.artifacts import dream_quality, read_dreams
from dgdmn.report.load import EXTRA, Run, load_runs
from dgdmn.report.table import finite
from dgdmn.runs.spec import RunSpec

# Files copied as they are. config.json comes last: a directory without it is not a result.
COPIED = ("summary.json", "accuracy.csv", "accuracy_ltm.csv", "config.json")
CURVES = {
    "noise": ("noise", "noise_accuracy_unclipped"),
    "clipped": ("noise", "noise_accuracy"),
    "occlusion": ("occlusion", "occlusion_accuracy"),
}
"""Arrays of the artifact `resilience`: strengths and accuracies."""
NOT_ENDED = "the run has not ended"
LEARNED = 0.5  # accuracy right after training from which a task counts as learned


@dataclass(frozen=True)
class Results:
    """All collected runs: one table with a row per run, by key."""

    by_key: Mapping[str, Run]
    _found: dict[RunSpec, tuple[Run, ...]] = field(default_factory=dict, compare=False)

    @cached_property
    def seeds(self) -> tuple[int, ...]:
        """Every seed that any run has."""
        return tuple(sorted({run.seed for run in self.by_key.values()}))

    def find(self, spec: RunSpec) -> tuple[Run, ...]:
        """The runs of this computation with any seed, by seed."""
        if spec not in self._found:
            keys = [replace(spec, seed=seed).key for seed in self.seeds]
            self._found[spec] = tuple(self.by_key[key] for key in keys if key in self.by_key)
        return self._found[spec]

    def values(self, spec: RunSpec, measure: str) -> list[float]:
        """A measure, by its name in MEASURES, of each seed that has it."""
        return finite(map(MEASURES[measure], self.find(spec)))


def load_results(directory: Path) -> tuple[Results, dict[str, str]]:
    """The complete runs in a directory, and the reason why each of the others cannot be used."""
    runs, problems = load_runs(path.parent for path in sorted(directory.glob("*/config.json")))
    bad = {one.name: one.reason for one in problems}
    bad |= {run.name: NOT_ENDED for run in runs if not run.complete}
    return Results({run.key: run for run in runs if run.complete}), bad


def average_curve(run: Run, last: int) -> list[float]:
    """Mean accuracy on the `last` tasks seen, after each task."""
    return [float(value) for value in metrics.last_k(run.accuracy, last, run.columns)]


def accuracy_when_learned(run: Run) -> dict[str, float]:
    """Accuracy on each task right after it was learned for the first time."""
    first = {column: run.columns.index(column) for column in dict.fromkeys(run.columns)}
    return {run.tasks[column]: float(run.accuracy[row, column]) for column, row in first.items()}


def accuracy_under(run: Run, kind: str, strength: float) -> float:
    """Accuracy under `noise`, `clipped` noise or `occlusion` of a strength; NaN if not measured."""
    known, (x, y) = run.extra.get("resilience") or {}, CURVES[kind]
    pairs = zip(known.get(x, ()), known.get(y, ()), strict=False)
    return float(dict(pairs).get(strength, math.nan))


def accuracies_under(runs: Iterable[Run], kind: str, strength: float) -> list[float]:
    """The same of each run that measured it."""
    return finite(accuracy_under(run, kind, strength) for run in runs)


def _share(run: Run, part: str, whole: str) -> float:
    counts = run.extra.get("recognized") or {}
    return counts[part] / counts[whole] if counts.get(whole) else math.nan


def _sequential(measure: Callable[[Run], float]) -> Callable[[Run], float]:
    return lambda run: math.nan if run.together else measure(run)


MEASURES: dict[str, Callable[[Run], float]] = {
    "acc": lambda run: run.acc,
    "bwt": lambda run: run.bwt,
    "last10": lambda run: average_curve(run, 10)[-1],
    # "newest": at the end on the newest quarter of the tasks; "not_learned": number of tasks
    "newest": _sequential(lambda run: average_curve(run, max(1, len(run.tasks) // 4))[-1]),
    "not_learned": _sequential(
        lambda run: sum(acc < LEARNED for acc in accuracy_when_learned(run).values())
    ),
    "noise": lambda run: accuracy_under(run, "noise", 0.3),
    "clipped": lambda run: accuracy_under(run, "clipped", 0.3),
    "occlusion": lambda run: accuracy_under(run, "occlusion", 0.28),
    "purity": lambda run: (run.extra.get("dreams") or [{}])[-1].get("purity") or math.nan,
    "right": lambda run: _share(run, "answered_by_the_right_memory", "met"),
    "unknown": lambda run: _share(run, "marked_unknown", "not_met"),
}


class Times(NamedTuple):
    """Training times of groups of runs."""

    groups: tuple[list[float], ...]
    clock: str  # `processor` or `wall clock`; `other machines`: the groups cannot be compared


def training_times(*groups: Sequence[Run]) -> Times:
    """Seconds of learning and sleeping, of the seeds that all groups have on one machine.

    Processor time, because the cores were shared; wall clock if not all groups recorded it. Without
    common seeds, the wall clock of every run.
    """
    for clock, name in (("processor", "train_cpu_seconds"), ("wall clock", "train_seconds")):
        timed = [{(r.seed, r.machine): r.number(name) for r in group} for group in groups]
        timed = [{key: t for key, t in times.items() if math.isfinite(t)} for times in timed]
        if common := sorted(set.intersection(*map(set, timed))):
            return Times(tuple([times[key] for key in common] for times in timed), clock)
    walls = tuple(finite(run.number("train_seconds") for run in group) for group in groups)
    return Times(walls, "other machines")


def collect(run: Run, directory: Path) -> Path:
    """Copy the small files of a finished run and summarize its events and artifacts in extra.json."""
    place, summary = directory / run.name, summarize(run)
    measured = (place / EXTRA).exists() and read_json(place / EXTRA).get("resilience")
    if measured and not summary["resilience"]:
        return place  # collected before, from a directory that still had its artifacts
    with os_errors("write", place):
        place.mkdir(parents=True, exist_ok=True)
        # A kill from here on leaves no result, not a mixture.
        (place / COPIED[-1]).unlink(missing_ok=True)
    write_atomic(place / EXTRA, json_bytes(summary, indent=1))
    for source in (run.directory / name for name in COPIED):
        if source.exists():
            with os_errors("read", source):
                content = source.read_bytes()
            write_atomic(place / source.name, content)
    return place


def summarize(run: Run) -> dict[str, Any]:
    """The small facts in a run's events and artifacts."""
    if run.extra:  # collected before
        return dict(run.extra)
    resilience = run.record.artifact("resilience") if "resilience" in run.artifacts else {}
    names = dict.fromkeys(name for pair in CURVES.values() for name in pair)
    quality = dream_quality(run, read_dreams(run)[0])
    return {
        "trained": [round(seconds, 3) for seconds in run.timeline.trained],
        "sleeps": list(run.timeline.sleeps),
        "phases": {name: round(seconds, 3) for name, seconds in run.timeline.seconds.items()},
        "dreams": [{"step": n, "purity": p, "balance": b} for n, (p, b) in quality.items()],
        "resilience": {name: resilience[name].tolist() for name in names if name in resilience},
        "recognized": _recognized(run),
    }


def _recognized(run: Run) -> dict[str, Any] | None:
    """How often the right memory answered for known tasks, and new tasks were marked as unknown."""
    if not run.timeline.recognized:
        return None
    right, unknown = list[bool](), list[bool]()
    for event in run.timeline.recognized:
        step = int(event["step"])
        seen = [run.tasks[column] for column in run.columns[:step]]
        slept = max((one for one in run.timeline.sleeps if one <= step), default=0)
        task_memories = [name for name in event["memories"] if name != "long-term memory"]
        awake = dict(zip(dict.fromkeys(seen[slept:]), task_memories, strict=False))
        answered, known = event["answered_by"], event["known"]
        expected = {task: awake.get(task, "long-term memory") for task in seen}
        right += [answered[task] == memory for task, memory in expected.items()]
        unknown += [share < 0.5 for task, share in known.items() if task not in seen]
    fields = ("kind", "step", "memories", "losses", "answered_by", "known")
    return {
        "met": len(right),
        "answered_by_the_right_memory": sum(right),
        "not_met": len(unknown),
        "marked_unknown": sum(unknown),
        "events": [{name: event.get(name) for name in fields} for event in run.timeline.recognized],
    }
