"""When to save a run, and how to go on with it."""

from __future__ import annotations

import shutil
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from dgdmn import storage
from dgdmn.algorithms.base import ContinualClassifier
from dgdmn.algorithms.saving import described, restored
from dgdmn.errors import DgdmnError, Interrupted
from dgdmn.networks.training import Training
from dgdmn.storage import State

EVERY = 60.0
"""Seconds between checkpoints: about as much work is lost at most, and saving takes well under 3 % of it."""


@dataclass(frozen=True)
class Progress:
    """How far a run has come: a number of whole tasks, and trainings of the next one."""

    steps: int = 0
    """Tasks learnt and tested."""
    counters: dict[str, Any] = field(default_factory=dict)
    """What the run has counted so far, for its summary."""
    model: State | None = None
    """The memory after those tasks, as `described`; None before the first."""
    about: dict[str, Any] = field(default_factory=dict)
    trainings: tuple[list[Tensor], ...] = ()
    """The end of each training that the next task has behind it, then the present of the one under way."""
    epoch: int = 0
    """Epochs of that last one; 0: it had ended."""

    def revived(self, **parameters: Any) -> ContinualClassifier | None:
        """The memory, ready to learn the next task."""
        return None if self.model is None else restored(self.about, self.model, **parameters)


class Checkpoints:
    """Saves a run as it goes, by time; a keeper of trainings (`dgdmn.networks.training.kept_by`).

    A call of `partial_fit` is determined by the memory before it, the task's rows and the random seeds. So
    it is taken up again by making it again: what it draws and dreams comes out as before, and each
    training that had ended is not repeated but given its end. No row is saved but those that an algorithm
    keeps by itself.
    """

    def __init__(
        self,
        directory: Path,
        *,
        every: float = EVERY,
        stop: Callable[[], bool] = lambda: False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._directory, self._every, self._stop, self._clock = directory, every, stop, clock
        self._last = clock()
        self._model: ContinualClassifier | None = None
        self._count: Callable[[], dict[str, Any]] = dict
        self._steps = 0
        self._ended: list[list[Tensor]] = []
        self._behind: list[list[Tensor]] = []
        self._epoch = 0

    def latest(self) -> Progress | None:
        """The newest whole checkpoint; a damaged one is passed over with a warning."""
        for path in reversed(self._saved()):
            try:
                return _read(path)
            except DgdmnError as error:
                warnings.warn(f"{error} (going on from the checkpoint before it)", stacklevel=2)
                shutil.rmtree(path, ignore_errors=True)  # or it would be taken for the one to fall back to
        return None

    def watch(
        self, model: ContinualClassifier, count: Callable[[], dict[str, Any]], progress: Progress
    ) -> None:
        """Begin, or go on where a checkpoint was taken."""
        self._model, self._count, self._steps = model, count, progress.steps
        self._behind, self._epoch = list(progress.trainings), progress.epoch

    def step_done(self, steps: int) -> None:
        """So many tasks are learnt, tested and recorded."""
        self._steps, self._ended = steps, []
        self._save_if_due([], 0)

    def clear(self) -> None:
        """The run is complete: nobody will go on from here."""
        shutil.rmtree(self._directory, ignore_errors=True)

    def begin(self, training: Training) -> int:
        """Give a training the end, or the epoch, that it had reached; 0: it starts afresh."""
        if not self._behind:
            return 0
        state = self._behind.pop(0)
        training.restore(state)
        if self._behind or not self._epoch:
            self._ended.append(state)
            return _ALL
        return self._epoch

    def epoch_done(self, training: Training, epoch: int, epochs: int) -> None:
        """Note a training's end; save if it is time to."""
        if epoch == epochs:
            self._ended.append(training.state())
            self._save_if_due([], 0)
        else:
            self._save_if_due([training], epoch)

    def _save_if_due(self, under_way: list[Training], epoch: int) -> None:
        stop = self._stop()
        if stop or self._clock() - self._last >= self._every:
            self._save([*self._ended, *(training.state() for training in under_way)], epoch)
            self._last = self._clock()
        if stop:
            raise Interrupted("stopped, and all that was done is saved")

    def _save(self, trainings: list[list[Tensor]], epoch: int) -> None:
        assert self._model is not None
        about, model = described(self._model) if self._model.__sklearn_is_fitted__() else ({}, {})
        older = self._saved()
        number = int(older[-1].name) + 1 if older else 1
        noted = {"steps": self._steps, "epoch": epoch, "counters": self._count(), "memory": about}
        storage.write(self._directory / f"{number:06d}", noted, {"model": model, "trainings": trainings})
        for path in older[:-1]:  # one before the newest stays: the newest might be damaged
            shutil.rmtree(path, ignore_errors=True)

    def _saved(self) -> list[Path]:
        """The checkpoints there are, oldest first; what a kill cut short is none, and goes."""
        found = sorted(self._directory.glob("[0-9]*"))
        whole = [path for path in found if storage.holds_memory(path)]
        for path in set(found) - set(whole):
            shutil.rmtree(path, ignore_errors=True)
        return whole


_ALL = 1 << 62


def _read(path: Path) -> Progress:
    noted, state = storage.read(path)
    try:
        return Progress(
            int(noted["steps"]),
            dict(noted["counters"]),
            state["model"] or None,
            noted["memory"],
            tuple(state["trainings"]),
            int(noted["epoch"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise DgdmnError(f"{path} is no checkpoint of a run ({error})") from error
