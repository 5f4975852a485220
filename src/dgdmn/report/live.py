"""How far runs are, from their directories alone: cheap enough to be asked every second for hundreds of them.

A file is read again only when its size, inode or time of change differs, of events.jsonl only what is new; a
run that is done costs one stat. Nothing is written and no lock is taken.

A run is `done` when summary.json says so. It is `running` while somebody holds its lock (`locks.py`). A
writer whose lock cannot be seen from here, on another machine or in a container, betrays itself when its
files change while nobody seems to hold them: from then on, and where there is no list of locks at all, a run
counts as running until it has been quiet for `QUIET` seconds. Else it is `stopped`, or `broken` where its
files say nothing.
"""

import os
import shlex
import stat
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from dgdmn.disk import read_object
from dgdmn.errors import DgdmnError
from dgdmn.records.layout import ARTEFACTS, CONFIG, EVENTS, FILES, SUMMARY, checked_tasks
from dgdmn.report import locks
from dgdmn.report.runs import LIMITS, find_runs
from dgdmn.report.story import Story, enough
from dgdmn.report.tail import Tail

State = Literal["running", "stopped", "done", "broken"]
Locks = frozenset[tuple[int, int]] | None
Stamp = tuple[int, int, int] | None

QUIET = 120.0
"""Seconds without a sign of life after which a writer that holds no visible lock counts as gone."""
_READ = (*(name for name in FILES if name != EVENTS), ARTEFACTS, EVENTS)


@dataclass(frozen=True)
class Progress:
    """How far one run is."""

    path: Path
    """Its directory, as it was given."""
    state: State
    """running, stopped, done or broken."""
    problem: str = ""
    """Why it is broken, in a line."""
    step: int = 0
    """Tasks begun."""
    steps: int = 0
    """Tasks to come in all, revised ones counted anew."""
    doing: str = ""
    """What it does now, in words."""
    share: float = 0.0
    """Share of the planned work that is done."""
    seconds: float = 0.0
    """Wall clock of the run so far."""
    noted: float = 0.0
    """Unix time of the last event: what is left is counted from then."""
    left: float | None = None
    """Seconds left of the run; None while nobody can say."""
    epoch: int = 0
    """Epochs done of the training under way."""
    epochs: int = 0
    """Epochs it will have; 0 between trainings."""
    phase_left: float | None = None
    """Seconds left of the task or sleep under way."""
    evaluated: int = 0
    """Tasks learnt and tested."""
    accuracy: float | None = None
    """Mean accuracy on the tasks seen, at the last test."""
    dreams: Path | None = None
    """The newest file of dreams."""

    @property
    def name(self) -> str:
        """The directory's own name."""
        return self.path.name or self.path.resolve().name

    @property
    def command(self) -> str:
        """What goes on with it."""
        return f"dgdmn resume {shlex.quote(str(self.path))}"


class Watch:
    """Looks at the same directories again and again."""

    def __init__(
        self,
        paths: Sequence[Path],
        clock: Callable[[], float] = time.time,
        held: Callable[[], Locks] = locks.held,
    ) -> None:
        self._paths, self._clock, self._held = tuple(paths), clock, held
        self._found: tuple[tuple[Stamp, ...], list[Path]] | None = None
        self._followed: list[Path] = []
        self._followers: dict[Path, _Follower] = {}
        self._before: frozenset[tuple[int, int]] = frozenset()

    def look(self) -> tuple[Progress, ...]:
        """Every run there is now, by name; a directory removed meanwhile is left out."""
        table, now = self._locks(), self._clock()
        paths = self._directories(now)
        if paths is not self._followed:
            self._followed = paths
            self._followers = {path: self._followers.get(path) or _Follower(path) for path in paths}
        seen = [follower.look(table, now) for follower in self._followers.values()]
        return tuple(progress for progress in seen if progress is not None)

    @property
    def recorded(self) -> dict[Path, tuple[Stamp, ...]]:
        """What a report is made from, as of the last look: it differs when the report would."""
        return {path: follower.recorded for path, follower in self._followers.items() if follower.recorded}

    def _locks(self) -> Locks:
        """The locks held now; one that seems to have gone is looked for twice.

        The list is not read in one go: a lock given back meanwhile may hide its neighbour.
        """
        table = self._held()
        if table is not None and self._before - table:
            table |= self._held() or frozenset()
        self._before = table or frozenset()
        return table

    def _directories(self, now: float) -> list[Path]:
        stamps = tuple(_stamp(path) for path in self._paths)
        if self._found is not None and self._found[0] == stamps:
            return self._found[1]
        found = [path for path in find_runs(self._paths) if path not in self._paths or _holds_run(path)]
        # A clock ticks too slowly to show two changes within a moment: what is new is looked at again.
        settled = all(stamp is not None and now - stamp[2] / 1e9 > 2 for stamp in stamps)
        self._found = (stamps, found) if settled else None
        return found


def _holds_run(path: Path) -> bool:
    return any((path / name).exists() for name in FILES)


