"""One run: learnt by the protocol, recorded as it goes."""

from __future__ import annotations

import math
import platform
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from dgdmn import __version__, metrics, streams
from dgdmn.algorithms import algorithm
from dgdmn.algorithms.base import check_device
from dgdmn.errors import UsageError
from dgdmn.events import EpochDone, Event, SleepEnded
from dgdmn.experiments.artefacts import Artefacts
from dgdmn.experiments.checkpoint import EVERY, Checkpoints, Progress
from dgdmn.experiments.machine import machine
from dgdmn.experiments.peak import forget_peak, peak_mb
from dgdmn.experiments.plan import cost, planned_epochs
from dgdmn.experiments.protocol import Evaluated, ProtocolEvent, Recognised, StepEnded, joined, learn_stream
from dgdmn.experiments.source import checksum
from dgdmn.experiments.spec import RunSpec, recorded
from dgdmn.networks.training import kept_by
from dgdmn.presets import stream_options
from dgdmn.records import RunRecord, RunWriter, locked
from dgdmn.streams import Rows, Task, TaskStream

VALIDATION = 0.1
"""Share of the training rows cut off for `evaluate_on="validation"`."""


def execute(
    spec: RunSpec, out: Path, *, every: float = EVERY, stop: Callable[[], bool] = lambda: False
) -> RunRecord:
    """Do the run, go on with it where it was interrupted, or return its record if it has been done before.

    A checkpoint is saved about `every` so many seconds, at an epoch's end. When `stop` says so, the
    epoch is finished and saved, and `Interrupted` raised.
    """
    forget_peak()
    directory = out / spec.name
    validation = VALIDATION if spec.evaluate_on == "validation" else 0.0
    stream = streams.load(
        spec.dataset, seed=spec.seed, validation=validation, **stream_options(spec.dataset, spec.options)
    )
    record = recorded(spec, out)
    if record is not None and record.complete:
        Checkpoints(directory / "checkpoints").clear()  # a kill may have come between the summary and this
        return record
    for number in spec.revise:
        if not 1 <= number <= len(stream):
            raise UsageError(f"revise names task {number}; {spec.dataset} has tasks 1 to {len(stream)}")
    stream[0]  # neither missing data nor a missing device may leave a directory behind
    check_device(spec.device)
    config = _config(spec, stream)
    with locked(directory):
        keeper = Checkpoints(directory / "checkpoints", every=every, stop=stop)
        progress = (keeper.latest() if record is not None else None) or Progress()
        if record is None:
            writer = RunWriter(directory, config)
        else:
            if progress.steps or progress.trainings:  # bits are promised for one number of threads
                config["threads"] = record.config["threads"]
            kept = {"rows": progress.counters.get("rows", 0), "events": progress.counters.get("events", 0)}
            writer = RunWriter.resume(directory, progress.steps, config=config, **kept)
        torch.set_num_threads(config["threads"])
        _Run(spec, stream, writer, keeper, progress).go()
    return RunRecord.read(directory)


@dataclass
class Counted:
    """What a run counts as it goes, and a checkpoint saves."""

    train_seconds: float = 0.0
    train_cpu_seconds: float = 0.0
    evaluate_seconds: float = 0.0
    samples_trained: int = 0
    steps_trained: int = 0
    sleeps: int = 0
    work_done: float = 0.0
    rows: int = 0
    """Rows of the accuracy matrix written."""
    events: int = 0
    """Lines of events.jsonl written."""
    told: int = 0
    """Those of the step under way, epochs left out: they would be written again when the step is made again."""


