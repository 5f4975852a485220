"""Writing a run directory: every call leaves it readable, whatever happens next."""

import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dgdmn.disk import append, json_bytes, npz_bytes, os_errors, replace
from dgdmn.errors import UsageError
from dgdmn.records.layout import (
    ARTEFACTS,
    CONFIG,
    EVENTS,
    FILES,
    MATRICES,
    SUMMARY,
    MatrixName,
    check_file_name,
    checked_tasks,
)
from dgdmn.records.matrix import Row, csv_bytes, header, read_rows
from dgdmn.records.reader import RunRecord


class RunWriter:
    """Writes one run directory; every call leaves it readable, whatever happens next."""

    def __init__(self, directory: Path, config: Mapping[str, Any]) -> None:
        """Start a new run; `config["tasks"]` lists the distinct names of the tasks, one a column."""
        self._open(Path(directory), checked_tasks(config), steps=0, seconds=0.0)
        taken = [name for name in FILES if (self.directory / name).exists()]
        if taken:
            raise UsageError(
                f"{directory} already holds a run ({taken[0]}): resume it, remove it or choose another"
            )
        content = json_bytes(config, indent=1)
        with os_errors("write", self.directory):
            self.directory.mkdir(parents=True, exist_ok=True)
        replace(self.directory / CONFIG, content)

    @classmethod
    def resume(
        cls,
        directory: Path,
        steps: int,
        *,
        rows: int | None = None,
        events: int | None = None,
        config: Mapping[str, Any] | None = None,
    ) -> "RunWriter":
        """Go on with a run after its first `steps` tasks: later rows and the summary are dropped.

        A step may have two rows, before and after the sleep at a stream's end: `rows` says how many to keep.
        Of the events the first `events` stay, else all of them: what came later will come again. A `resumed`
        event marks the place, and `seconds` goes on from the last of all. A `config`, if given, replaces
        the recorded one: another machine or version may go on with a run.
        """
        record = RunRecord.read(directory)
        recorded = len(record.order)
        if not 0 <= steps <= recorded:
            raise UsageError(
                f"steps is {steps}: {directory} holds {recorded} rows, go on after 0 to {recorded}"
            )
        writer = cls.__new__(cls)
        seconds = float(record.events[-1].get("seconds") or 0.0) if record.events else 0.0
        kept = record.events[:events]
        writer._open(Path(directory), record.task_names, steps=steps, seconds=seconds)
        writer._drop_after(steps, rows, kept)
        writer.events = len(kept)
        if config is not None:
            replace(writer.directory / CONFIG, json_bytes(config, indent=1))
        writer.event("resumed", steps=steps)
        return writer

    def _open(self, directory: Path, task_names: tuple[str, ...], steps: int, seconds: float) -> None:
        self.directory = directory
        self.task_names = task_names
        self._steps = dict.fromkeys(MATRICES, steps)
        self._start = time.monotonic() - seconds
        self.events = 0

    @property
    def seconds(self) -> float:
        """Wall clock since the run began, gaps between two processes left out."""
        return time.monotonic() - self._start

    def _drop_after(self, steps: int, rows: int | None, events: Sequence[Mapping[str, Any]]) -> None:
        # The summary goes first: it must never stand beside rows that it was not made from.
        with os_errors("write", self.directory / SUMMARY):
            (self.directory / SUMMARY).unlink(missing_ok=True)
        for path in (self.directory / f"{matrix}.csv" for matrix in MATRICES):
            if path.exists():
                kept = [row for row in read_rows(path, self.task_names) if row.step <= steps][:rows]
                replace(path, csv_bytes(header(self.task_names), *(row.cells() for row in kept)))
        if (self.directory / EVENTS).exists():
            replace(self.directory / EVENTS, b"".join(map(json_bytes, events)))

    def event(self, kind: str, /, **fields: Any) -> None:
        """Append one line to events.jsonl: kind, time, seconds and the fields, numpy values made plain."""
        reserved = {"kind", "time", "seconds"} & fields.keys()
        if reserved:
            raise UsageError(f"event field {min(reserved)!r} is set by the writer: give it another name")
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        seconds = round(self.seconds, 6)
        line = json_bytes({"kind": kind, "time": now, "seconds": seconds, **fields})
        append(self.directory / EVENTS, line, durable=False)
        self.events += 1

    def row(
        self, matrix: MatrixName, after: str, values: Sequence[float], *, step: int | None = None
    ) -> None:
        """Append the accuracies on all tasks after learning task `after`.

        `step` counts the tasks learnt, from 1, and is the next by default; an earlier one replaces its row.
        """
        step = self._checked_step(matrix, step)
        row = Row(step, after, tuple(float(value) for value in values))
        self._check_row(row)
        path = self.directory / f"{matrix}.csv"
        lines = [row.cells()] if path.exists() else [header(self.task_names), row.cells()]
        append(path, csv_bytes(*lines), durable=True)
        self._steps[matrix] = max(step, self._steps[matrix])

    def artefact(self, name: str, /, **arrays: ArrayLike) -> Path:
        """Save arrays as artefacts/<name>.npz, compressed, and return its path."""
        check_file_name("artefact", name)
        content = npz_bytes({key: np.asarray(value) for key, value in arrays.items()})
        path = self.directory / ARTEFACTS / f"{name}.npz"
        with os_errors("write", path):
            path.parent.mkdir(exist_ok=True)
        replace(path, content)
        return path

    def summary(self, values: Mapping[str, Any]) -> None:
        """Write summary.json with "done": true, unless the values say otherwise."""
        replace(self.directory / SUMMARY, json_bytes({"done": True, **values}, indent=1))

    def _checked_step(self, matrix: MatrixName, step: int | None) -> int:
        if matrix not in MATRICES:
            raise UsageError(f"matrix is {matrix!r}: choose one of {', '.join(MATRICES)}")
        following = self._steps[matrix] + 1
        if step is None:
            return following
        if not 1 <= step <= following:
            raise UsageError(
                f"step is {step}: the next row of {matrix} is {following}, or replace an earlier one"
            )
        return int(step)

    def _check_row(self, row: Row) -> None:
        if row.after not in self.task_names:
            raise UsageError(
                f"after is {row.after!r}: name one of the run's tasks, {', '.join(self.task_names)}"
            )
        if len(row.values) != len(self.task_names):
            raise UsageError(
                f"row has {len(row.values)} values: give one for each of {len(self.task_names)} tasks"
            )
        for value in row.values:
            if value < 0 or value > 1:
                raise UsageError(f"row holds {value}: accuracies are in [0, 1], or NaN where unknown")
