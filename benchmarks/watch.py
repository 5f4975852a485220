"""What following many runs costs: `python benchmarks/watch.py`, or `--runs 50`.

Makes run directories of every state, each with 1,000 events (220 kB), serves them on a free port and times
requests for `/state` over the socket: cold (nothing read yet), warm (nothing changed), and while the running
runs write an event between two requests. The report itself is not drawn.
"""

from __future__ import annotations

import argparse
import http.client
import tempfile
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np

from dgdmn.records import RunWriter, locked
from dgdmn.report.server import Server

TASKS = [str(digit) for digit in range(10)]
RUNNING = 8


def make_run(directory: Path) -> RunWriter:
    """A run in its seventh task, with dreams."""
    writer = RunWriter(directory, {"tasks": TASKS, "revise": []})
    for step in range(1, 8):
        writer.event("task_began", step=step, task=TASKS[step - 1], samples=6000)
        for number in range(1, 143):
            write_epoch(writer, number, (step - 1 + number / 143) / 10)
        if step < 7:
            writer.event("evaluated", step=step, task=TASKS[step - 1], accuracy=[0.5] * 10, accuracy_ltm=None)
            writer.row("accuracy", TASKS[step - 1], [0.5] * 10)
    writer.artefact("dreams-006", x=np.zeros((128, 28, 28), np.uint8), y=np.zeros(128, np.int64))
    return writer


def write_epoch(writer: RunWriter, epoch: int, done: float) -> None:
    """One more epoch of a generator."""
    writer.event("epoch_done", network="generator", epoch=epoch, epochs=142, samples=6000, loss=101.25,
                 memory="stm", done=done)  # fmt: skip


@dataclass(frozen=True)
class Cost:
    """What one request took."""

    wall: float
    """Milliseconds until the answer was read."""
    cpu: float
    """Milliseconds of processor time, server and client together."""
    size: int
    """Bytes of the answer."""
    tag: str
    """Its ETag."""


def timed(connection: http.client.HTTPConnection, tag: str = "") -> Cost:
    """Ask for the state."""
    wall, cpu = time.perf_counter(), time.process_time()
    connection.request("GET", "/state", headers={"If-None-Match": tag} if tag else {})
    answer = connection.getresponse()
    size = len(answer.read())
    took = 1e3 * (time.perf_counter() - wall), 1e3 * (time.process_time() - cpu)
    return Cost(*took, size, answer.getheader("ETag") or "")


def told(what: str, costs: list[Cost]) -> str:
    """A line on some requests."""
    walls = [cost.wall for cost in costs]
    cpu = median(cost.cpu for cost in costs)
    return f"{what}: median {median(walls):.1f} ms, most {max(walls):.1f} ms, processor {cpu:.1f} ms"


def measure(root: Path, runs: int) -> None:
    """Make the runs, serve them, ask, and print what it took."""
    writers = [make_run(root / f"run-{number:03d}") for number in range(runs)]
    for writer in writers[RUNNING : runs * 9 // 10]:
        writer.summary({"acc": 0.5})
    with ExitStack() as stack:
        for writer in writers[:RUNNING]:
            stack.enter_context(locked(writer.directory))
        began = time.perf_counter()
        server = stack.enter_context(Server([root], 0, lambda _: "<main id='report'></main>", fresh=0.0))
        print(f"{runs} runs, first look: {1e3 * (time.perf_counter() - began):.0f} ms")
        threading.Thread(target=server.serve_forever, daemon=True).start()
        stack.callback(server.shutdown)
        connection = http.client.HTTPConnection("127.0.0.1", server.server_port)
        stack.callback(connection.close)
        first = timed(connection)
        print(told(f"first request ({first.size:,} bytes)", [first]))
        time.sleep(3)  # what is new is looked at more closely
        print(told("nothing new", [timed(connection, first.tag) for _ in range(200)]))
        costs = []
        for number in range(100):
            for writer in writers[:RUNNING]:
                write_epoch(writer, 142, 0.7 + number / 1000)
            costs.append(timed(connection, first.tag))
        print(told(f"{RUNNING} runs wrote an event", costs))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=500)
    with tempfile.TemporaryDirectory() as directory:
        measure(Path(directory), parser.parse_args().runs)
