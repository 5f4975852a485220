"""Find and read run directories within limits. A bad run becomes a problem in one line, never an exception."""

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from dgdmn import metrics
from dgdmn.config.registry import AlgorithmInfo, algorithm_info
from dgdmn.core.errors import DgdmnError, UsageError
from dgdmn.core.files import read_json
from dgdmn.core.text import format_option, printable
from dgdmn.records import RunRecord

EXTRA = "extra.json"  # in a collected run: facts from the events and artifacts that were not kept
LIMITS = {
    "config.json": 1_000_000,
    "summary.json": 1_000_000,
    EXTRA: 4_000_000,
    "accuracy.csv": 4_000_000,  # about 450 tasks
    "accuracy_ltm.csv": 4_000_000,
    "events.jsonl": 32_000_000,
}
"""Largest number of bytes read from each file; a larger file makes its directory a problem."""
PHASES = ("learning", "sleep", "testing", "other")  # sleep: training of the long-term memory
MAX_STEPS = 10_000  # largest plausible step; a damaged event may state any number

_PHASE_AFTER = {"task_began": "learning", "sleep_started": "sleep", "sleep_ended": "learning"}
_PHASE_AFTER |= {"task_learned": "testing", "evaluated": "testing"}
_PHASE_AFTER |= {"step_ended": "other", "resumed": "other"}


@dataclass(frozen=True)
class Problem:
    """A directory that could not be read, and the reason in one line."""

    name: str
    reason: str


@dataclass(frozen=True)
class Replay:
    """One consolidation into the long-term memory (Algorithm 1)."""

    step: int  # tasks learned, including those of this replay
    new: int  # samples of the new tasks trained on
    generated: int  # generated samples of the old tasks trained on
    per_class: tuple[int, ...]  # generated samples of each class


@dataclass
class Timeline:
    """What the events of a run say about time, sleeps and replays."""

    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(PHASES, 0.0))
    trained: tuple[float, ...] = ()  # seconds of learning and sleeping until each step ended
    sleeps: tuple[int, ...] = ()  # steps after which the memory slept
    replays: tuple[Replay, ...] = ()
    rows: int = 0  # rows of the tasks learned
    recognized: tuple[Mapping[str, Any], ...] = ()  # events of recognition without task names


