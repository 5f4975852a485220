"""Execute several runs side by side, each in a process of its own."""

import multiprocessing
import os
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Protocol

from dgdmn.config.registry import algorithm_info
from dgdmn.core.errors import DgdmnError, UsageError
from dgdmn.core.text import shorten
from dgdmn.runs.environment import handle_signals, large_pages
from dgdmn.runs.spec import RunSpec


@dataclass(frozen=True)
class Failure:
    """A run that ended without a result."""

    run: str
    message: str  # one line for the user
    usage: bool = False  # whether the request itself was wrong
    trace: str = ""  # for developers


Result = Future[Failure | None]
ProgressCallback = Callable[[Sequence[Failure]], None]


class Cluster(Protocol):
    """Executes runs somewhere; `slots` of them at a time."""

    slots: int

    def submit(self, spec: RunSpec, out: Path) -> Result:
        """Start a run; the result is None if it is completed."""

    def stop(self) -> None:
        """Ask all runs to save and end."""

    def shutdown(self) -> None:
        """Wait until all runs have ended."""


def run_all(
    specs: Sequence[RunSpec],
    out: Path,
    cluster: Cluster,
    report_progress: ProgressCallback,
    every: float = 0.2,
) -> list[Failure]:
    """Execute the runs, as many at a time as the cluster has slots; a failed run does not stop the others.

    `report_progress` is called about every `every` seconds with the failures so far. Progress is in status.json.
    SIGTERM and SIGHUP stop the runs as Ctrl-C does: they are saved, and KeyboardInterrupt is raised.
    """
    stop_requested = threading.Event()
    waiting, failures = list(specs), list[Failure]()
    running: set[Result] = set()

    def request_stop(*_: object) -> None:
        if stop_requested.is_set():
            raise KeyboardInterrupt
        stop_requested.set()

    # A signal that is ignored, such as with nohup, or handled by the program stays so.
    with handle_signals(("SIGTERM", "SIGHUP"), request_stop, only=(signal.SIG_DFL,)):
        try:
            while waiting or running:
                while waiting and len(running) < cluster.slots:
                    running.add(cluster.submit(waiting.pop(0), out))
                ended, running = wait(running, timeout=every, return_when=FIRST_COMPLETED)
                ends = [future.result() for future in ended]
                failures += [failure for failure in ends if failure is not None]
                report_progress(failures)
                if stop_requested.is_set():
                    raise KeyboardInterrupt
        finally:
            cluster.stop()
            cluster.shutdown()
    return failures


class LocalCluster:
    """Executes runs on this machine, one process each: a killed run does not affect the others."""

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self._running: dict[threading.Thread, BaseProcess] = {}

    def submit(self, spec: RunSpec, out: Path) -> Result:
        """Start a run; the result is None if it is completed."""
        context = multiprocessing.get_context("spawn")
        receiver, sender = context.Pipe(duplex=False)
        process = context.Process(target=_work, args=(spec, out, sender), daemon=True)
        # The parent handles Ctrl-C and hangups.
        with large_pages(), handle_signals(("SIGINT", "SIGHUP"), signal.SIG_IGN):
            process.start()
        sender.close()
        future: Result = Future()
        arguments = (spec, process, receiver, future)
        thread = threading.Thread(target=_wait_for, args=arguments, daemon=True)
        thread.start()
        self._running[thread] = process
        return future

    def stop(self) -> None:
        """Ask all runs to finish their epoch, save a checkpoint and end."""
        for thread, process in self._running.items():
            if thread.is_alive():
                process.terminate()

    def shutdown(self) -> None:
        """Wait until all runs have ended."""
        try:
            for thread in self._running:
                thread.join()
        except BaseException:  # a second Ctrl-C or signal: do not wait for the end of the epochs
            for process in self._running.values():
                process.kill()
            raise


def _wait_for(spec: RunSpec, process: BaseProcess, receiver: Connection, future: Result) -> None:
    try:
        failure: Failure | None = receiver.recv()
    except EOFError:
        process.join()
        message = f"its process ended with code {process.exitcode} (killed, or out of memory?)"
        failure = Failure(spec.name, message)
    receiver.close()
    process.join()
    future.set_result(failure)


def _work(spec: RunSpec, out: Path, sender: Connection) -> None:
    threading.Thread(target=_end_with_parent, daemon=True).start()
    failure, stop_requested = None, threading.Event()
    try:
        from dgdmn.runs.runner import execute  # torch is imported in the child, if at all

        warnings.formatwarning = lambda message, *_, **__: f"{spec.name}: {message}\n"

        # SIGTERM may come twice: from the parent, and from whoever signals the whole process group.
        signal.signal(signal.SIGTERM, lambda *_: stop_requested.set())
        execute(spec, out, stop=stop_requested.is_set)
    except Exception as error:
        is_known, trace = isinstance(error, DgdmnError), traceback.format_exc()[-8_000:]
        message = str(error) if is_known else f"{type(error).__name__}: {error}".splitlines()[0]
        usage = isinstance(error, UsageError)
        failure = Failure(spec.name, shorten(message, 8_000), usage, trace)
    sender.send(failure)
    if algorithm_info(spec.algorithm).category != "custom" and ":" not in spec.stream:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)  # everything of ours is on disk; to unload torch would take most of a second


def _end_with_parent() -> None:
    """End this process when its parent is killed: it would continue unseen."""
    if (parent := multiprocessing.parent_process()) is not None:
        parent.join()
        os._exit(1)
