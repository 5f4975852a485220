"""One run: a dataset, an algorithm, a preset, a seed; learnt, tested and recorded."""

from __future__ import annotations

import os
import platform
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from dgdmn import __version__, metrics, presets, streams
from dgdmn.algorithms import algorithm
from dgdmn.algorithms.base import GenerativeClassifier
from dgdmn.errors import UsageError
from dgdmn.events import EpochDone, Event, SleepEnded
from dgdmn.experiments.plan import cost, planned_epochs
from dgdmn.experiments.protocol import Evaluated, ProtocolEvent, TaskBegan, TaskLearned, learn_stream
from dgdmn.presets import Preset
from dgdmn.records import RunRecord, RunWriter, run_name
from dgdmn.streams import Rows, Task, TaskStream

VALIDATION = 0.1
"""Share of the training rows cut off for `evaluate_on="validation"`."""


@dataclass(frozen=True)
class RunSpec:
    """Everything that decides what a run computes."""

    dataset: str
    algorithm: str
    preset: str
    options: Preset
    """The preset of that name for the dataset, with the user's own changes."""
    seed: int = 0
    evaluate_on: Literal["test", "validation"] = "test"
    device: str = "cpu"
    threads: int = 1

    @property
    def name(self) -> str:
        """The run directory's name; what differs from the preset is part of it."""
        changes = [f"{key}-{_short(value)}" for key, value in self.changes().items()]
        on = ["on-validation"] if self.evaluate_on == "validation" else []
        return run_name(self.dataset, self.algorithm, "-".join([self.preset, *changes, *on]), self.seed)

    def changes(self) -> dict[str, Any]:
        """The options that are not the preset's."""
        base = presets.as_dict(presets.preset(self.preset, self.dataset))
        return {key: value for key, value in presets.as_dict(self.options).items() if value != base[key]}


@dataclass(frozen=True)
class Progress:
    """How far a run is, by the work planned and the work done."""

    doing: str
    """What it does now, for people."""
    done: float
    """Share of the run's work that is done, in [0, 1]."""
    part: float
    """Share of what it does now."""


Watcher = Callable[[str, Progress | ProtocolEvent], None]
"""Is told the run's name and what happened."""


def execute(spec: RunSpec, out: Path, watch: Watcher) -> RunRecord:
    """Do the run, or return its record at once if it has been done before."""
    directory = out / spec.name
    if (directory / "config.json").exists():
        record = RunRecord.read(directory)
        _check_same(spec, record)
        if record.complete:
            return record
        writer = RunWriter.resume(directory, steps=0)
        stream = _stream(spec)
    else:
        stream = _stream(spec)
        stream[0]  # data that cannot be found must not leave a directory behind
        writer = RunWriter(directory, _config(spec, stream))
    torch.set_num_threads(spec.threads)
    _Run(spec, stream, writer, watch).go()
    return RunRecord.read(directory)


def _stream(spec: RunSpec) -> TaskStream:
    return streams.load(
        spec.dataset, seed=spec.seed, validation=VALIDATION if spec.evaluate_on == "validation" else 0.0
    )


