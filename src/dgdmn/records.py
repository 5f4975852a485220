"""The run directory: the contract between training and everything that reads results. No torch in here.

    config.json       what was run: enough to run it again; config["tasks"] names the matrix columns
    events.jsonl      one JSON object per line: kind, time (UTC), seconds since the start, own fields
    accuracy.csv      step, after, one column per task: the row recorded when `step` tasks were learned
    accuracy_ltm.csv  the same for the long-term memory alone; absent if the algorithm has none
    summary.json      the results, written last; "done": true marks the run as complete
    status.json       what the run does now: phase, share of the work, time left, process, heartbeat
    artifacts/        compressed npz files
    .lock             held by the process that writes

A csv cell holds `repr` of the float, which keeps every bit; NaN is an empty cell. If several rows have the
same step, the last one counts: a stream that ends with tasks awake records its last step before and after
the final sleep. In JSON, NaN and the infinities become null. A kill can leave a torn last line (a csv row
without a line break, an event that is not complete JSON). The reader ignores it, `RunWriter.resume`
removes it.
"""

import contextlib
import csv
import io
import json
import math
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dgdmn.config.registry import algorithm_info
from dgdmn.config.resolve import key_of
from dgdmn.core import files
from dgdmn.core.errors import DgdmnError, UsageError
from dgdmn.core.files import json_bytes, os_errors, read_json
from dgdmn.core.text import join_names

FORMAT = 2
MatrixName = Literal["accuracy", "accuracy_ltm"]
MATRICES: tuple[MatrixName, ...] = get_args(MatrixName)
CONFIG, EVENTS, SUMMARY, STATUS = "config.json", "events.jsonl", "summary.json", "status.json"
ARTIFACTS = "artifacts"
MAX_EVENT = 16_000_000  # bytes of a line in events.jsonl
MAX_SECONDS = 1e12
FILES = (CONFIG, EVENTS, SUMMARY, *(f"{matrix}.csv" for matrix in MATRICES))

Phase = Literal[
    "loading", "learning", "sleeping", "testing", "finishing", "done", "failed", "stopped"
]


def run_key(config: Mapping[str, Any]) -> str:
    """The hash of everything that decides a run's numbers, from its configuration as plain JSON values.

    The preset's name is not part of it, and neither are the paths of own data, which may change. Options that
    the algorithm does not use are left out, and so are `arguments` and `data` if there are none, and `priors`
    if they are uniform: runs from before they existed keep their keys.
    """
    info = algorithm_info(config["algorithm"])
    names = ("stream", "algorithm", "seed", "evaluate_on", "revise", "together")
    options = config["options"]
    used = {name: value for name, value in options.items() if not info.unused(name, options)}
    if used.get("priors") == "uniform":
        del used["priors"]
    arguments = {"arguments": given} if (given := config.get("arguments")) else {}
    data = {k: v for k, v in (config.get("data") or {}).items() if k not in ("path", "test")}
    given_data = {"data": data} if data else {}
    same = {name: config[name] for name in names}
    return key_of({**same, "options": used, **arguments, **given_data})


def find_runs(directory: Path) -> dict[str, Path]:
    """The run directories directly in `directory`, by key; a complete run wins over an incomplete one."""
    found: dict[str, Path] = {}
    for path in sorted(Path(directory).glob(f"*/{CONFIG}")):
        with contextlib.suppress(DgdmnError):  # other versions and damaged runs are left out
            key = str(_read_config(path.parent)["key"])
            if key not in found or not (found[key] / SUMMARY).exists():
                found[key] = path.parent
    return found


def read_status(directory: Path) -> dict[str, Any] | None:
    """The content of status.json, or None if there is none that can be read."""
    try:
        return read_json(Path(directory) / STATUS)
    except DgdmnError:
        return None


