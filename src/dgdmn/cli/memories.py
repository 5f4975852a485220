"""A saved memory at the command line: opened, held by one writer, spoken of in sentences."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from dgdmn.errors import UsageError

if TYPE_CHECKING:  # torch and numpy wait until the arguments are parsed, so that --help is quick
    from dgdmn.algorithms.base import ContinualClassifier

MemoryPath = tyro.conf.Positional[Annotated[Path, tyro.conf.arg(metavar="MEMORY")]]


@dataclass
class Met:
    """How often a task was learnt, and how many rows it brought."""

    times: int = 0
    rows: int = 0


@dataclass
class Notes:
    """What the command line notes beside a memory; a save from Python starts without them."""

    tasks: dict[str, Met] = field(default_factory=dict)
    slept: str | None = None
    """When it last slept, UTC."""

    def learnt(self, task: str, rows: int) -> None:
        """A task was learnt."""
        before = self.tasks.pop(task, Met())  # the task met last comes last
        self.tasks[task] = Met(before.times + 1, before.rows + rows)

    def sleeps(self) -> None:
        """It sleeps now."""
        self.slept = datetime.now(UTC).isoformat(timespec="seconds")

    @classmethod
    def read(cls, path: Path) -> Notes:
        """Those of a saved memory."""
        from dgdmn.storage import read_about

        noted: Any = read_about(path).get("noted")
        try:
            tasks = {
                str(task): Met(int(met["times"]), int(met["rows"])) for task, met in noted["tasks"].items()
            }
            return cls(tasks, None if noted["slept"] is None else str(noted["slept"]))
        except (TypeError, KeyError, ValueError, AttributeError):
            return cls()


def opened(path: Path, threads: int = 0) -> tuple[ContinualClassifier, Notes]:
    """The memory saved there, and what was noted beside it."""
    from dgdmn.algorithms.saving import load
    from dgdmn.storage import holds_memory

    if not holds_memory(path):
        raise UsageError(f"{path} holds no memory; `dgdmn learn {path} data.npz` makes one")
    return load(path, threads=threads or None), Notes.read(path)


def kept(model: ContinualClassifier, path: Path, notes: Notes) -> None:
    """Save the memory and its notes: the old ones or the new ones are there, never half of each."""
    from dgdmn.algorithms.saving import save

    save(model, path, asdict(notes))


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Hold a memory alone; where none came to be, leave nothing behind."""
    from dgdmn.records import locked
    from dgdmn.storage import check_place, discard, holds_memory

    check_place(path)
    new = not path.exists()
    with locked(path):
        try:
            yield
        finally:
            if new and not holds_memory(path):
                discard(path)


def known_tasks(model: ContinualClassifier, notes: Notes) -> list[str]:
    """Every task that was learnt, as far as it is known."""
    from dgdmn.algorithms.generative import GenerativeClassifier

    if isinstance(model, GenerativeClassifier):
        return list(dict.fromkeys((*model.consolidated_tasks(), *model.awake_tasks())))
    return list(notes.tasks)


def mean_rows(model: ContinualClassifier, notes: Notes) -> int:
    """Rows that a task had so far; 0 where nobody knows."""
    from dgdmn.algorithms.dual import DualClassifier
    from dgdmn.algorithms.generative import GenerativeClassifier

    seen = sum(met.rows for met in notes.tasks.values())
    times = sum(met.times for met in notes.tasks.values())
    if not times and isinstance(model, GenerativeClassifier):
        long_term = model._long_term(model.learnt_)
        seen, times = long_term.age, sum(entry.times for entry in long_term.tasks.values())
        if isinstance(model, DualClassifier):
            short_term = model._dual(model.learnt_).stm
            seen += sum(held.seen for held in short_term.awake)
            times += sum(entry.times for entry in short_term.tasks().values())
    return round(seen / times) if times else 0
