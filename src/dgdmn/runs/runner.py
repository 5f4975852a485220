"""One run: learn a stream by the protocol and record everything."""

import contextlib
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import get_tags

from dgdmn import metrics, streams
from dgdmn.algorithms import algorithm
from dgdmn.config.registry import algorithm_info
from dgdmn.core.errors import DgdmnError, Interrupted, UsageError
from dgdmn.core.events import EpochDone, Event, SleepEnded, SleepStarted
from dgdmn.core.files import directory_lock
from dgdmn.records import MatrixName, Phase, RunRecord, RunWriter
from dgdmn.runs import environment, protocol
from dgdmn.runs.artifacts import Artifacts, has_features
from dgdmn.runs.checkpoint import EVERY, Checkpoints, Progress
from dgdmn.runs.protocol import Evaluated, ProtocolEvent, RunTasks
from dgdmn.runs.spec import RunSpec, find_run
from dgdmn.runs.time_left import TimeLeft
from dgdmn.streams import Rows, TaskStream

VALIDATION = 0.1  # share of the training rows held out for `evaluate_on="validation"`
STATUS_EVERY = 1.0  # seconds between two versions of status.json
POSITION = ("rows", "rows_ltm", "events", "step_events")
"""Counters that only a checkpoint needs."""


def execute(
    spec: RunSpec,
    out: Path,
    *,
    stream: TaskStream | None = None,
    own: Mapping[str, Any] | None = None,
    every: float = EVERY,
    stop: Callable[[], bool] = lambda: False,
) -> RunRecord:
    """Execute a run, continue it if it was interrupted, or return its record if it is complete.

    The stream is loaded by its name unless it is given. `own` are arguments of the estimator that a spec
    cannot hold, such as functions. A checkpoint is saved at the end of an epoch, about every `every` seconds.
    If `stop` returns True, the epoch is finished and saved, and `Interrupted` is raised.
    """
    environment.reset_peak_memory()
    record = find_run(spec, out)
    if record is None or not record.complete:
        stream = _load_stream(spec) if stream is None else stream
        _check(spec, stream)
        own = own or {}
        fill = stream.has_missing and not _allows_missing(spec, own)
        tasks = RunTasks(stream, spec, fill=fill)
        tasks.read(0)  # missing data must not leave a directory behind
        directory = out / spec.name if record is None else record.directory
        with directory_lock(directory):
            record = find_run(spec, out)  # another process may have written since
            if record is None or not record.complete:
                checkpoints = Checkpoints(directory / "checkpoints", every, stop)
                _Run(spec, tasks, checkpoints, own).execute(directory, record)
                record = RunRecord.read(directory)
    Checkpoints(record.directory / "checkpoints").clear()  # a kill may have left some
    return record


def _load_stream(spec: RunSpec) -> TaskStream:
    validation = VALIDATION if spec.evaluate_on == "validation" else 0.0
    if spec.data is not None:
        return spec.data.load(seed=spec.seed, validation=validation)
    options = streams.stream_options(spec.stream, spec.options)
    return streams.load(spec.stream, seed=spec.seed, validation=validation, **options)


def _allows_missing(spec: RunSpec, own: Mapping[str, Any]) -> bool:
    """Whether the estimator handles missing values itself."""
    model = algorithm(spec.algorithm)(spec.training_options(), **{**spec.arguments, **own})
    return bool(get_tags(model).input_tags.allow_nan)


def _check(spec: RunSpec, stream: TaskStream) -> None:
    for number in spec.revise:
        if not 1 <= number <= len(stream):
            tasks = f"{stream.name} has tasks 1 to {len(stream)}"
            raise UsageError(f"revise names task {number}; {tasks}")
    if (spec.evaluate_on == "validation") != (stream.validation > 0):
        raise UsageError(
            f"evaluate_on is {spec.evaluate_on!r}, but the stream's validation share is "
            f"{stream.validation:g}; change one of them"
        )
    if spec.device != "cpu":
        from dgdmn.networks.runtime import check_device

        check_device(spec.device)


