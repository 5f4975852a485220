"""When to save a run, and how to continue it."""

import math
import re
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dgdmn import storage
from dgdmn.algorithms.estimator import ContinualClassifier
from dgdmn.algorithms.persistence import algorithm_name, describe, restore_model
from dgdmn.config.registry import algorithm_info
from dgdmn.core import files
from dgdmn.core.errors import DgdmnError, Interrupted
from dgdmn.storage import State

if TYPE_CHECKING:  # a memory without networks needs no torch
    from torch import Tensor

    from dgdmn.networks.train import TrainingState

Count = Callable[[], dict[str, Any]]  # the counters of a run
EVERY = 60.0  # seconds between checkpoints: about as much work is lost at most
_SKIP_TRAINING = 1 << 62


@dataclass(frozen=True)
class Progress:
    """How far a run has come: a number of complete tasks, and trainings of the next one."""

    steps: int = 0  # tasks learned and tested
    counters: dict[str, Any] = field(default_factory=dict)  # the counters of the run so far
    state: State | None = None  # the state of the model after those tasks; None before the first
    about: dict[str, Any] = field(default_factory=dict)  # `describe(model)[0]`
    trainings: "tuple[list[Tensor], ...]" = ()
    """The final state of each finished training of the next task, then that of the current one."""
    epoch: int = 0  # epochs of the current training; 0 if the last one in `trainings` is finished

    def restore_model(self, **parameters: Any) -> ContinualClassifier | None:
        if self.state is None:
            return None
        with _fit_errors():
            return restore_model(self.about, self.state, **parameters)


@contextmanager
def _fit_errors() -> Iterator[None]:
    """Raise a one-line error if a checkpoint does not belong to this run."""
    try:
        yield
    except (RuntimeError, ValueError, TypeError, KeyError, AttributeError, IndexError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DgdmnError(f"the checkpoint does not fit this run ({reason}); remove it") from error


class Checkpoints:
    """Saves a run from time to time; a training hook (`dgdmn.networks.train.use_hook`).

    A call of `partial_fit` is determined by the model before it, the task's rows and the random seeds. So a
    run continues by repeating the call: everything random comes out as before, and each training that had
    finished gets its final state instead of being repeated. No row is saved except those that the algorithm
    keeps itself.
    """

    def __init__(
        self, directory: Path, every: float = EVERY, stop: Callable[[], bool] = lambda: False
    ) -> None:
        self._directory, self._every, self._stop = directory, every, stop
        self._last = time.monotonic()
        self._model: ContinualClassifier | None = None
        self._count: Count = dict
        self._steps = 0
        self._finished: list[list[Tensor]] = []  # final states of the trainings of the current task
        self._pending: list[list[Tensor]] = []  # states that trainings have still to get
        self._epoch = 0

    def remove_leftovers(self) -> None:
        """Refuse a linked directory; remove what a killed process left. Call it under the run's lock."""
        if self._directory.is_symlink() or self._directory.exists():
            files.make_directory(self._directory)
            for path in self._saved():
                files.remove_temporaries(path)

    def latest(self) -> Progress | None:
        """The newest complete checkpoint; a damaged one is skipped with a warning."""
        for path in reversed(self._saved()):
            try:
                return _read(path)
            except DgdmnError as error:
                warnings.warn(f"{error} (using the checkpoint before it)", stacklevel=2)
                # It must not count as the older one of the two that are kept.
                files.remove_directory(path)
        return None

    def attach(self, model: ContinualClassifier, count: Count, progress: Progress) -> None:
        """Save this model and these counters from now on; continue from `progress`."""
        self._model, self._count, self._steps = model, count, progress.steps
        self._pending, self._epoch = list(progress.trainings), progress.epoch

    def step_done(self, steps: int) -> None:
        """Note how many tasks are learned, tested and recorded."""
        self._steps, self._finished = steps, []
        self._save_if_due([], 0)

    def clear(self) -> None:
        files.remove_directory(self._directory)

    def begin(self, training: "TrainingState") -> int:
        """Restore the state that a training had reached and return its epochs; 0 for a new training."""
        if not self._pending:
            return 0
        state = self._pending.pop(0)
        with _fit_errors():
            training.load_state(state)
        if self._pending or not self._epoch:
            self._finished.append(state)
            return _SKIP_TRAINING
        return self._epoch

    def epoch_done(self, training: "TrainingState", epoch: int, epochs: int) -> None:
        """Note the end of a training; save if it is time."""
        if epoch == epochs:
            self._finished.append(training.state())
            self._save_if_due([], 0)
        else:
            self._save_if_due([training], epoch)

    def _save_if_due(self, current: "list[TrainingState]", epoch: int) -> None:
        stop = self._stop()
        if stop or time.monotonic() - self._last >= self._every:
            self._save([*self._finished, *(training.state() for training in current)], epoch)
            self._last = time.monotonic()
        if stop:
            lost = "this method cannot be saved, so the run starts again"
            what = "everything done so far is saved" if self._can_save() else lost
            raise Interrupted(f"stopped; {what}")

    def _can_save(self) -> bool:
        return algorithm_info(algorithm_name(type(self._model))).saved

    def _save(self, trainings: "list[list[Tensor]]", epoch: int) -> None:
        assert self._model is not None
        if not self._can_save():
            return  # a killed run starts again
        about, state = describe(self._model) if self._model.__sklearn_is_fitted__() else ({}, {})
        files.make_directory(self._directory)
        older = self._saved()
        place = self._directory / f"{max(map(int, self._names()), default=0) + 1:06d}"
        files.make_directory(place)
        notes = {"steps": self._steps, "epoch": epoch, "counters": self._count(), "memory": about}
        storage.write(place, notes, {"model": state, "trainings": trainings})
        for path in older[:-1]:  # one older checkpoint stays, in case the newest gets damaged
            files.remove_directory(path)

    def _saved(self) -> list[Path]:
        """The complete checkpoints, oldest first; incomplete ones are removed. Links do not count."""
        found = [self._directory / name for name in sorted(self._names(), key=int)]
        found = [path for path in found if path.is_dir() and not path.is_symlink()]
        complete = [path for path in found if storage.holds_memory(path)]
        for path in set(found) - set(complete):
            files.remove_directory(path)
        return complete

    def _names(self) -> list[str]:
        places = self._directory.iterdir() if self._directory.is_dir() else ()
        return [path.name for path in places if re.fullmatch("[0-9]{6,18}", path.name)]


def _read(path: Path) -> Progress:
    notes, state = storage.read(path)
    try:
        steps, epoch, counters = int(notes["steps"]), int(notes["epoch"]), dict(notes["counters"])
        if not all(math.isfinite(number) and number >= 0 for number in counters.values()):
            raise ValueError("a counter is not a number")
        model, trainings = state["model"] or None, tuple(state["trainings"])
        return Progress(steps, counters, model, notes["memory"], trainings, epoch)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise DgdmnError(f"{path} is not a checkpoint ({error}); remove it") from error