class _Run:
    """Ties the pieces together: the algorithm learns, the writer records, the watcher sees."""

    def __init__(self, spec: RunSpec, stream: TaskStream, writer: RunWriter, watch: Watcher) -> None:
        self.spec, self.stream, self.writer, self.watch = spec, stream, writer, watch
        self.began = time.monotonic()
        self.seconds = {"train": 0.0, "evaluate": 0.0}
        self.samples_trained = 0
        self.sleeps = 0

    def go(self) -> None:
        """Learn the stream and record it."""
        tests, labels = self._look_ahead()
        plan = planned_epochs(self.spec.algorithm, self.spec.options, labels)
        costs = [cost(epoch, self.spec.options, self.stream.shape) for epoch in plan]
        self.total = sum(costs)
        self.done = 0.0
        self.model = algorithm(self.spec.algorithm)(
            self.spec.options, random_state=self.spec.seed, device=self.spec.device, listen=self._heard
        )
        since = time.monotonic()
        tasks = (self._few(task) for task in self.stream)
        for event in learn_stream(self.model, tasks, self.stream.classes, tests):
            now = time.monotonic()
            self.seconds["evaluate" if isinstance(event, Evaluated) else "train"] += now - since
            since = now
            self._record(event)
            self.watch(self.spec.name, event)
        self._keep_dreams("last", tests)
        self.writer.summary(self._summary())

    def _look_ahead(self) -> tuple[dict[str, Rows], list[tuple[str, Any]]]:
        """The rows to test on, and the labels to plan with."""
        tests, labels = {}, []
        for task in self.stream:
            held_out = task.test if self.spec.evaluate_on == "test" else task.validation
            assert held_out is not None
            tests[task.name] = held_out
            labels.append((task.name, self._few(task).train.y))
        return tests, labels

    def _few(self, task: Task) -> Task:
        """The task with `samples_per_task` of its training rows, where the preset says so."""
        few = self.spec.options.samples_per_task
        if not few or few >= len(task.train):
            return task
        index = self.stream.task_names.index(task.name)
        chosen = np.random.default_rng([self.spec.seed, index]).permutation(len(task.train))[:few]
        return Task(task.name, task.train.take(chosen), task.validation, task.test)

    def _heard(self, event: Event) -> None:
        """The core speaks: an epoch, a replay, a sleep."""
        self.writer.event(_snake(type(event).__name__), **asdict(event))
        if isinstance(event, EpochDone):
            self.samples_trained += event.samples
            self.done += cost(event, self.spec.options, self.stream.shape)
            where = {"stm": "short-term memory", "ltm": "long-term memory", "": ""}[event.memory]
            doing = " ".join(filter(None, (where, event.network)))
            share = min(self.done / self.total, 1.0)
            self.watch(self.spec.name, Progress(doing, share, event.epoch / event.epochs))
        if isinstance(event, SleepEnded):
            self.sleeps += 1

    def _record(self, event: ProtocolEvent) -> None:
        if isinstance(event, Evaluated):
            self.writer.row("accuracy", event.task, event.accuracy, step=event.step)
            if event.accuracy_ltm is not None:
                self.writer.row("accuracy_ltm", event.task, event.accuracy_ltm, step=event.step)
        elif isinstance(event, TaskLearned):
            self.writer.event("task_learned", step=event.step, task=event.task)
            self._keep_dreams(f"step{event.step:03d}", None)
        elif isinstance(event, TaskBegan):
            self.writer.event("task_began", step=event.step, task=event.task, samples=event.samples)

    def _keep_dreams(self, when: str, tests: dict[str, Rows] | None) -> None:
        """Dreams of the long-term memory after each task it consolidated; reconstructions at the end."""
        model = self.model
        if not isinstance(model, GenerativeClassifier) or not model.consolidated_tasks():
            return
        if tests is not None:
            some = np.concatenate([rows.x[:4] for rows in tests.values()])
            self.writer.artefact(
                "reconstructions", x=_bytes(some), reconstructed=_bytes(model.reconstruct(some))
            )
        elif not model.awake_tasks():
            x, y = model.sample(128, random_state=self.spec.seed)
            self.writer.artefact(f"dreams-{when}", x=_bytes(x), y=y)

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
        "dataset": spec.dataset,
        "algorithm": spec.algorithm,
        "preset": spec.preset,
        "seed": spec.seed,
        "evaluate_on": spec.evaluate_on,
        "options": presets.as_dict(spec.options),
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


def _check_same(spec: RunSpec, record: RunRecord) -> None:
    """A directory of another computation is not this run."""
    theirs = {
        key: record.config.get(key) for key in ("dataset", "algorithm", "seed", "evaluate_on", "options")
    }
    ours = {"dataset": spec.dataset, "algorithm": spec.algorithm, "seed": spec.seed,
            "evaluate_on": spec.evaluate_on, "options": presets.as_dict(spec.options)}  # fmt: skip
    for key, value in ours.items():
        if theirs[key] != value:
            raise UsageError(
                f"{record.directory} holds a run with another {key}; choose another --out, or remove it"
            )


def _peak_rss_mb() -> float:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1 << 20 if sys.platform == "darwin" else 1 << 10)


def _bytes(x: NDArray[Any]) -> NDArray[np.uint8]:
    return np.asarray(np.round(np.clip(x, 0, 1) * 255), dtype=np.uint8)


def _short(value: Any) -> str:
    return ".".join(map(str, value)) or "none" if isinstance(value, list) else str(value)


def _snake(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("_")
