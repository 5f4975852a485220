"""What `dgdmn watch` shows: the report, drawn anew when runs have changed, and the state of the runs now."""

import hashlib
import json
import threading
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from dgdmn.errors import DgdmnError
from dgdmn.report.live import Progress, Watch
from dgdmn.report.mosaic import dreams_png

Draw = Callable[[Sequence[Path]], str]

SHOWN = 50
"""Runs told of one by one in each state; the others are counted."""
FRESH = 0.25
"""Seconds for which a look at the directories serves all who ask."""
PAUSE = 1.0
"""Seconds between two drawings of the report, at least; also at least four times what the last one took."""
FIRST = 2.0
"""Seconds to wait for the first report before an empty page is shown in its place."""


@dataclass(frozen=True)
class Answer:
    """Bytes, and a name that changes with them."""

    content: bytes
    tag: str


class Page:
    """The report. A thread draws it when it is asked for and the runs have changed; nobody waits for that."""

    def __init__(self, draw: Draw, pause: float = PAUSE) -> None:
        self._draw, self._pause = draw, pause
        self._wanted: Mapping[Path, Hashable] | None = None
        self._drawn: Mapping[Path, Hashable] | None = None
        self._news = threading.Condition()
        self._empty = draw([])
        self._text = ""
        self._version = int(time.time())  # a browser may hold a page of the server before this one
        self.problem = ""
        self._closed = threading.Event()
        threading.Thread(target=self._draw_on, daemon=True, name="report").start()

    @property
    def version(self) -> int:
        """Changes when the report does."""
        return self._version

    def want(self, recorded: Mapping[Path, Hashable]) -> None:
        """The runs are so now."""
        with self._news:
            self._wanted = recorded
            self._news.notify_all()

    def now(self) -> Answer:
        """The newest report; an empty page if the first one takes long."""
        with self._news:
            self._news.wait_for(lambda: self._text or self.problem, FIRST)
            text, version = self._text or self._empty, self._version
        marked = text.replace('<main id="report"', f'<main id="report" data-version="{version}"', 1)
        return Answer(marked.encode(), f'"{version}"')

    def close(self) -> None:
        """Draw no more."""
        self._closed.set()
        with self._news:
            self._news.notify_all()

    def _changed(self) -> bool:
        return self._closed.is_set() or (self._wanted is not None and self._wanted != self._drawn)

    def _draw_on(self) -> None:
        while not self._closed.is_set():
            with self._news:
                self._news.wait_for(self._changed)
                wanted = self._wanted or {}
            began = time.monotonic()
            try:
                text, problem = self._draw(list(wanted)), ""
            except Exception as error:  # the runs go on, and so does the watch
                text, problem = self._text, f"the report could not be drawn: {type(error).__name__}: {error}"
            with self._news:
                self._version += text != self._text
                self._text, self.problem, self._drawn = text, problem, wanted
                self._news.notify_all()
            self._closed.wait(max(self._pause, 4 * (time.monotonic() - began)))


class Site:
    """Everything that can be asked for, whoever asks; safe to ask from several threads."""

    def __init__(
        self, paths: Sequence[Path], draw: Draw, *, fresh: float = FRESH, pause: float = PAUSE
    ) -> None:
        self._watch, self._fresh = Watch(paths), fresh
        self._page = Page(draw, pause)
        self._lock = threading.Lock()
        self._looked = float("-inf")
        self._runs: tuple[Progress, ...] = ()
        self._told: tuple[Any, Answer] | None = None
        self.look()

    def look(self) -> None:
        """See what the directories hold now, unless somebody just did."""
        with self._lock:
            if time.monotonic() - self._looked < self._fresh:
                return
            self._runs = self._watch.look()
            self._page.want(self._watch.recorded)
            self._looked = time.monotonic()

    def close(self) -> None:
        """End the thread that draws."""
        self._page.close()

    def page(self) -> Answer:
        """The report."""
        self.look()
        return self._page.now()

    def state(self) -> Answer:
        """Every run's state, as JSON."""
        self.look()
        with self._lock:
            now = (self._runs, self._page.version, self._page.problem)
            if self._told is None or self._told[0] != now:
                content = json.dumps(_told(*now), ensure_ascii=False).encode(errors="replace")
                self._told = now, Answer(content, f'"{hashlib.sha256(content).hexdigest()[:16]}"')
            return self._told[1]

    def dreams(self, key: str) -> bytes | None:
        """The newest dreams of the run with that key as a PNG; None if there is no such run, or no dreams."""
        for run in self._runs:
            if run.dreams is not None and _key(run) == key:
                try:
                    return dreams_png(run.dreams)
                except DgdmnError:
                    return None
        return None


def _told(runs: Sequence[Progress], version: int, problem: str) -> dict[str, Any]:
    states = ("running", "stopped", "done", "broken")
    by_state = {state: [run for run in runs if run.state == state] for state in states}
    return {
        "version": version,
        "problem": problem,
        "counts": {state: len(found) for state, found in by_state.items()},
        "running": [_running(run) for run in by_state["running"][:SHOWN]],
        "stopped": [_stopped(run) for run in by_state["stopped"][:SHOWN]],
        "broken": [{"name": run.name, "problem": run.problem} for run in by_state["broken"][:SHOWN]],
    }


def _running(run: Progress) -> dict[str, Any]:
    return {
        "key": _key(run),
        "name": run.name,
        "step": run.step,
        "steps": run.steps,
        "doing": run.doing,
        "share": run.share,
        "seconds": run.seconds,
        "ends": None if run.left is None else run.noted + run.left,
        "epoch": run.epoch,
        "epochs": run.epochs,
        "phase_ends": None if run.phase_left is None else run.noted + run.phase_left,
        "accuracy": run.accuracy,
        "dreams": f"/dreams/{_key(run)}.png?{run.dreams.stem}" if run.dreams else "",
    }


def _stopped(run: Progress) -> dict[str, Any]:
    return {
        "key": _key(run),
        "name": run.name,
        "share": run.share,
        "evaluated": run.evaluated,
        "steps": run.steps,
        "command": run.command,
    }


@lru_cache(maxsize=4096)
def _key_of(path: Path) -> str:
    return hashlib.sha256(str(path).encode(errors="surrogateescape")).hexdigest()[:16]


def _key(run: Progress) -> str:
    return _key_of(run.path)