@dataclass(frozen=True, eq=False)
class RunRecord:
    """The content of a run directory, complete or not."""

    directory: Path
    config: dict[str, Any]  # config.json
    task_names: tuple[str, ...]  # the columns of the matrices
    order: tuple[str, ...]  # the task learned at each row of `accuracy`
    accuracy: NDArray[np.float64]  # A, (steps, tasks): the last row recorded for each step
    accuracy_ltm: NDArray[np.float64] | None
    """The same for the long-term memory alone, NaN where no row was recorded; None if there is none."""
    summary: dict[str, Any] | None  # summary.json, None until the run ends

    @classmethod
    def read(cls, directory: Path) -> Self:
        """Read a run directory without its events. A torn last row is ignored, other damage is an error."""
        directory = Path(directory)
        config = _read_config(directory)
        tasks = tuple(config["tasks"])
        path, path_ltm = (directory / f"{matrix}.csv" for matrix in MATRICES)
        rows, ltm = ({row.step: row for row in _read_rows(one, tasks)} for one in (path, path_ltm))
        steps, unknown = sorted(rows), (math.nan,) * len(tasks)
        if steps != list(range(1, len(rows) + 1)):
            raise DgdmnError(f"{path} has steps {steps}: a row is missing, run it again")
        # A kill between the two rows of a step leaves one matrix ahead: `accuracy` counts the steps.
        values = [rows[step].values for step in steps]
        values_ltm = [ltm[step].values if step in ltm else unknown for step in steps]
        return cls(
            directory=directory,
            config=config,
            task_names=tasks,
            order=tuple(rows[step].after for step in steps),
            accuracy=np.reshape(values, (-1, len(tasks))),
            accuracy_ltm=np.reshape(values_ltm, (-1, len(tasks))) if path_ltm.exists() else None,
            summary=read_json(directory / SUMMARY) if (directory / SUMMARY).exists() else None,
        )

    def __repr__(self) -> str:
        """Short: a record has matrices and a long configuration."""
        return f"RunRecord({self.name!r}, {len(self.accuracy)} of {len(self.order)} steps)"

    @property
    def name(self) -> str:
        """The name of the directory."""
        return self.directory.resolve().name

    @property
    def complete(self) -> bool:
        """Whether the run has ended: summary.json exists and says "done": true."""
        return self.summary is not None and self.summary.get("done") is True

    def iter_events(self) -> Iterator[dict[str, Any]]:
        """Read the complete lines of events.jsonl one by one, oldest first; a torn last one is ignored."""
        return (event for _, event in _scan_events(self.directory / EVENTS))

    @property
    def events(self) -> list[dict[str, Any]]:
        """All events in memory; a long run has many, so prefer `iter_events`."""
        return list(self.iter_events())

    @property
    def key(self) -> str:
        return str(self.config["key"])

    @property
    def columns(self) -> tuple[int, ...]:
        """For each row, the task (column) learned before it: the `order` that `dgdmn.metrics` takes."""
        return tuple(self.task_names.index(name) for name in self.order)

    @property
    def artifacts(self) -> tuple[str, ...]:
        """The names of the artifacts, sorted."""
        return tuple(sorted(path.stem for path in (self.directory / ARTIFACTS).glob("[!.]*.npz")))

    def artifact(self, name: str) -> dict[str, NDArray[Any]]:
        """The arrays of artifacts/<name>.npz."""
        if name not in self.artifacts:
            there = f"available artifacts: {join_names(self.artifacts) or 'none'}"
            raise UsageError(f"artifact {name!r} is not in {self.directory}; {there}")
        return files.read_npz(self.directory / ARTIFACTS / f"{name}.npz")


