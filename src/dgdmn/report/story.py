"""What the events of a run tell about now: the task or sleep it is in, how much is done, what is left."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any


@dataclass(frozen=True)
class Mark:
    """How far something was at some time."""

    seconds: float
    """Since the run began."""
    done: float
    """Share of the run, or epochs of a training."""


@dataclass
class Story:
    """The events of one run, one after another; events that make no sense are passed over."""

    step: int = 0
    """Tasks begun, from 1."""
    task: str = ""
    """The last one begun."""
    asleep: tuple[str, ...] = ()
    """Tasks being consolidated."""
    network: str = ""
    """What is being trained: generator or learner; empty between trainings."""
    epoch: int = 0
    epochs: int = 0
    done: float = 0.0
    """Share of the planned work."""
    seconds: float = 0.0
    """Wall clock of the run at the last event."""
    accuracy: float | None = None
    """Mean of the last row over the tasks seen."""
    evaluated: int = 0
    """Tasks learnt and tested."""
    _time: Any = ""
    _phase: str = "starting"
    _training: str = ""
    _attempt: Mark | None = field(default=None, repr=False)
    _first: Mark | None = field(default=None, repr=False)
    _learner_to_come: float = 0.0
    """Seconds that a learner will take after the generator under way, as it took the last time."""
    _generated: dict[str, float] = field(default_factory=dict, repr=False)
    """When the last generator of each memory was trained."""
    _learner_pace: dict[str, float] = field(default_factory=dict, repr=False)
    """Seconds a sample that a learner then took, in each memory."""

    def take(self, event: Mapping[str, Any]) -> None:
        """Hear one event."""
        try:
            self._heard(event)
        except (KeyError, TypeError, ValueError, OverflowError, ZeroDivisionError):
            return

    def _heard(self, event: Mapping[str, Any]) -> None:
        kind, seconds = event["kind"], float(event["seconds"])
        if not math.isfinite(seconds):
            return
        self.seconds, self._time = seconds, event["time"]
        if kind == "epoch_done":
            self._epoch_done(event)
        elif kind == "task_began":
            self.step, self.task, self.asleep = int(event["step"]), str(event["task"]), ()
            self._enter(f"learning {self.task}")
        elif kind in ("sleep_began", "sleep_ended"):
            self.asleep = tuple(map(str, event["tasks"])) if kind == "sleep_began" else ()
            what = ", ".join(self.asleep)
            self._enter(f"asleep: consolidating {what}" if what else f"awake again after {self.task}")
        elif kind == "task_learned":
            self._enter(f"testing after {self.task}")
        elif kind == "evaluated":
            self.evaluated = int(event["step"])
            seen = [float(value) for value in event["accuracy"][: self.evaluated] if value is not None]
            self.accuracy = sum(seen) / len(seen) if seen else None
        elif kind == "resumed":
            self._attempt = self._first = None
            self._generated.clear()
            self.evaluated = int(event["steps"])
            self._enter(self._phase)

    def _epoch_done(self, event: Mapping[str, Any]) -> None:
        epoch, epochs, done = int(event["epoch"]), int(event["epochs"]), float(event["done"])
        if not (1 <= epoch <= epochs and 0 <= done <= 1):
            return
        training = f"{event['memory']} {event['network']} {epochs}"
        if training != self._training or epoch <= self.epoch or self._first is None:
            self._first = Mark(self.seconds, epoch)
        self._training, self.network = training, str(event["network"])
        self.epoch, self.epochs, self.done = epoch, epochs, done
        if self._attempt is None:
            self._attempt = Mark(self.seconds, done)
        self._time_learner(str(event["memory"]), int(event["samples"]))

    def _time_learner(self, memory: str, samples: int) -> None:
        """A task, and a sleep, is a generator's training and then a learner's."""
        ended = self.epoch == self.epochs
        if self.network == "generator":
            self._learner_to_come = self._learner_pace.get(memory, 0.0) * samples
            if ended:
                self._generated[memory] = self.seconds
            return
        self._learner_to_come = 0.0
        if ended and memory in self._generated and samples > 0:
            self._learner_pace[memory] = max(0.0, self.seconds - self._generated.pop(memory)) / samples

    def _enter(self, phase: str) -> None:
        self._phase, self._training, self.network, self.epoch, self.epochs = phase, "", "", 0, 0

    @property
    def noted(self) -> float:
        """When the last event came, as a Unix time; 0 if nobody knows."""
        try:
            return datetime.fromisoformat(self._time).timestamp()
        except (TypeError, ValueError, OverflowError):
            return 0.0

    @property
    def left(self) -> float | None:
        """Seconds that the run will still take, at the pace of this attempt; None while nobody can say.

        What an earlier attempt did took none of this one's time, so it does not count.
        """
        since = self._attempt
        if since is None or self.done - since.done < 0.005:
            return None
        return max(0.0, self.seconds - since.seconds) * (1 - self.done) / (self.done - since.done)

    @property
    def phase_left(self) -> float | None:
        """Seconds that the task or sleep under way will still take, testing left out.

        Until a learner was timed, it counts for nothing: it is the small part.
        """
        since = self._first
        if since is None or not self.network or self.epoch <= since.done:
            return None
        pace = max(0.0, self.seconds - since.seconds) / (self.epoch - since.done)
        return pace * (self.epochs - self.epoch) + self._learner_to_come

    @property
    def doing(self) -> str:
        """What it does now, in words."""
        training = f"; {self.network} epoch {self.epoch} of {self.epochs}" if self.network else ""
        return self._phase + training


def enough(events: Iterable[Mapping[str, Any]]) -> bool:
    """Whether these last events tell which task is under way and what was tested last."""
    kinds = [event.get("kind") for event in events]
    return "task_began" in kinds and "evaluated" in kinds