class Run:
    """One run directory: what was run, its accuracy matrices and its numbers."""

    def __init__(self, directory: Path) -> None:
        for path in (directory / name for name in LIMITS):
            if path.exists():
                check_size(path)
        self.directory, self.record = directory, RunRecord.read(directory)
        record, config = self.record, printable_texts(self.record.config)
        self.config = config  # config.json; no text in it has control characters
        self.extra = read_json(directory / EXTRA) if (directory / EXTRA).exists() else {}
        self.name, self.key = printable(record.name), config["key"]
        named = (config.get(name) for name in ("stream", "algorithm", "preset"))
        self.stream, self.algorithm, self.preset = (str(name or "unnamed") for name in named)
        self.seed = int(_number(config.get("seed")))
        self.evaluate_on = str(config.get("evaluate_on") or "test")
        # Numbers, from 1, of the tasks repeated at the end.
        self.revise = tuple(int(_number(number)) for number in _list(config.get("revise")))
        self.together = config.get("together") is True  # all tasks were learned at once
        # Options that differ from the preset, and arguments of the estimator's class.
        self.arguments = _mapping(config.get("arguments"))
        self.changes = _mapping(config.get("changes")) | self.arguments
        self.options = _mapping(config.get("options"))
        # Own data: file names only, because a page must not show paths; and the task options.
        data = {k: v for k, v in _mapping(config.get("data")).items() if v}
        self.data = data | {k: Path(str(data[k])).name for k in ("path", "test") if k in data}
        columns = {k.replace("_", " "): v for k, v in self.columns_of_data().items()}
        self.data_options = ", ".join(f"{k} {format_option(v)}" for k, v in columns.items())
        self.classes = tuple(map(str, _list(config.get("classes"))))
        self.shared_classes = config.get("shared_classes") is True  # by several tasks
        self.tasks = tuple(config["tasks"])  # the columns of the matrices
        self.accuracy, self.accuracy_ltm = record.accuracy, record.accuracy_ltm
        self.columns = record.columns  # the task (column) learned before each row
        self.complete = record.complete and len(record.accuracy) > 0
        self.artifacts = record.artifacts
        self.note = printable(config.get("note"))  # what a result must say about the data
        self.machine = json.dumps(config.get("machine"), sort_keys=True)
        try:
            self.info = algorithm_info(self.algorithm)
        except UsageError:  # of another package
            self.info = AlgorithmInfo(self.algorithm, self.algorithm, "", "custom", "", "")
        recorded = (directory / "events.jsonl").exists()
        timeline = read_timeline(record.iter_events()) if recorded else None
        self.timeline = timeline or _collected_timeline(self.extra)
        pairs = map(_list, _mapping((record.summary or {}).get("by_class")).values())
        rows = [_number(pair[1]) for pair in pairs if len(pair) == 2]  # tested, of each class
        self.is_unbalanced = max(rows, default=0.0) > 1.5 * min(rows, default=0.0)
        self._numbers = self._compute_numbers()
        self.acc, self.bwt = self._numbers["acc"], self._numbers["bwt"]
        self.memory_bytes = self._numbers["memory_bytes"]

    def columns_of_data(self) -> dict[str, Any]:
        """The options that say how the rows of own data become tasks."""
        return {k: v for k, v in self.data.items() if k not in ("path", "digest")}

    def number(self, name: str) -> float:
        """A number of the run: computed here, or of summary.json; NaN if there is none."""
        return self._numbers.get(name, _number((self.record.summary or {}).get(name), math.nan))

    def _compute_numbers(self) -> dict[str, float]:
        summary, a, ltm = self.record.summary or {}, self.accuracy, self.accuracy_ltm
        first = {column: row for row, column in reversed(list(enumerate(self.columns)))}
        # ACC is about the tasks seen so far if the run has not ended.
        seen = list(range(len(self.tasks))) if self.complete else sorted(first)
        wall = _number(summary.get("train_seconds"), math.nan)
        # Without steps_trained, memory_bytes leaves out the short-term memory (a run in results/).
        counted = not self.info.short_term or "steps_trained" in summary
        return {
            "acc": metrics.acc(a[:, seen]) if len(a) else math.nan,
            "bwt": metrics.bwt(a, self.columns) if len(a) else math.nan,
            "acc_ltm": metrics.acc(ltm) if ltm is not None and len(ltm) else math.nan,
            # mean accuracy on each task right after it was first learned
            "learned": float(np.mean([a[r, c] for c, r in first.items()])) if first else math.nan,
            # seconds of learning and sleeping: processor time if recorded, else wall clock
            "trained_seconds": _number(summary.get("train_cpu_seconds"), wall),
            "memory_bytes": _number(summary.get("memory_bytes"), math.nan) if counted else math.nan,
            "peak_bytes": 1_048_576 * _number(summary.get("peak_rss_mb"), math.nan),
        }


def load_runs(paths: Iterable[Path]) -> tuple[list[Run], list[Problem]]:
    """The runs in these directories, and a problem for each that cannot be read."""
    runs: list[Run] = []
    problems: list[Problem] = []
    for directory in find_directories(paths):
        try:
            runs.append(Run(directory))
        except Exception as error:  # a directory may contain anything; a report must not fail
            known = isinstance(error, DgdmnError)
            reason = str(error) if known else f"not a run: {type(error).__name__}: {error}"
            reason = reason.replace(f"{directory}/", "").replace(str(directory), "the directory")
            name = directory.resolve().name or directory
            problems.append(Problem(printable(name), printable(reason.partition("\n")[0])))
    return runs, problems


