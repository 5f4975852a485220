"""Reading a run directory, whether the run has ended or not."""

import json
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dgdmn.disk import os_errors, read_object
from dgdmn.errors import DgdmnError, UsageError
from dgdmn.records.layout import ARTEFACTS, CONFIG, EVENTS, SUMMARY, checked_tasks
from dgdmn.records.matrix import by_step, stack


@dataclass(frozen=True, eq=False)
class RunRecord:
    """What a run directory says, whether the run has ended or not."""

    directory: Path
    """Where it was read from."""
    name: str
    """The directory's own name."""
    config: dict[str, Any]
    """config.json."""
    events: list[dict[str, Any]]
    """The whole lines of events.jsonl, oldest first."""
    task_names: tuple[str, ...]
    """The columns of the matrices."""
    order: tuple[str, ...]
    """The task learnt at each row of `accuracy`."""
    accuracy: NDArray[np.float64]
    """A, (steps, tasks): the last row recorded for each step."""
    accuracy_ltm: NDArray[np.float64] | None
    """The same shape for the long-term memory alone, NaN where no row was recorded; None if there is none."""
    summary: dict[str, Any] | None
    """summary.json, None while the run has not ended."""

    @classmethod
    def read(cls, directory: Path) -> "RunRecord":
        """Read a run directory; a line cut off at the end of a file is ignored, other damage is an error."""
        directory = Path(directory)
        if not (directory / CONFIG).is_file():
            raise DgdmnError(
                f"{directory} is not a run directory (no {CONFIG}): give one that `dgdmn run` wrote"
            )
        config = read_object(directory / CONFIG)
        tasks = _recorded_task_names(directory / CONFIG, config)
        rows = by_step(directory / "accuracy.csv", tasks)
        if list(rows) != list(range(1, len(rows) + 1)):
            raise DgdmnError(
                f"{directory / 'accuracy.csv'} has steps {list(rows)}: a row is missing, run it again"
            )
        return cls(
            directory=directory,
            name=directory.resolve().name,
            config=config,
            events=_read_events(directory / EVENTS),
            task_names=tasks,
            order=tuple(row.after for row in rows.values()),
            accuracy=stack(rows, len(rows), len(tasks)),
            accuracy_ltm=_read_ltm(directory / "accuracy_ltm.csv", tasks, len(rows)),
            summary=read_object(directory / SUMMARY) if (directory / SUMMARY).exists() else None,
        )

    @property
    def complete(self) -> bool:
        """Whether the run has ended: summary.json exists and says "done": true."""
        return self.summary is not None and self.summary.get("done") is True

    @property
    def columns(self) -> tuple[int, ...]:
        """The column that each row learnt: the `order` that `dgdmn.metrics` takes."""
        return tuple(self.task_names.index(name) for name in self.order)

    @property
    def artefacts(self) -> tuple[str, ...]:
        """The names of the artefacts, sorted."""
        return tuple(sorted(path.stem for path in (self.directory / ARTEFACTS).glob("[!.]*.npz")))

    def artefact(self, name: str) -> dict[str, NDArray[Any]]:
        """The arrays of artefacts/<name>.npz."""
        if name not in self.artefacts:
            raise UsageError(
                f"artefact {name!r} is not in {self.directory}: there is {', '.join(self.artefacts)}"
            )
        path = self.directory / ARTEFACTS / f"{name}.npz"
        try:
            # numpy leaves a damaged file open when it opens it itself
            with (
                os_errors("read", path),
                path.open("rb") as file,
                np.load(file, allow_pickle=False) as arrays,
            ):
                return dict(arrays)
        except (ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
            raise DgdmnError(f"{path} is damaged: {error}; restore it or run it again") from error


def _read_ltm(path: Path, tasks: tuple[str, ...], steps: int) -> NDArray[np.float64] | None:
    # A kill between the two rows of a step leaves one matrix ahead: `accuracy` counts the steps.
    return stack(by_step(path, tasks), steps, len(tasks)) if path.exists() else None


def _read_events(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    with os_errors("read", path):
        lines = path.read_bytes().removesuffix(b"\n").split(b"\n")
    events = []
    for number, line in enumerate(lines, start=1):
        event = _parse_event(line)
        if event is None and number == len(lines):
            break  # torn: a prefix of an object is never an object, so nothing false gets in
        if event is None:
            raise DgdmnError(
                f"{path} is damaged: line {number} is not a JSON object; remove the line to go on"
            )
        events.append(event)
    return events


def _parse_event(line: bytes) -> dict[str, Any] | None:
    try:
        event = json.loads(line)
    except ValueError:
        return None
    return event if isinstance(event, dict) else None


def _recorded_task_names(path: Path, config: Mapping[str, Any]) -> tuple[str, ...]:
    try:
        return checked_tasks(config)
    except UsageError as error:
        raise DgdmnError(f"{path} is not a run's: {error}") from error