class _Run:
    """Ties the pieces together: the algorithm learns, the writer records."""

    def __init__(
        self, spec: RunSpec, stream: TaskStream, writer: RunWriter, keeper: Checkpoints, progress: Progress
    ) -> None:
        self.spec, self.stream, self.writer = spec, stream, writer
        self.keeper, self.progress = keeper, progress
        self.count = replace(Counted(), **progress.counters)
        self.to_skip, self.count.told = self.count.told, 0
        self.tests, labels = self._look_ahead()
        self.artefacts = Artefacts(writer, self.tests, spec.seed)
        plan = planned_epochs(spec.algorithm, spec.trained_with(), labels, stream.shape)
        self.work = sum(cost(epoch, spec.options, stream.shape) for epoch in plan)
        made = progress.revived(device=spec.device, listen=self._hear)
        self.model = made or algorithm(spec.algorithm)(
            spec.trained_with(), random_state=spec.seed, device=spec.device, listen=self._hear
        )

    def go(self) -> None:
        """Learn the stream and record it."""
        self.keeper.watch(self.model, self._counted, self.progress)
        self.since, self.since_cpu = time.monotonic(), time.process_time()
        start = self.progress.steps
        with kept_by(self.keeper):
            for event in learn_stream(
                self.model, self._tasks(), self.stream.classes, self.tests, start=start
            ):
                self._spend(
                    "evaluate_seconds" if isinstance(event, Evaluated | Recognised) else "train_seconds"
                )
                self._record(event)
        self.artefacts.at_end(self.model)
        self._spend("evaluate_seconds")
        self.writer.summary(self._summary())
        self.keeper.clear()

    def _look_ahead(self) -> tuple[dict[str, Rows], list[tuple[str, NDArray[Any]]]]:
        """The rows to test on, and the labels to plan with."""
        tests, labels = {}, []
        for task in self._each():
            tests[task.name] = task.test if task.validation is None else task.validation
            labels.append((task.name, task.train.y))
        if self.spec.together:
            labels = [(labels[-1][0], np.concatenate([y for _, y in labels]))]
        return tests, labels

    def _tasks(self) -> Iterator[Task]:
        """What is learnt: one task after the other, or all of them as one."""
        return iter([joined(self._each())]) if self.spec.together else self._each()

    def _each(self) -> Iterator[Task]:
        """The stream, then the tasks to be revised, cut to size where the preset says so."""
        for index in (*range(len(self.stream)), *(number - 1 for number in self.spec.revise)):
            yield self._few(self.stream[index])

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
            self.count.samples_trained += event.samples
            self.count.steps_trained += math.ceil(event.samples / self.spec.options.batch_size)
            self.count.work_done += cost(event, self.spec.options, self.stream.shape)
            extra = {"done": min(1.0, self.count.work_done / self.work)}
        if isinstance(event, SleepEnded):
            self.count.sleeps += 1
        self._tell(event, **extra)

    def _tell(self, event: Event | ProtocolEvent, **extra: Any) -> None:
        """Write an event, unless it was written before the checkpoint that this run goes on from."""
        if not isinstance(event, EpochDone):
            self.count.told += 1
            if self.count.told <= self.to_skip:
                return
        self.writer.event(_snake(type(event).__name__), **asdict(event), **extra)
        self.count.events = self.writer.events

    def _record(self, event: ProtocolEvent) -> None:
        self._tell(event)
        if isinstance(event, Evaluated):
            self.artefacts.dreams(self.model, event.step)
            self._spend("evaluate_seconds")
            self.writer.row("accuracy", event.task, event.accuracy, step=event.step)
            if event.accuracy_ltm is not None:
                self.writer.row("accuracy_ltm", event.task, event.accuracy_ltm, step=event.step)
            self.count.rows += 1
        if isinstance(event, StepEnded):
            self.count.told = self.to_skip = 0
            self.keeper.step_done(event.step)

    def _spend(self, on: str) -> None:
        """Add the time since the last look to one of the accounts."""
        now, now_cpu = time.monotonic(), time.process_time()
        setattr(self.count, on, getattr(self.count, on) + now - self.since)
        if on == "train_seconds":
            self.count.train_cpu_seconds += now_cpu - self.since_cpu
        self.since, self.since_cpu = now, now_cpu

    def _counted(self) -> dict[str, Any]:
        """All that is counted, at an epoch's end or between two tasks."""
        self._spend("train_seconds")
        return asdict(self.count)

    def _summary(self) -> dict[str, Any]:
        record = RunRecord.read(self.writer.directory)
        ltm = record.accuracy_ltm
        return {
            "acc": metrics.acc(record.accuracy),
            "bwt": metrics.bwt(record.accuracy, record.columns),
            "acc_ltm": None if ltm is None else metrics.acc(ltm),
            "seconds": self.writer.seconds,
            "train_seconds": self.count.train_seconds,
            "train_cpu_seconds": self.count.train_cpu_seconds,
            "evaluate_seconds": self.count.evaluate_seconds,
            "samples_trained": self.count.samples_trained,
            "steps_trained": self.count.steps_trained,
            "memory_bytes": self.model.memory_bytes(),
            "exemplar_bytes": self.model.exemplar_bytes(),
            "sleeps": self.count.sleeps,
            "peak_rss_mb": peak_mb(),
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
            "source": checksum(),
            "python": platform.python_version(),
            **{name: version(name) for name in ("torch", "numpy", "scikit-learn")},
        },
        "machine": machine(),
    }


def _snake(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("_")