def find_directories(paths: Iterable[Path]) -> list[Path]:
    """Run directories: each path is one, or contains them; sorted, each once.

    Inside a directory of runs, a directory counts if it has a file of a run: a damaged run is a problem,
    a directory of something else is not.
    """
    found: list[Path] = []
    for path in map(Path, paths):
        try:
            inside = sorted(p for p in path.iterdir() if p.name[0] != "." and p.is_dir())
        except OSError:
            inside = []  # reading the path itself gives the reason
        found += [path] if is_run(path) else [p for p in inside if is_run(p)] or [path]
    return list(dict.fromkeys(found))


def is_run(path: Path) -> bool:
    """Whether a directory contains a file of a run, or cannot be read, so that reading it gives the reason."""
    try:
        return any((path / name).exists() for name in LIMITS)
    except OSError:
        return True


def check_size(path: Path) -> None:
    """Refuse a file of a run that is too large for a report."""
    size, limit = path.stat().st_size, LIMITS.get(path.name, LIMITS["summary.json"])
    if size > limit:
        raise DgdmnError(f"{path.name} has {size:,} bytes; a report reads at most {limit:,}")


def read_timeline(events: Iterable[Mapping[str, Any]]) -> Timeline | None:
    """Sum up the events of a run; None if there are none. Unknown events only take time."""
    result, trained, replays = Timeline(), dict[int, float](), list[Replay]()
    sleeps, recognized = list[int](), list[Mapping[str, Any]]()
    phase, last, step, event = "other", 0.0, 0, None
    for event in events:
        kind, now, spent = str(event.get("kind")), _number(event.get("seconds")), phase
        if kind in ("task_began", "resumed"):
            spent = "other"
        elif phase == "learning" and event.get("memory") == "ltm":
            spent = "sleep"  # without a short-term memory there are no sleeps to train in
        result.seconds[spent] += max(0.0, now - last)
        last = max(now, last)
        if step:
            trained[step] = result.seconds["learning"] + result.seconds["sleep"]
        if kind == "task_began":
            step = max(0, min(int(_number(event.get("step"))), MAX_STEPS))
            result.rows += int(_number(event.get("samples")))
        elif kind == "sleep_ended":
            sleeps.append(step)
        elif kind == "replayed" and event.get("memory") == "ltm":
            each = map(_number, _list(event.get("dreamed"))[:MAX_STEPS])
            new, generated = int(_number(event.get("n_tasks"))), int(_number(event.get("n_gen")))
            replays.append(Replay(step, new, generated, tuple(int(max(0.0, n)) for n in each)))
        elif kind == "recognized":
            recognized.append(event)
        phase = _PHASE_AFTER.get(kind, phase)
        if max(len(sleeps), len(replays), len(recognized)) > MAX_STEPS:
            raise DgdmnError(f"events.jsonl has more than {MAX_STEPS:,} events of kind {kind}")
    result.trained = tuple(trained.get(n, math.nan) for n in range(1, max(trained, default=0) + 1))
    result.sleeps, result.replays = tuple(sleeps), tuple(replays)
    result.recognized = tuple(recognized)
    return None if event is None else result


def _collected_timeline(extra: Mapping[str, Any]) -> Timeline:
    events = _list(_mapping(extra.get("recognized")).get("events"))
    return Timeline(
        {phase: _number(_mapping(extra.get("phases")).get(phase)) for phase in PHASES},
        tuple(_number(value, math.nan) for value in _list(extra.get("trained"))),
        tuple(int(_number(step)) for step in _list(extra.get("sleeps"))),
        recognized=tuple(event for event in events if isinstance(event, Mapping)),
    )


def _number(value: Any, default: float = 0.0) -> float:
    return float(value) if isinstance(value, int | float) and abs(value) < 1e18 else default


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def printable_texts(value: Any) -> Any:
    """A value in which no text of a mapping, list or tuple has control characters."""
    if isinstance(value, Mapping):
        return {printable(key): printable_texts(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(printable_texts, value))
    return printable(value) if isinstance(value, str) else value
