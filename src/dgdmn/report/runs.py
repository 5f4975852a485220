"""Run directories as a report sees them: found, read within limits, never an exception for a bad one."""

import json
import math
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dgdmn import metrics
from dgdmn.errors import DgdmnError
from dgdmn.records import RunRecord
from dgdmn.records.layout import CONFIG, EVENTS, FILES, SUMMARY
from dgdmn.report.timeline import Timeline, timeline

LIMITS = {CONFIG: 1_000_000, SUMMARY: 1_000_000, EVENTS: 32_000_000}
"""Most bytes of a file that are read; a larger one makes its directory a problem."""
MATRIX_LIMIT = 4_000_000
"""The same for an accuracy matrix: about 450 tasks."""


@dataclass(frozen=True)
class Problem:
    """A directory that could not be read."""

    name: str
    """Its own name."""
    reason: str
    """Why, in one line."""


@dataclass(frozen=True, eq=False)
class Run:
    """What a report says about one run directory."""

    record: RunRecord
    """What was read."""
    dataset: str
    """Name of the stream."""
    algorithm: str
    """Name of the algorithm."""
    preset: str
    """Name of the preset."""
    seed: int
    """Seed of the stream and the algorithm."""
    evaluate_on: str
    """`test` or `validation`."""
    revise: tuple[int, ...]
    """Tasks, counted from 1, that came once more at the end."""
    together: bool
    """Whether all tasks were learnt at once, as one."""
    changes: dict[str, Any]
    """Options that are not the preset's."""
    options: dict[str, Any]
    """Every option."""
    classes: tuple[str, ...]
    """All labels as text, in the order they first come."""
    timeline: Timeline
    """What the events say about time, sleeps and replays."""

    @property
    def name(self) -> str:
        """The directory's own name."""
        return _text(self.record.name)

    @property
    def tasks(self) -> tuple[str, ...]:
        """The columns of the matrices."""
        return tuple(map(_text, self.record.task_names))

    @property
    def accuracy(self) -> NDArray[np.float64]:
        """A, (steps, tasks)."""
        return self.record.accuracy

    @property
    def accuracy_ltm(self) -> NDArray[np.float64] | None:
        """The same for the long-term memory alone."""
        return self.record.accuracy_ltm

    @property
    def columns(self) -> tuple[int, ...]:
        """The column that each row learnt."""
        return self.record.columns

    @property
    def complete(self) -> bool:
        """Whether the run has ended, and has a result."""
        return self.record.complete and len(self.accuracy) > 0

    @property
    def acc(self) -> float:
        """ACC, of the tasks seen while the run has not ended; NaN before the first row."""
        if not len(self.accuracy):
            return math.nan
        seen = self.accuracy[-1] if self.complete else self.accuracy[-1, sorted(set(self.columns))]
        return float(np.mean(seen))

    @property
    def bwt(self) -> float:
        """BWT; NaN where only one task was seen."""
        return metrics.bwt(self.accuracy, self.columns) if len(self.accuracy) else math.nan

    @property
    def at_once(self) -> dict[int, float]:
        """Accuracy on each task, by its column, right after it was first learnt: the diagonal of A."""
        first = {column: row for row, column in reversed(list(enumerate(self.columns)))}
        return {column: float(self.accuracy[row, column]) for column, row in sorted(first.items())}

    @property
    def learnt(self) -> float:
        """The mean of that over the tasks; NaN without rows."""
        return float(np.mean(list(self.at_once.values()))) if self.at_once else math.nan

    def number(self, field: str) -> float:
        """A number of summary.json; NaN where there is none."""
        value = (self.record.summary or {}).get(field)
        return float(value) if isinstance(value, int | float) and abs(value) < 1e18 else math.nan

    @property
    def trained_seconds(self) -> float:
        """Seconds of learning and sleeping: the processor's where they were recorded, else the wall clock's."""
        processor = self.number("train_cpu_seconds")
        return processor if math.isfinite(processor) else self.number("train_seconds")

    @property
    def machine(self) -> str:
        """Where it ran, as far as that was recorded: times of two machines do not compare."""
        return json.dumps(self.record.config.get("machine"), sort_keys=True)

    @property
    def memory_bytes(self) -> float:
        """Bytes that the memory takes; NaN where they were not counted, or not as they are now.

        A dual memory was once counted without its task memories, when summaries did not have their steps yet.
        """
        older = self.algorithm.startswith("dgdmn") and math.isnan(self.number("steps_trained"))
        return math.nan if older else self.number("memory_bytes")

    def text(self, field: str) -> str:
        """A text of config.json; empty where there is none."""
        return _text(self.record.config.get(field))