class RunWriter:
    """Writes one run directory. Every call leaves it readable, whatever happens next."""

    def __init__(self, directory: Path, config: Mapping[str, Any]) -> None:
        """Start a new run; `config["tasks"]` names the columns and `config["key"]` is its key."""
        config = {"format": FORMAT, **config}
        _check_config(config)
        self._open(Path(directory), tuple(config["tasks"]), steps=0, seconds=0.0)
        taken = [name for name in FILES if (self.directory / name).exists()]
        if taken:
            raise UsageError(f"{directory} already holds a run ({taken[0]}); resume or remove it")
        content = json_bytes(config, indent=1)
        with os_errors("write", self.directory):
            self.directory.mkdir(parents=True, exist_ok=True)
        files.write_atomic(self.directory / CONFIG, content)

    @classmethod
    def resume(
        cls,
        directory: Path,
        steps: int,
        *,
        rows: Mapping[MatrixName, int] | None = None,
        events: int | None = None,
        config: Mapping[str, Any] | None = None,
    ) -> Self:
        """Continue a run after its first `steps` tasks; later rows, events and the summary are dropped.

        A step may have two rows, before and after the sleep at the end of a stream: `rows` says how many
        rows of each matrix to keep, `events` how many events (default: all). `seconds` continues from the
        last recorded event. A `config` replaces the recorded one: another machine or version may
        continue a run.
        """
        record = RunRecord.read(directory)
        directory, recorded = record.directory, len(record.order)
        kept = {
            matrix: _keep_rows(record, matrix, steps, (rows or {}).get(matrix))
            for matrix in MATRICES
        }
        if not 0 <= steps <= recorded:
            raise UsageError(f"steps is {steps}: {directory} holds {recorded} rows; give fewer")
        n_events, size, seconds = _keep_events(directory / EVENTS, events)
        writer = cls.__new__(cls)
        writer._open(directory, record.task_names, steps=steps, seconds=seconds)
        # Remove the summary first: it must never exist beside rows it was not computed from.
        with os_errors("write", directory / SUMMARY):
            (directory / SUMMARY).unlink(missing_ok=True)
        for matrix, one in kept.items():
            path = directory / f"{matrix}.csv"
            if path.exists():
                files.write_atomic(path, _csv_bytes(record.task_names, one, header=True))
        if (directory / EVENTS).exists():
            files.truncate_file(directory / EVENTS, size)
        writer.n_events = n_events
        if config is not None:
            content = json_bytes({"format": FORMAT, **config}, indent=1)
            files.write_atomic(directory / CONFIG, content)
        writer.event("resumed", steps=steps)
        return writer

    def _open(self, directory: Path, tasks: tuple[str, ...], steps: int, seconds: float) -> None:
        self.directory, self.task_names = directory, tasks
        self._steps = dict.fromkeys(MATRICES, steps)
        self._start = time.monotonic() - seconds
        self.n_events = 0  # lines of events.jsonl
        place = directory / ARTIFACTS
        if place.is_symlink() or place.exists():
            files.make_directory(place)  # refuses a link
            files.remove_temporaries(place)  # that killed writers left

    @property
    def seconds(self) -> float:
        """Wall clock since the run began, without the gaps between two processes."""
        return time.monotonic() - self._start

    def event(self, kind: str, /, **fields: Any) -> None:
        """Append one line to events.jsonl: kind, time, seconds and the fields."""
        reserved = {"kind", "time", "seconds"} & fields.keys()
        if reserved:
            raise UsageError(f"event field {min(reserved)!r} is set by the writer; rename it")
        line = {"kind": kind, "time": utc_now(), "seconds": round(self.seconds, 6), **fields}
        files.append_bytes(self.directory / EVENTS, json_bytes(line), durable=False)
        self.n_events += 1

    def row(
        self, matrix: MatrixName, after: str, values: Sequence[float], *, step: int | None = None
    ) -> None:
        """Append the accuracies on all tasks after learning task `after`.

        `step` counts the tasks learned, from 1. The default is the next one; an earlier one replaces its row.
        """
        following = self._steps[matrix] + 1
        row = _Row(following if step is None else int(step), after, tuple(map(float, values)))
        _check_row(row, self.task_names, following)
        path = self.directory / f"{matrix}.csv"
        is_new = not path.exists() or path.stat().st_size == 0  # a failed first row leaves it empty
        content = _csv_bytes(self.task_names, [row], header=is_new)
        files.append_bytes(path, content, durable=True)
        self._steps[matrix] = max(row.step, self._steps[matrix])

    def artifact(self, name: str, /, **arrays: ArrayLike) -> Path:
        """Save arrays as artifacts/<name>.npz, compressed, and return its path."""
        check_file_name("artifact", name)
        content = files.npz_bytes({key: np.asarray(value) for key, value in arrays.items()})
        path = self.directory / ARTIFACTS / f"{name}.npz"
        files.make_directory(path.parent)
        files.write_atomic(path, content)
        return path

    def status(self, phase: Phase, **fields: Any) -> None:
        """Replace status.json atomically, without fsync: after a crash it is worthless."""
        content = json_bytes({"phase": phase, **fields, "heartbeat": utc_now()})
        files.write_atomic(self.directory / STATUS, content, durable=False)

    def summary(self, values: Mapping[str, Any]) -> None:
        """Write summary.json with "done": true, unless the values say otherwise."""
        files.write_atomic(self.directory / SUMMARY, json_bytes({"done": True, **values}, indent=1))


def utc_now(timespec: str = "milliseconds") -> str:
    return datetime.now(UTC).isoformat(timespec=timespec)


def check_file_name(what: str, name: str) -> None:
    """Refuse a name that could leave its directory or that a shell would interpret."""
    if not re.fullmatch(r"\w[\w.-]*", name):
        raise UsageError(f"{what} is {name!r}; use letters, digits, '.', '_' and '-'")


def _read_config(directory: Path) -> dict[str, Any]:
    path = directory / CONFIG
    if not path.is_file():
        raise DgdmnError(f"{directory} is not a run directory (no {CONFIG}); choose another")
    config = read_json(path)
    try:
        _check_config(config)
    except UsageError as error:
        raise DgdmnError(f"{path} cannot be read: {error}") from error
    return config


def _check_config(config: Mapping[str, Any]) -> None:
    found, key, names = config.get("format"), config.get("key"), config.get("tasks")
    if found != FORMAT:
        raise UsageError(f"run format is {found!r}, this version reads {FORMAT}; run it again")
    if not isinstance(key, str):
        raise UsageError(f"config.json has key {key!r}; it must be text")
    if not isinstance(names, list | tuple) or not names:
        raise UsageError('config["tasks"] is missing; list the task names, one for each column')
    for name in names:
        # The reader tells a complete row from a torn one by its line break.
        text = name.encode(errors="ignore").decode() if isinstance(name, str) else ""
        if text != name or text.splitlines() != [text]:
            raise UsageError(f"task name is {name!r}; it must be text without line breaks")
    if len(set(names)) != len(names):
        raise UsageError('config["tasks"] repeats a name; list each task once')


