"""The run directory, the contract between training and everything that reads: write it, read it (no torch).

    config.json       everything needed to run it again; config["tasks"] names the columns of the matrices
    events.jsonl      one JSON object a line: kind, time (UTC), seconds since the start, then its own fields
    accuracy.csv      step, after, one column a task: the row recorded when `step` tasks were learnt
    accuracy_ltm.csv  the same for the long-term memory alone; absent where an algorithm has none
    summary.json      the results, written last; "done": true makes the run complete
    artefacts/        compressed npz files

A cell holds `repr` of the float, so its bits survive; NaN is an empty cell. Of several rows with one step the
last wins: a stream that ends with a half-full short-term memory records its last step before and after the
final sleep. In JSON, NaN and the infinities become null. What a kill left torn (a last csv row without its
line break, a last event that is not whole JSON) is ignored by the reader and removed by `RunWriter.resume`.
"""

import csv
import dataclasses
import errno
import io
import json
import math
import os
import re
import time
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dgdmn.errors import DgdmnError, UsageError

MatrixName = Literal["accuracy", "accuracy_ltm"]
_MATRICES: tuple[MatrixName, ...] = get_args(MatrixName)
_CONFIG, _EVENTS, _SUMMARY, _ARTEFACTS = "config.json", "events.jsonl", "summary.json", "artefacts"
_FILES = (_CONFIG, _EVENTS, _SUMMARY, *(f"{matrix}.csv" for matrix in _MATRICES))


def run_name(dataset: str, algorithm: str, preset: str, seed: int) -> str:
    """The name of a run's directory.

    >>> run_name("digits", "dgdmn", "paper", 0)
    'digits-dgdmn-paper-seed0'
    """
    for part, value in (("dataset", dataset), ("algorithm", algorithm), ("preset", preset)):
        _check_file_name(part, value)
    return f"{dataset}-{algorithm}-{preset}-seed{int(seed)}"


