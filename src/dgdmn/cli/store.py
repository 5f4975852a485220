"""What the verbs of a memory on disk share: loading, locking, saving, reading rows, and errors."""

import warnings
from argparse import Namespace
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dgdmn.algorithms import algorithm
from dgdmn.algorithms.estimator import ContinualClassifier
from dgdmn.algorithms.persistence import load_with_notes, save
from dgdmn.cli.notes import Notes, read_notes
from dgdmn.cli.output import show
from dgdmn.config import default_threads
from dgdmn.config.entries import split_algorithm
from dgdmn.core.errors import DgdmnError, Interrupted, UsageError, suggestion
from dgdmn.core.events import Event, SleepEnded
from dgdmn.core.files import directory_lock
from dgdmn.core.text import join_names
from dgdmn.features import FrontEnd
from dgdmn.memory.components import Component
from dgdmn.memory.mixture import MixtureMemory
from dgdmn.records import utc_now
from dgdmn.storage import check_place, discard, holds_memory
from dgdmn.streams.readers import FILE_TYPES, Arrays, read_arrays

Memory = tuple[ContinualClassifier, Notes]


def load_memory(args: Namespace) -> Memory:
    """The memory on disk and the notes beside it."""
    if not holds_memory(args.memory):
        advice = f"`dgdmn learn {args.memory} data.npz` creates one"
        raise UsageError(f"{args.memory} is not a memory; {advice}")
    own: dict[str, Any] = {"threads": getattr(args, "threads", 0) or default_threads()}
    if ":" in (name := split_algorithm(args.algorithm, None)[0]):
        own["algorithm"] = algorithm(name)
    model, saved = load_with_notes(args.memory, **own)
    return model, read_notes(saved)


@contextmanager
def hold_memory(path: Path) -> Iterator[list[str]]:
    """Hold a memory for writing. Yields a list of its states; an interrupt shows the last one."""
    check_place(path)
    missing = [place for place in (path, *path.parents) if not place.exists()]
    states = ["is unchanged"]
    with directory_lock(path):
        try:
            yield states
        except KeyboardInterrupt as stop:
            raise Interrupted(f"interrupted; {path} {states[-1]}") from stop
        finally:
            if missing and not holds_memory(path):  # none was created
                discard(*missing)


@contextmanager
def save_change(path: Path, memory: Memory) -> Iterator[list[Event]]:
    """Collect the events of a change to a memory, and save it afterwards."""
    (model, notes), events = memory, list[Event]()
    model.callback = events.append
    yield events
    if any(isinstance(event, SleepEnded) for event in events):
        notes["slept"] = utc_now("seconds")
    # A forgotten task leaves no trace.
    notes["learned"] = {t: when for t, when in notes["learned"].items() if t in notes["tasks"]}
    save(model, path, notes)


@contextmanager
def plain_errors() -> Iterator[None]:
    """Turn ValueErrors into UsageErrors and print warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        warnings.filterwarnings("ignore", "X does not have valid feature names")  # checked here
        try:
            yield
        except ValueError as error:
            raise error if isinstance(error, DgdmnError) else UsageError(str(error)) from error
        finally:
            for warning in caught:
                show(*f"dgdmn: {warning.message}".splitlines(), error=True)


def check_data(args: Namespace) -> None:
    if getattr(args, "task", None) == "":
        raise UsageError("--task is empty; give a name, or leave it out")
    if not args.data.exists():
        raise UsageError(f"{args.data} does not exist; give {FILE_TYPES}")


def read_labeled(args: Namespace, memory: Memory) -> Arrays:
    """The rows of a file that must have labels."""
    check_data(args)
    found = read_rows(args, memory)
    if found.y is None:
        raise UsageError(f"{args.data} has no labels; name them with --label")
    return found


def read_rows(
    args: Namespace, memory: Memory, task: str | None = None, *, needs_labels: bool = True
) -> Arrays:
    """The rows of a file as this memory sees them: its label, task and text columns and image size."""
    model, notes = memory
    columns = getattr(model, "columns_", None)
    shape = model.fitted_.shape if model.__sklearn_is_fitted__() else ()
    text = columns.text if columns else model.text or ()
    remembered = (notes["label"], notes["ignore"], (task or "", notes["task"]))
    columns_given: dict[str, Any] = {"label": args.label, "ignore": args.ignore, "text": text}
    columns_given["needs_labels"] = needs_labels
    with plain_errors():
        return read_arrays(args.data, **columns_given, shape=shape, remembered=remembered)


def known_tasks(memory: Memory) -> list[str]:
    """The tasks that a memory keeps apart; of one that does not, those that were learned."""
    info = memory[0].info()
    return [*info.consolidated, *info.awake] or list(memory[1]["tasks"])


def find_name(args: Namespace, what: str, text: str, known: Sequence[Any]) -> Any:
    """The label or the task that a text names."""
    by_text = {str(one): one for one in known}
    if text not in by_text:
        hint, names = suggestion(text, by_text), join_names(by_text)
        raise UsageError(f"{args.memory} has no {what} {text!r}{hint}; it has {names}")
    return by_text[text]


def generative_info(
    path: Path, model: ContinualClassifier, slept: bool = False, can: str = ""
) -> Any:
    info = model.info()
    if not info.generative:
        lacks = f"cannot {can}" if can else "neither sleeps nor dreams"
        raise UsageError(f"{path} uses {info.algorithm}, which {lacks}")
    if slept and not info.consolidated:
        raise UsageError(f"{path} has not slept yet; run `dgdmn sleep {path}` first")
    return info


def mixtures_of(model: ContinualClassifier) -> list[MixtureMemory]:
    """The mixture memories of a model, the long-term memory first; none of another kind."""
    if not isinstance(model.fitted_.inputs, FrontEnd) or not model.info().generative:
        return []
    found: list[MixtureMemory] = model.fitted_.snapshot().memory.copy_memories()  # type: ignore[attr-defined]
    return found


def components_of(model: ContinualClassifier) -> list[Component]:
    return [one for memory in mixtures_of(model) for one in memory.components]


def count_tasks(model: ContinualClassifier) -> dict[str, tuple[int, int]]:
    """How often each task of a mixture memory was learned, and its rows; empty for other memories."""
    times: Counter[str] = Counter()
    rows: dict[str, float] = {}
    for memory in mixtures_of(model):
        times.update({task: info.times for task, info in memory.tasks.items()})
        for one in memory.components:
            rows[one.task] = rows.get(one.task, 0) + one.n
    return {task: (times[task], round(rows.get(task, 0))) for task in times}