def _scan_events(path: Path) -> Iterator[tuple[bytes, dict[str, Any]]]:
    """Each event and its line."""
    if not path.exists():
        return
    with files.open_regular(path) as file:
        torn = 0
        for number, line in enumerate(iter(lambda: file.readline(MAX_EVENT), b""), start=1):
            if torn or len(line) == MAX_EVENT:  # only the last line may be torn
                wrong = f"line {torn or number} is not a JSON object"
                raise DgdmnError(f"{path} is damaged: {wrong}; remove the line to continue")
            try:
                event = json.loads(line)
            except (ValueError, RecursionError):
                event = None
            if isinstance(event, dict):
                yield line, event
            else:  # a prefix of an object is never one
                torn = number


def _keep_events(path: Path, limit: int | None) -> tuple[int, int, float]:
    """The number of events to keep, their bytes, and the time of the last one recorded."""
    number, size, seconds = 0, 0, 0.0
    for line, event in _scan_events(path):
        seconds = event.get("seconds", seconds)
        if (limit is None or number < limit) and line.endswith(b"\n"):
            number, size = number + 1, size + len(line)
    if not isinstance(seconds, int | float) or not 0 <= seconds < MAX_SECONDS:
        wrong = f"seconds is {seconds!r} in its last line"
        raise DgdmnError(f"{path} is damaged: {wrong}; correct it to continue")
    return number, size, float(seconds)


class _Row(NamedTuple):
    """The accuracies on all tasks, recorded when `step` tasks were learned, `after` the last of them."""

    step: int
    after: str
    values: tuple[float, ...]


def _csv_bytes(tasks: Sequence[str], rows: Sequence[_Row], *, header: bool) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    if header:
        writer.writerow(["step", "after", *tasks])
    for row in rows:
        cells = ["" if math.isnan(value) else repr(value) for value in row.values]
        writer.writerow([row.step, row.after, *cells])
    return text.getvalue().encode()


def _keep_rows(record: RunRecord, matrix: str, steps: int, wanted: int | None) -> list[_Row]:
    """The rows of the first `steps` tasks, as many as are wanted (default: all); fewer are an error."""
    path = record.directory / f"{matrix}.csv"
    found = [row for row in _read_rows(path, record.task_names) if row.step <= steps]
    if wanted is not None and len(found) < wanted:
        missing = f"{len(found)} rows of the {wanted} before the checkpoint"
        advice = f"restore it, or remove {record.directory} and run it again"
        raise DgdmnError(f"{path} has {missing}; {advice}")
    return found[:wanted]


def _read_rows(path: Path, tasks: tuple[str, ...]) -> list[_Row]:
    if not path.exists():
        return []
    content = files.read_bytes(path)
    # Without its line break the last line may lack digits even if it has all its cells.
    complete = content[: content.rfind(b"\n") + 1]
    try:
        lines = list(csv.reader(complete.decode().split("\n")[:-1], strict=True))
        if lines and lines[0] != ["step", "after", *tasks]:
            raise ValueError("its header does not name the tasks of config.json")
        return [_parse_row(number, cells, tasks) for number, cells in enumerate(lines[1:], start=2)]
    except (ValueError, csv.Error) as error:
        raise DgdmnError(f"{path} is damaged: {error}; restore it or run it again") from error


def _parse_row(number: int, cells: Sequence[str], tasks: tuple[str, ...]) -> _Row:
    try:
        step, after, *values = cells
        row = _Row(int(step), after, tuple(float(cell) if cell else math.nan for cell in values))
        _check_row(row, tasks)
    except ValueError as error:  # a UsageError is one
        raise ValueError(f"line {number}: {error}") from None
    return row


def _check_row(row: _Row, tasks: tuple[str, ...], last: float = math.inf) -> None:
    if not 1 <= row.step <= last:
        raise UsageError(f"step is {row.step}; it must be 1 to {last}")
    if row.after not in tasks:
        allowed = f"a task of this run: {join_names(tasks)}"
        raise UsageError(f"after is {row.after!r}; it must be {allowed}")
    if len(row.values) != len(tasks):
        advice = f"give one for each of {len(tasks)} tasks"
        raise UsageError(f"row has {len(row.values)} values; {advice}")
    for value in row.values:
        if value < 0 or value > 1:
            raise UsageError(f"row holds {value}; accuracies are in [0, 1], NaN if unknown")