class _Follower:
    """One run directory, and what was read of it so far."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._files = {name: path / name for name in _READ}
        self._lock, self._tail = path / ".lock", Tail(path / EVENTS, enough)
        self._stamps: dict[str, Stamp] = {}
        self._story, self._steps, self._done = Story(), 0, False
        self._dreams: Path | None = None
        self._problem = ""
        self._free: Stamp = None
        self._unseen = False
        self._last: Progress | None = None
        self.recorded: tuple[Stamp, ...] = ()
        """Stamps of what a report reads, without the events, which change all the time."""

    def look(self, table: Locks, now: float) -> Progress | None:
        """How far it is; None if it is no longer there."""
        if self._done and _stamp(self._files[SUMMARY]) == self._stamps[SUMMARY]:
            return self._last  # nothing writes there any more
        changed = self._read()
        if not any(self._stamps.values()) and not self._path.is_dir():
            return None
        running = self._running(table, now)
        if changed or self._last is None or (self._last.state == "running") != running:
            self._last = self._progress(running)
        return self._last

    def _read(self) -> bool:
        """Read what has changed; whether anything has."""
        before, self._stamps = self._stamps, {name: _stamp(path) for name, path in self._files.items()}
        if before == self._stamps:
            return False
        self.recorded = tuple(stamp for name, stamp in self._stamps.items() if name != EVENTS)
        # A problem, or the end, kept the rest from being read.
        unread = self._problem or self._done or not before
        changed = [name for name in _READ if unread or before[name] != self._stamps[name]]
        try:
            for name in changed:
                self._read_file(name)
            self._problem = ""
        except (DgdmnError, OSError, RecursionError) as error:
            self._problem = str(error).replace(f"{self._path}{os.sep}", "").splitlines()[0]
        return True

    def _read_file(self, name: str) -> None:
        if name == CONFIG:
            self._steps = _planned(self._object(CONFIG))
        elif name == SUMMARY:
            self._done = self._stamps[SUMMARY] is not None and self._object(SUMMARY).get("done") is True
        elif name == ARTEFACTS and not self._done:
            self._dreams = newest_dreams(self._files[ARTEFACTS])
        elif name == EVENTS and not self._done:
            self._hear()

    def _hear(self) -> None:
        if self._stamps[EVENTS] is None:
            self._story = Story()
            return
        anew, events = self._tail.news()
        self._story = Story() if anew else self._story
        for event in events:
            self._story.take(event)

    def _object(self, name: str) -> dict[str, Any]:
        path = self._files[name]
        if self._stamps[name] is None:
            raise DgdmnError(f"it is not a run's directory: there is no {name}")
        status = path.stat()
        if not stat.S_ISREG(status.st_mode) or status.st_size > LIMITS[name]:
            raise DgdmnError(f"{name} is not a run's: it is no file, or too large")
        return read_object(path)

    def _running(self, table: Locks, now: float) -> bool:
        try:
            lock = self._lock.stat()
        except OSError:
            return False  # every writer makes one
        if table is not None and locks.is_held(lock, table):
            self._free, self._unseen = None, False
            return True
        sign = self._stamps[EVENTS] or self._stamps[CONFIG]
        self._unseen |= table is None or (self._free is not None and sign is not None and sign != self._free)
        self._free = sign
        return self._unseen and sign is not None and now - sign[2] / 1e9 < QUIET

    def _progress(self, running: bool) -> Progress:
        if running and self._stamps[CONFIG] is None:
            return Progress(self._path, "running", doing="starting")
        if self._problem:
            return Progress(self._path, "broken", self._problem)
        story = self._story
        return Progress(
            path=self._path,
            state="done" if self._done else "running" if running else "stopped",
            step=story.step,
            steps=self._steps,
            doing=story.doing,
            share=1.0 if self._done else story.done,
            seconds=story.seconds,
            noted=story.noted,
            left=story.left,
            epoch=story.epoch,
            epochs=story.epochs,
            phase_left=story.phase_left,
            evaluated=story.evaluated,
            accuracy=story.accuracy,
            dreams=self._dreams,
        )


def newest_dreams(artefacts: Path) -> Path | None:
    """The dreams after the latest sleep."""
    try:
        names = [entry.name for entry in os.scandir(artefacts) if entry.is_file()]
    except (FileNotFoundError, NotADirectoryError):
        return None
    numbers = {name: name.removeprefix("dreams-").removesuffix(".npz") for name in names}
    dreams = {name: int(n) for name, n in numbers.items() if n.isdecimal() and name == f"dreams-{n}.npz"}
    return artefacts / max(dreams, key=dreams.__getitem__) if dreams else None


def _planned(config: Mapping[str, Any]) -> int:
    revised = config.get("revise")
    if config.get("together") is True:
        return 1
    return len(checked_tasks(config)) + (len(revised) if isinstance(revised, list) else 0)


def _stamp(path: Path) -> Stamp:
    """What differs when a file was written or may be read again; None if there is none."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_ctime_ns  # which, unlike mtime, nobody can set back
