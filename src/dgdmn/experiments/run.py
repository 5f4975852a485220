"""One run: learnt by the protocol, recorded as it goes."""

from __future__ import annotations

import os
import platform
import resource
import sys
import time
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from dgdmn import __version__, metrics, streams
from dgdmn.algorithms import algorithm
from dgdmn.algorithms.base import check_device
from dgdmn.algorithms.generative import GenerativeClassifier
from dgdmn.events import EpochDone, Event, SleepEnded
from dgdmn.experiments.plan import cost, planned_epochs
from dgdmn.experiments.protocol import Evaluated, ProtocolEvent, learn_stream
from dgdmn.experiments.spec import RunSpec, recorded
from dgdmn.records import RunRecord, RunWriter, locked
from dgdmn.streams import Rows, Task, TaskStream

VALIDATION = 0.1
"""Share of the training rows cut off for `evaluate_on="validation"`."""


def execute(spec: RunSpec, out: Path) -> RunRecord:
    """Do the run, or return its record at once if it has been done before."""
    directory = out / spec.name
    validation = VALIDATION if spec.evaluate_on == "validation" else 0.0
    stream = streams.load(spec.dataset, seed=spec.seed, validation=validation)
    record = recorded(spec, out)
    if record is not None and record.complete:
        return record
    stream[0]  # neither missing data nor a missing device may leave a directory behind
    check_device(spec.device)
    config = _config(spec, stream)
    with locked(directory):
        begun = record is not None
        writer = (
            RunWriter.resume(directory, steps=0, config=config) if begun else RunWriter(directory, config)
        )
        torch.set_num_threads(spec.threads)
        _Run(spec, stream, writer).go()
    return RunRecord.read(directory)


class _Run:
    """Ties the pieces together: the algorithm learns, the writer records."""

    def __init__(self, spec: RunSpec, stream: TaskStream, writer: RunWriter) -> None:
        self.spec, self.stream, self.writer = spec, stream, writer
        self.began = time.monotonic()
        self.seconds = {"train": 0.0, "evaluate": 0.0}
        self.samples_trained = 0
        self.sleeps = 0
        self.work_done = 0.0
        self.tests, labels = self._look_ahead()
        plan = planned_epochs(spec.algorithm, spec.options, labels)
        self.work = sum(cost(epoch, spec.options, stream.shape) for epoch in plan)
        self.model = algorithm(spec.algorithm)(
            spec.options, random_state=spec.seed, device=spec.device, listen=self._hear
        )

    def go(self) -> None:
        """Learn the stream and record it."""
        since = time.monotonic()
        tasks = (self._few(task) for task in self.stream)
        for event in learn_stream(self.model, tasks, self.stream.classes, self.tests):
            now = time.monotonic()
            self.seconds["evaluate" if isinstance(event, Evaluated) else "train"] += now - since
            since = now
            self._record(event)
        self._keep_reconstructions()
        self.writer.summary(self._summary())

    def _look_ahead(self) -> tuple[dict[str, Rows], list[tuple[str, NDArray[Any]]]]:
        """The rows to test on, and the labels to plan with."""
        tests, labels = {}, []
        for task in self.stream:
            task = self._few(task)
            tests[task.name] = task.test if task.validation is None else task.validation
            labels.append((task.name, task.train.y))
        return tests, labels

    def _few(self, task: Task) -> Task:
        """The task with `samples_per_task` rows to learn and to test, where the preset says so."""
        if not self.spec.options.samples_per_task:
            return task
        index = self.stream.task_names.index(task.name)
        rng = np.random.default_rng([self.spec.seed, index])
        held_out = None if task.validation is None else self._drawn(task.validation, rng)
        return Task(task.name, self._drawn(task.train, rng), held_out, self._drawn(task.test, rng))

    def _drawn(self, rows: Rows, rng: np.random.Generator) -> Rows:
        return rows.take(rng.permutation(len(rows))[: self.spec.options.samples_per_task])

    def _hear(self, event: Event) -> None:
        """The core speaks: an epoch, a replay, a sleep."""
        extra = {}
        if isinstance(event, EpochDone):
            self.samples_trained += event.samples
            self.work_done += cost(event, self.spec.options, self.stream.shape)
            extra = {"done": min(1.0, self.work_done / self.work)}
        if isinstance(event, SleepEnded):
            self.sleeps += 1
        self.writer.event(_snake(type(event).__name__), **asdict(event), **extra)

    def _record(self, event: ProtocolEvent) -> None:
        self.writer.event(_snake(type(event).__name__), **asdict(event))
        if isinstance(event, Evaluated):
            self._keep_dreams(event.step)
            self.writer.row("accuracy", event.task, event.accuracy, step=event.step)
            if event.accuracy_ltm is not None:
                self.writer.row("accuracy_ltm", event.task, event.accuracy_ltm, step=event.step)

    def _keep_dreams(self, step: int) -> None:
        """What the long-term memory dreams of, each time it has just consolidated."""
        model = self.model
        if isinstance(model, GenerativeClassifier) and not model.awake_tasks():
            x, y = model.sample(128, random_state=self.spec.seed)
            self.writer.artefact(f"dreams-{step:03d}", x=_bytes(x), y=y)

    def _keep_reconstructions(self) -> None:
        if isinstance(self.model, GenerativeClassifier):
            some = np.concatenate([rows.x[:4] for rows in self.tests.values()])
            seen = self.model.reconstruct(some)
            self.writer.artefact("reconstructions", x=_bytes(some), reconstructed=_bytes(seen))

    def _summary(self) -> dict[str, Any]:
        record = RunRecord.read(self.writer.directory)
        ltm = record.accuracy_ltm
        return {
            "acc": metrics.acc(record.accuracy),
            "bwt": metrics.bwt(record.accuracy, record.columns),
            "acc_ltm": None if ltm is None else metrics.acc(ltm),
            "seconds": time.monotonic() - self.began,
            "train_seconds": self.seconds["train"],
            "evaluate_seconds": self.seconds["evaluate"],
            "samples_trained": self.samples_trained,
            "sleeps": self.sleeps,
            "peak_rss_mb": _peak_rss_mb(),
            "evaluated_on": self.spec.evaluate_on,
            "note": self.stream.note,
        }


def _config(spec: RunSpec, stream: TaskStream) -> dict[str, Any]:
    """Everything needed to run it again, and where it ran."""
    return {
        **spec.identity(),
        "changes": spec.changes(),
        "tasks": list(stream.task_names),
        "classes": list(stream.classes),
        "shape": list(stream.shape),
        "note": stream.note,
        "device": spec.device,
        "threads": spec.threads,
        "versions": {
            "dgdmn": __version__,
            "python": platform.python_version(),
            **{name: version(name) for name in ("torch", "numpy", "scikit-learn")},
        },
        "machine": {"system": platform.system(), "cpu": platform.machine(), "cores": os.cpu_count()},
    }


def _peak_rss_mb() -> float:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1 << 20 if sys.platform == "darwin" else 1 << 10)


def _bytes(x: NDArray[Any]) -> NDArray[np.uint8]:
    return np.asarray(np.round(np.clip(x, 0, 1) * 255), dtype=np.uint8)


def _snake(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("_")