@dataclass
class Counters:
    """What a run counts and a checkpoint saves."""

    train_seconds: float = 0.0
    train_cpu_seconds: float = 0.0
    evaluate_seconds: float = 0.0  # tests and artifacts
    evaluate_cpu_seconds: float = 0.0  # tests alone
    samples_trained: int = 0
    steps_trained: int = 0
    sleeps: int = 0
    rows: int = 0  # rows of the accuracy matrix written
    rows_ltm: int = 0  # those of the long-term memory alone
    events: int = 0  # lines of events.jsonl written
    step_events: int = 0  # those of this step except epochs: a repeated step emits them again


class _Run:
    """Connects the parts: the algorithm learns, the writer records, the checkpoints save."""

    def __init__(
        self, spec: RunSpec, tasks: RunTasks, checkpoints: Checkpoints, own: Mapping[str, Any]
    ) -> None:
        self.spec, self.tasks, self.checkpoints, self.own = spec, tasks, checkpoints, own
        self.stream = stream = tasks.stream
        # Without networks, torch is not imported. A memory class of the user's may have some.
        info, has_own_memory = algorithm_info(spec.algorithm), "memory" in {**spec.arguments, **own}
        self.has_networks = has_own_memory or info.has_networks(spec.options.generator)
        self.note = "; ".join(filter(None, (stream.note, tasks.note)))
        self.acc = math.nan
        self.phase: Phase = "loading"
        self.planned_steps: float | None = math.inf  # optimizer steps; unknown until it is planned
        self.time_left = TimeLeft(())
        self.spent = (0.0, 0.0)  # seconds of tests and of training before this step

    def execute(self, directory: Path, record: RunRecord | None) -> None:
        """Learn the stream, record it, and say in status.json how it ended."""
        self._open(directory, record)
        try:
            with self._network_context():
                self._learn()
        except BaseException as error:
            stopped = isinstance(error, Interrupted | KeyboardInterrupt)
            with contextlib.suppress(DgdmnError):
                self._write_status("stopped" if stopped else "failed", message=str(error))
            raise
        self._write_status("done")

    @contextlib.contextmanager
    def _network_context(self) -> Iterator[None]:
        """Limit the threads of torch, and save during trainings."""
        if not self.has_networks:
            yield
            return
        from dgdmn.networks.runtime import use_threads
        from dgdmn.networks.train import use_hook

        with use_threads(self.threads), use_hook(self.checkpoints):
            yield

    def _open(self, directory: Path, record: RunRecord | None) -> None:
        config = self._config()
        self.checkpoints.remove_leftovers()
        self.progress = (self.checkpoints.latest() if record is not None else None) or Progress()
        self.step, counters = self.progress.steps, self.progress.counters
        known = {name: counters[name] for name in asdict(Counters()) if name in counters}
        self.count = Counters(**known)
        self.skip_events, self.count.step_events = self.count.step_events, 0
        if record is None:
            self.writer = RunWriter(directory, config)
        else:
            if self.step or self.progress.trainings:  # equal bits need an equal number of threads
                config["threads"] = RunSpec.from_record(record).threads
            rows: dict[MatrixName, int] = {
                "accuracy": self.count.rows,
                "accuracy_ltm": self.count.rows_ltm,
            }
            self.writer = RunWriter.resume(
                directory, self.step, rows=rows, events=self.count.events, config=config
            )
        self.threads = int(config["threads"])
        self.since, self.since_cpu = time.monotonic(), time.process_time()

    def _config(self) -> dict[str, Any]:
        spec, stream = self.spec, self.stream
        return {
            "key": spec.key,
            **spec.identity(),
            "changes": spec.changes(),
            "tasks": list(stream.task_names),
            "classes": list(stream.classes),
            "shared_classes": sum(map(len, stream.labels)) > len(stream.classes),
            "shape": list(stream.shape),
            "note": self.note,
            "device": spec.device,
            "threads": spec.threads,
            "versions": environment.describe_versions(),
            "machine": environment.describe_machine(),
        }

    def _learn(self) -> None:
        self._write_status("loading")
        for number in range(len(self.stream)):
            self.tasks.read(number)
        name, options = self.spec.algorithm, self.spec.training_options()
        labels, shape = self.tasks.labels(), self.stream.shape
        self.planned_steps = None
        if self.has_networks:
            from dgdmn.runs.plan import planned_steps

            self.planned_steps = planned_steps(name, options, labels, shape)
        kind = algorithm(name)
        local = {"device": self.spec.device, "threads": self.threads, "callback": self._handle}
        known = set(kind._get_param_names())
        here: dict[str, Any] = {key: value for key, value in local.items() if key in known}
        for wrong in sorted(self.spec.arguments.keys() - known):
            reason = "config.json of the run was changed"
            raise UsageError(f"{name} has no argument {wrong!r}; {reason}")
        saved = self.progress.restore_model(algorithm=kind, **here, **self.own)
        arguments = {**here, **self.spec.arguments, **self.own}
        self.model = saved or kind(options, random_state=self.spec.seed, **arguments)
        tests: Mapping[str, Rows] = self.tasks.tests
        if self.tasks.common_test:
            tests = dict([*tests.items()][:1])
        if self.stream.has_missing:  # distances and noise need every value
            tests = {name: self.tasks.fill(rows) for name, rows in tests.items()}
        self.artifacts = Artifacts(self.writer, tests, self.spec.seed)
        self.time_left = self._new_time_left(labels)
        self.checkpoints.attach(self.model, self._save_counters, self.progress)
        self.since, self.since_cpu = time.monotonic(), time.process_time()
        classes, start = self.stream.classes, self.progress.steps
        for event in protocol.learn_stream(self.model, self.tasks, classes, start):
            tested = isinstance(event, Evaluated | protocol.Recognized)
            self._account("test" if tested else "train")
            self._record(event)
        self._write_status("finishing")
        self.artifacts.write_final(self.model)
        self._account("artifacts")
        self.writer.summary(self._summary())

    def _new_time_left(self, steps: Sequence[tuple[str, NDArray[Any]]]) -> TimeLeft:
        known, numbers = set[Any](), list[int]()
        for _, labels in steps:
            known |= set(labels.tolist())
            numbers.append(len(known))
        planned, n = self.planned_steps is not None, self.count.rows
        self.spent = self._spent()
        seconds = self.spent[0] if planned else sum(self.spent)
        return TimeLeft(numbers, [seconds / n] * n if n else (), planned=planned)

    def _spent(self) -> tuple[float, float]:
        return self.count.evaluate_seconds, self.count.train_seconds

    def _handle(self, event: Event) -> None:
        """Record an event of the algorithm: an epoch, a replay, a sleep."""
        extra = {}
        if isinstance(event, EpochDone):
            self.count.samples_trained += event.samples
            self.count.steps_trained += math.ceil(event.samples / self.spec.options.batch_size)
            extra = {"done": self._share()}
        if isinstance(event, SleepEnded):
            self.count.sleeps += 1
        self._write_event(event, **extra)
        if isinstance(event, SleepStarted):
            self._write_status("sleeping")
        elif time.monotonic() - self.status_written >= STATUS_EVERY:
            self._write_status(self.phase)

    def _record(self, event: ProtocolEvent) -> None:
        self._write_event(event)
        if isinstance(event, protocol.TaskBegan):
            self.step = event.step
            self._write_status("learning")
        if isinstance(event, protocol.TaskLearned):
            self._write_status("testing")
        if isinstance(event, Evaluated):
            self.artifacts.write_dreams(self.model, event.step)
            self._account("artifacts")
            self.writer.row("accuracy", event.task, event.accuracy, step=event.step)
            if event.accuracy_ltm is not None:
                self.writer.row("accuracy_ltm", event.task, event.accuracy_ltm, step=event.step)
                self.count.rows_ltm += 1
            self.count.rows += 1
            tested, trained = (
                now - before for now, before in zip(self._spent(), self.spent, strict=True)
            )
            self.spent = self._spent()
            self.time_left.record_step(tested + (trained if self.planned_steps is None else 0.0))
            if not (self.time_left.final_seconds and has_features(self.model)):
                # The first test makes features that later tests reuse; the final phase makes its own.
                self.time_left.final_seconds = tested * self.artifacts.final_tests(self.model)
            seen = self.tasks.tests if self.spec.together else self.tasks.order[: event.step]
            scores = zip(self.tasks.tests, event.accuracy, strict=True)
            self.acc = float(np.mean([score for name, score in scores if name in seen]))
        if isinstance(event, protocol.StepEnded):
            self.count.step_events = self.skip_events = 0
            self.checkpoints.step_done(event.step)

    def _write_event(self, event: Event | ProtocolEvent, **extra: Any) -> None:
        """Write an event, unless it was written before the checkpoint that this run continues from."""
        if not isinstance(event, EpochDone):
            self.count.step_events += 1
            if self.count.step_events <= self.skip_events:
                return
        name = type(event).__name__
        kind = "".join(f"_{c.lower()}" if c.isupper() else c for c in name).lstrip("_")
        self.writer.event(kind, **asdict(event), **extra)
        self.count.events = self.writer.n_events

    def _write_status(self, phase: Phase, message: str = "") -> None:
        self.phase, self.status_written = phase, time.monotonic()
        share = 1.0 if phase == "done" else self._share()
        running = self.status_written - self.since
        training = running if phase in ("learning", "sleeping") else 0.0
        self.time_left.record_training(share, self.count.train_seconds + training)
        left = self.time_left.seconds(sum(self._spent()) - sum(self.spent) + running)
        if phase in ("finishing", "done"):
            left = (self.time_left.final_seconds or None) if phase == "finishing" else 0.0
        self.writer.status(
            phase,
            task=self.tasks.order[max(0, self.step - 1)],
            step=self.step,
            steps=len(self.tasks.order),
            share=share,
            seconds=round(self.writer.seconds, 3),
            seconds_left=None if left is None else round(left, 3),
            pid=os.getpid(),
            acc=self.acc,
            message=message,
        )

    def _share(self) -> float:
        """Share of the planned steps done; of the tasks learned if steps could not be planned."""
        if self.planned_steps is None:
            return max(0, self.step - 1) / len(self.tasks.order)
        return min(1.0, self.count.steps_trained / self.planned_steps)

    def _account(self, what: Literal["train", "test", "artifacts"]) -> None:
        """Add the time since the last call to the counters of what was done."""
        now, now_cpu = time.monotonic(), time.process_time()
        seconds, cpu = now - self.since, now_cpu - self.since_cpu
        if what == "train":
            self.count.train_seconds += seconds
            self.count.train_cpu_seconds += cpu
        else:
            self.count.evaluate_seconds += seconds
            # Artifacts are for the report; they are not a cost of the method.
            self.count.evaluate_cpu_seconds += cpu if what == "test" else 0.0
        self.since, self.since_cpu = now, now_cpu

    def _save_counters(self) -> dict[str, Any]:
        self._account("train")
        return asdict(self.count)

    def _summary(self) -> dict[str, Any]:
        record = RunRecord.read(self.writer.directory)
        ltm = record.accuracy_ltm
        sizes = [len(rows) for rows in self.tasks.tests.values()]
        right = np.concatenate(list(self.tasks.right.values()))
        labels = [label for name in self.tasks.right for label in self.tasks.tests[name].y.tolist()]
        by_class = metrics.count_right(right, map(str, labels))
        return {
            "acc": metrics.acc(record.accuracy),
            "row_accuracy": float(np.average(record.accuracy[-1], weights=sizes)),
            "macro_accuracy": metrics.macro_accuracy(by_class),
            "by_class": by_class,
            "bwt": metrics.bwt(record.accuracy, record.columns),
            "acc_ltm": None if ltm is None else metrics.acc(ltm),
            "seconds": self.writer.seconds,
            **{name: value for name, value in asdict(self.count).items() if name not in POSITION},
            "memory_bytes": self.model.memory_bytes(),
            "exemplar_bytes": self.model.exemplar_bytes(),
            "chosen": self.model.info().chosen,
            "peak_rss_mb": environment.peak_memory_mb(),
            "evaluated_on": self.spec.evaluate_on,
            "note": self.note,
        }