class RunWriter:
    """Writes one run directory; every call leaves it readable, whatever happens next."""

    def __init__(self, directory: Path, config: Mapping[str, Any]) -> None:
        """Start a new run; `config["tasks"]` lists the distinct names of the tasks, one a column."""
        self._open(Path(directory), _task_names(config), steps=0, seconds=0.0)
        taken = [name for name in _FILES if (self.directory / name).exists()]
        if taken:
            raise UsageError(
                f"{directory} already holds a run ({taken[0]}): resume it, remove it or choose another"
            )
        content = _json_bytes(config, indent=1)
        with _os_errors("write", self.directory):
            self.directory.mkdir(parents=True, exist_ok=True)
        _replace(self.directory / _CONFIG, content)

    @classmethod
    def resume(cls, directory: Path, steps: int) -> "RunWriter":
        """Go on with a run after its first `steps` tasks: later rows and the summary are dropped.

        Events stay, as they are what happened; a `resumed` event marks the place, and `seconds` goes on from
        the last one.
        """
        record = RunRecord.read(directory)
        recorded = len(record.order)
        if not 0 <= steps <= recorded:
            raise UsageError(
                f"steps is {steps}: {directory} holds {recorded} rows, go on after 0 to {recorded}"
            )
        writer = cls.__new__(cls)
        seconds = float(record.events[-1].get("seconds") or 0.0) if record.events else 0.0
        writer._open(Path(directory), record.task_names, steps=steps, seconds=seconds)
        writer._drop_after(steps, record.events)
        writer.event("resumed", steps=steps)
        return writer

    def _open(self, directory: Path, task_names: tuple[str, ...], steps: int, seconds: float) -> None:
        self.directory = directory
        self.task_names = task_names
        self._steps = dict.fromkeys(_MATRICES, steps)
        self._start = time.monotonic() - seconds

    def _drop_after(self, steps: int, events: Sequence[Mapping[str, Any]]) -> None:
        # The summary goes first: it must never stand beside rows that it was not made from.
        with _os_errors("write", self.directory / _SUMMARY):
            (self.directory / _SUMMARY).unlink(missing_ok=True)
        for path in (self.directory / f"{matrix}.csv" for matrix in _MATRICES):
            if path.exists():
                rows = [row for row in _read_rows(path, self.task_names) if row.step <= steps]
                _replace(path, _csv_bytes(self._header(), *(row.cells() for row in rows)))
        if (self.directory / _EVENTS).exists():
            _replace(self.directory / _EVENTS, b"".join(map(_json_bytes, events)))

    def event(self, kind: str, /, **fields: Any) -> None:
        """Append one line to events.jsonl: kind, time, seconds and the fields, numpy values made plain."""
        reserved = {"kind", "time", "seconds"} & fields.keys()
        if reserved:
            raise UsageError(f"event field {min(reserved)!r} is set by the writer: give it another name")
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        seconds = round(time.monotonic() - self._start, 6)
        line = _json_bytes({"kind": kind, "time": now, "seconds": seconds, **fields})
        _append(self.directory / _EVENTS, line, durable=False)

    def row(
        self, matrix: MatrixName, after: str, values: Sequence[float], *, step: int | None = None
    ) -> None:
        """Append the accuracies on all tasks after learning task `after`.

        `step` counts the tasks learnt, from 1, and is the next by default; an earlier one replaces its row.
        """
        step = self._checked_step(matrix, step)
        row = _Row(step, after, tuple(float(value) for value in values))
        self._check_row(row)
        path = self.directory / f"{matrix}.csv"
        lines = [row.cells()] if path.exists() else [self._header(), row.cells()]
        _append(path, _csv_bytes(*lines), durable=True)
        self._steps[matrix] = max(step, self._steps[matrix])

    def artefact(self, name: str, /, **arrays: ArrayLike) -> Path:
        """Save arrays as artefacts/<name>.npz, compressed, and return its path."""
        _check_file_name("artefact", name)
        content = _npz_bytes({key: np.asarray(value) for key, value in arrays.items()})
        path = self.directory / _ARTEFACTS / f"{name}.npz"
        with _os_errors("write", path):
            path.parent.mkdir(exist_ok=True)
        _replace(path, content)
        return path

    def summary(self, values: Mapping[str, Any]) -> None:
        """Write summary.json with "done": true, unless the values say otherwise."""
        _replace(self.directory / _SUMMARY, _json_bytes({"done": True, **values}, indent=1))

    def _header(self) -> list[str]:
        return ["step", "after", *self.task_names]

    def _checked_step(self, matrix: MatrixName, step: int | None) -> int:
        if matrix not in _MATRICES:
            raise UsageError(f"matrix is {matrix!r}: choose one of {', '.join(_MATRICES)}")
        following = self._steps[matrix] + 1
        if step is None:
            return following
        if not 1 <= step <= following:
            raise UsageError(
                f"step is {step}: the next row of {matrix} is {following}, or replace an earlier one"
            )
        return int(step)

    def _check_row(self, row: "_Row") -> None:
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
        if not (directory / _CONFIG).is_file():
            raise DgdmnError(
                f"{directory} is not a run directory (no {_CONFIG}): give one that `dgdmn run` wrote"
            )
        config = _read_object(directory / _CONFIG)
        tasks = _recorded_task_names(directory / _CONFIG, config)
        rows = _by_step(directory / "accuracy.csv", tasks)
        if list(rows) != list(range(1, len(rows) + 1)):
            raise DgdmnError(
                f"{directory / 'accuracy.csv'} has steps {list(rows)}: a row is missing, run it again"
            )
        return cls(
            directory=directory,
            name=directory.resolve().name,
            config=config,
            events=_read_events(directory / _EVENTS),
            task_names=tasks,
            order=tuple(row.after for row in rows.values()),
            accuracy=_stack(rows, len(rows), len(tasks)),
            accuracy_ltm=_read_ltm(directory / "accuracy_ltm.csv", tasks, len(rows)),
            summary=_read_object(directory / _SUMMARY) if (directory / _SUMMARY).exists() else None,
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
        return tuple(sorted(path.stem for path in (self.directory / _ARTEFACTS).glob("[!.]*.npz")))

    def artefact(self, name: str) -> dict[str, NDArray[Any]]:
        """The arrays of artefacts/<name>.npz."""
        if name not in self.artefacts:
            raise UsageError(
                f"artefact {name!r} is not in {self.directory}: there is {', '.join(self.artefacts)}"
            )
        path = self.directory / _ARTEFACTS / f"{name}.npz"
        try:
            # numpy leaves a damaged file open when it opens it itself
            with (
                _os_errors("read", path),
                path.open("rb") as file,
                np.load(file, allow_pickle=False) as arrays,
            ):
                return dict(arrays)
        except (ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
            raise DgdmnError(f"{path} is damaged: {error}; restore it or run it again") from error


@dataclass(frozen=True)
class _Row:
    step: int
    after: str
    values: tuple[float, ...]

    def cells(self) -> list[str]:
        return [str(self.step), self.after, *("" if math.isnan(v) else repr(v) for v in self.values)]


def _read_ltm(path: Path, tasks: tuple[str, ...], steps: int) -> NDArray[np.float64] | None:
    # A kill between the two rows of a step leaves one matrix ahead: `accuracy` counts the steps.
    return _stack(_by_step(path, tasks), steps, len(tasks)) if path.exists() else None


def _stack(rows: Mapping[int, _Row], steps: int, tasks: int) -> NDArray[np.float64]:
    matrix = np.full((steps, tasks), np.nan)
    for step, row in rows.items():
        if step <= steps:
            matrix[step - 1] = row.values
    return matrix


def _by_step(path: Path, tasks: tuple[str, ...]) -> dict[int, _Row]:
    rows = {row.step: row for row in _read_rows(path, tasks)}  # the last row of a step wins
    return dict(sorted(rows.items()))


def _read_rows(path: Path, tasks: tuple[str, ...]) -> list[_Row]:
    whole = _whole_lines(path)
    try:
        lines = list(csv.reader(whole.decode().split("\n")[:-1], strict=True))
        if lines and lines[0] != ["step", "after", *tasks]:
            raise ValueError("its header does not name the tasks of config.json")
        return [_parse_row(number, cells, tasks) for number, cells in enumerate(lines[1:], start=2)]
    except (ValueError, csv.Error) as error:
        raise DgdmnError(f"{path} is damaged: {error}; restore it or run it again") from error


def _parse_row(number: int, cells: Sequence[str], tasks: tuple[str, ...]) -> _Row:
    try:
        step, after, *values = cells
        row = _Row(int(step), after, tuple(float(cell) if cell else math.nan for cell in values))
    except ValueError:
        raise ValueError(f"line {number} is not a step, a task and numbers") from None
    if row.step < 1 or after not in tasks or len(values) != len(tasks):
        raise ValueError(f"line {number} does not fit the {len(tasks)} tasks of config.json")
    return row


def _whole_lines(path: Path) -> bytes:
    # Without its line break the last line may lack digits even where it has all its cells.
    if not path.exists():
        return b""
    with _os_errors("read", path):
        content = path.read_bytes()
    return content[: content.rfind(b"\n") + 1]


def _read_events(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    with _os_errors("read", path):
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


def _read_object(path: Path) -> dict[str, Any]:
    with _os_errors("read", path):
        content = path.read_bytes()
    try:
        value = json.loads(content)
    except ValueError as error:
        raise DgdmnError(f"{path} is damaged: {error}; restore it or run it again") from error
    if not isinstance(value, dict):
        raise DgdmnError(f"{path} is damaged: it is not a JSON object; restore it or run it again")
    return value


def _recorded_task_names(path: Path, config: Mapping[str, Any]) -> tuple[str, ...]:
    try:
        return _task_names(config)
    except UsageError as error:
        raise DgdmnError(f"{path} is not a run's: {error}") from error


def _task_names(config: Mapping[str, Any]) -> tuple[str, ...]:
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


def _check_file_name(what: str, name: str) -> None:
    if not re.fullmatch(r"\w[\w.-]*", name):
        raise UsageError(f"{what} is {name!r}: use letters, digits, '.', '_' and '-', it becomes a file name")


def _csv_bytes(*rows: Sequence[str]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()


def _json_bytes(value: Any, indent: int | None = None) -> bytes:
    text = json.dumps(_plain(value), ensure_ascii=False, allow_nan=False, indent=indent)
    return (
        text.encode(errors="backslashreplace") + b"\n"
    )  # a lone surrogate becomes \udc80: JSON's own spelling


def _npz_bytes(arrays: dict[str, NDArray[Any]]) -> bytes:
    for key, array in arrays.items():
        if array.dtype.hasobject:
            raise UsageError(f"array {key!r} holds Python objects: give numbers or text, nothing is pickled")
        if key in {"file", "allow_pickle"}:
            raise UsageError(f"array name {key!r} is numpy's own: give it another name")
    content = io.BytesIO()
    np.savez_compressed(content, **arrays)  # type: ignore[arg-type]  # mypy takes ** for allow_pickle
    return content.getvalue()


def _plain(value: Any) -> Any:
    """The value in JSON's types: numpy and dataclasses unpacked, NaN and infinities null."""
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist())
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(_plain(key)): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, Path):
        return str(value)
    raise UsageError(f"cannot record {value!r}: give numbers, text, lists, dicts or arrays")


def _append(path: Path, content: bytes, *, durable: bool) -> None:
    with _os_errors("write", path):
        size = path.stat().st_size if path.exists() else None
    try:
        with _os_errors("write", path), path.open("ab") as file:
            file.write(content)
            file.flush()
            if durable:
                os.fsync(file.fileno())
    except DgdmnError:
        # Half a line would spoil the next one.
        with suppress(OSError):
            path.unlink(missing_ok=True) if size is None else os.truncate(path, size)
        raise


def _replace(path: Path, content: bytes) -> None:
    """Write a file whole or not at all: beside it, to the disk, then in its place."""
    beside = path.with_name(f".{path.name}.tmp")
    try:
        with _os_errors("write", path):
            with beside.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            beside.replace(path)
            _sync_directory(path.parent)
    finally:
        with suppress(OSError):
            beside.unlink(missing_ok=True)


def _sync_directory(directory: Path) -> None:
    if os.name != "posix":  # elsewhere a directory cannot be opened
        return
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _os_errors(verb: str, path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        full = error.errno in {errno.ENOSPC, errno.EDQUOT}
        advice = "free space there" if full else "check the path and its permissions"
        reason = error.strerror or type(error).__name__
        raise DgdmnError(f"cannot {verb} {path}: {reason}; {advice} or choose another directory") from error
