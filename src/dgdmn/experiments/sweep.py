"""Several runs side by side: one process each, as many at a time as asked for."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

from dgdmn.errors import DgdmnError, UsageError
from dgdmn.experiments.large_pages import large_pages
from dgdmn.experiments.spec import RunSpec

_LONGEST = 8_000
"""Letters told of a failure, of its message and of its trace; a pipe takes 64 KiB, a letter has up to four bytes."""


@dataclass(frozen=True)
class Failure:
    """A run that ended without its result."""

    run: str
    message: str
    """One line for people."""
    usage: bool
    """Whether the request itself was wrong."""
    trace: str
    """The whole story, for developers."""


def run_all(
    specs: Sequence[RunSpec],
    out: Path,
    jobs: int,
    look: Callable[[Sequence[Failure]], None],
    every: float = 0.2,
) -> list[Failure]:
    """Do the runs, at most `jobs` at a time; a failed one does not stop the others.

    The runs write their directories; `look` is called again and again so that somebody can read them, and
    is told which have failed.
    """
    waiting, going, failures = list(specs), list[_Child](), list[Failure]()
    try:
        while waiting or going:
            while waiting and len(going) < jobs:
                going.append(_Child(waiting.pop(0), out))
            time.sleep(every)
            look(failures)
            for child in [child for child in going if child.ended()]:
                going.remove(child)
                failures += child.failures()
    finally:
        for child in going:
            child.ask_to_stop()
        for child in going:
            child.wait()
    look(failures)
    return failures


class _Child:
    """One run in a process of its own: its memory is its own, and so is its death."""

    def __init__(self, spec: RunSpec, out: Path) -> None:
        self.spec = spec
        context = multiprocessing.get_context("spawn")
        self._receiver, sender = context.Pipe(duplex=False)
        self._process = context.Process(target=_work, args=(spec, out, sender), daemon=True)
        with large_pages(), _deaf_to_ctrl_c():  # inherited: the parent hears Ctrl-C and decides
            self._process.start()
        sender.close()

    def ended(self) -> bool:
        return self._process.exitcode is not None

    def failures(self) -> list[Failure]:
        try:
            failure: Failure | None = self._receiver.recv()
        except EOFError:
            message = f"its process ended with code {self._process.exitcode} (killed, or out of memory?)"
            failure = Failure(self.spec.name, message, False, message)
        return [] if failure is None else [failure]

    def ask_to_stop(self) -> None:
        """Let it finish its epoch and save."""
        self._process.terminate()

    def wait(self) -> None:
        self._process.join()


def _work(spec: RunSpec, out: Path, sender: Connection) -> None:
    threading.Thread(target=_end_with_parent, daemon=True).start()
    failure = None
    try:
        from dgdmn.experiments.run import execute  # torch is imported in the child only

        execute(spec, out, stop=_asked_to_stop())
    except DgdmnError as error:
        failure = _failure(spec, str(error), isinstance(error, UsageError))
    except Exception as error:
        failure = _failure(spec, f"{type(error).__name__}: {error}".splitlines()[0])
    sender.send(failure)


def _failure(spec: RunSpec, message: str, usage: bool = False) -> Failure:
    """The exception at hand, cut to what a pipe takes: its other end is read when this process has ended."""
    return Failure(spec.name, message[:_LONGEST], usage, traceback.format_exc()[-_LONGEST:])


def _asked_to_stop() -> Callable[[], bool]:
    """Whether somebody asked this process to end. Who asks twice does not want to wait."""
    asked = threading.Event()

    def hear(*_: object) -> None:
        if asked.is_set():
            os._exit(1)
        asked.set()

    signal.signal(signal.SIGTERM, hear)
    return asked.is_set


def _end_with_parent() -> None:
    """A run whose parent was killed would go on writing unseen."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


@contextmanager
def _deaf_to_ctrl_c() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