def find_runs(paths: Sequence[Path]) -> list[Path]:
    """Run directories: each path is one, or a directory of them; by name, each once.

    What lies in a directory of runs and is a directory counts, so that a broken run is not passed over in
    silence.
    """
    found: dict[Path, None] = {}
    for path in paths:
        found.update(dict.fromkeys([path] if _is_run(path) else _inside(path)))
    return list(found)


def _is_run(path: Path) -> bool:
    return any((path / name).exists() for name in FILES)


def _inside(path: Path) -> list[Path]:
    try:
        children = [child for child in path.iterdir() if child.is_dir() and not child.name.startswith(".")]
    except OSError:
        return [path]  # reading it will say why
    return sorted(children) or [path]


def read_runs(directories: Sequence[Path]) -> tuple[list[Run], list[Problem]]:
    """The runs that can be read, and one line for each directory that cannot."""
    runs, problems = [], []
    for directory in directories:
        try:
            runs.append(_read(Path(directory)))
        except DgdmnError as error:
            problems.append(Problem(_name(directory), _text(_without(directory, str(error)))))
        except Exception as error:  # anything may be in a directory; none of it may stop a report
            reason = f"it is not a run's: {type(error).__name__}: {error}"
            problems.append(Problem(_name(directory), _text(reason)))
    return runs, problems


def _name(directory: Path) -> str:
    return _text(Path(directory).resolve().name or str(directory))


def _without(directory: Path, reason: str) -> str:
    """The reason with paths inside the directory made short."""
    return reason.replace(f"{directory}/", "").replace(str(directory), "the directory").splitlines()[0]


def _read(directory: Path) -> Run:
    for name in FILES:
        _check_file(directory / name, LIMITS.get(name, MATRIX_LIMIT))
    record = RunRecord.read(directory)
    config = record.config
    if len(record.accuracy):
        metrics.acc(record.accuracy)  # refuses what is no accuracy
    return Run(
        record=record,
        dataset=_text(config.get("dataset")) or "no name",
        algorithm=_text(config.get("algorithm")) or "no name",
        preset=_text(config.get("preset")) or "no name",
        seed=int(config.get("seed") or 0),
        evaluate_on=_text(config.get("evaluate_on")) or "test",
        revise=tuple(int(number) for number in config.get("revise") or ()),
        together=config.get("together") is True,
        changes=_mapping(config.get("changes")),
        options=_mapping(config.get("options")),
        classes=tuple(_text(label) for label in config.get("classes") or ()),
        timeline=timeline(record.events),
    )


def _check_file(path: Path, limit: int) -> None:
    if not path.exists():
        return
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise DgdmnError(f"{path.name} is not a file")  # a pipe would keep the reader waiting for ever
    if status.st_size > limit:
        raise DgdmnError(f"{path.name} has {status.st_size:,} bytes: a report reads at most {limit:,}")


def _text(value: Any) -> str:
    """A value as text; what no page can print is shown as a box."""
    text = "" if value is None else str(value)
    return text if text.isprintable() else "".join(c if c.isprintable() else "\ufffd" for c in text)


def _mapping(value: Any) -> dict[str, Any]:
    return {str(key): item for key, item in value.items()} if isinstance(value, Mapping) else {}
