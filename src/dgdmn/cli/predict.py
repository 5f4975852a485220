"""`dgdmn predict`: ask a memory on disk for labels, and who in it answered."""

from __future__ import annotations

import csv
import io
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dgdmn.cli.memories import MemoryPath, known_tasks, opened
from dgdmn.cli.rows import DataPath, arranged, plainly, rows_of
from dgdmn.cli.run import parse
from dgdmn.errors import UsageError, suggestion
from dgdmn.wording import counted, listed

if TYPE_CHECKING:  # torch and numpy wait until the arguments are parsed, so that --help is quick
    from numpy.typing import NDArray

    from dgdmn.algorithms.base import ContinualClassifier


@dataclass(frozen=True)
class Predict:
    """Ask a memory for the label of each row, as csv: row, label, probabilities, which memory answered, known.

    `known` is told where recognition chose the memory, as DGDMN does without --task. A task column in the
    data has no say. Labels in the data give the accuracy.
    """

    memory: MemoryPath
    """The memory, a directory."""
    data: DataPath
    """.npz, .npy or .csv, or a folder of images."""
    out: Path | None = None
    """A csv file; left out, to the terminal."""
    task: str = ""
    """All rows are of this task: the memory that holds it answers."""
    label: str = ""
    """The csv column or npz array with the labels; left out, `label`, in an npz also `y` or `labels`, if there."""
    threads: int = 0
    """torch threads; 0: as many as torch likes."""


def main(arguments: list[str], debug: bool = False) -> int:  # noqa: ARG001
    """Parse, ask, write."""
    args = parse(Predict, arguments, "dgdmn predict")
    from dgdmn.disk import replace

    model, notes = opened(args.memory, args.threads)
    known = known_tasks(model, notes)
    if args.task and known and args.task not in known:
        hint = suggestion(args.task, known)
        raise UsageError(f"{args.memory} knows no task {args.task!r}{hint}; it knows {listed(known)}")
    found = arranged(model, rows_of(args.data, args.label or None), args.data)
    with plainly():
        answers = model.predict_proba(found.X, args.task or None)
        memories, recognised = _answered_by(model, found.X, args.task)
    labels = model.classes_[answers.argmax(axis=1)].tolist()
    columns = ("row", "label", *(f"p({label})" for label in model.classes_.tolist()), "memory", "known")
    lines = [
        (row, label, *(f"{p:.6g}" for p in answer), memory, sure)
        for row, (label, answer, memory, sure) in enumerate(
            zip(labels, answers.tolist(), memories, recognised, strict=True)
        )
    ]
    content = _csv(columns, lines)
    if args.out is None:
        sys.stdout.write(content)
    else:
        replace(args.out, content.encode())
    if found.y is not None:
        right = sum(ours == theirs for ours, theirs in zip(labels, found.y.tolist(), strict=True))
        sys.stderr.write(f"accuracy {right / len(labels):.4f} ({right} of {counted(len(labels), 'row')})\n")
    return 0


def _answered_by(model: ContinualClassifier, X: NDArray[Any], task: str) -> tuple[list[str], list[str]]:
    """The memory that answers for each row and, where recognition chose it, whether it knows the row."""
    from dgdmn.algorithms.dual import DualClassifier
    from dgdmn.algorithms.generative import GenerativeClassifier

    if isinstance(model, DualClassifier) and not (task and model.by_descriptor):
        found = model.recognise(X)
        return found.answered_by.tolist(), ["true" if known else "false" for known in found.known.tolist()]
    name = "long-term memory" if isinstance(model, GenerativeClassifier) else "network"
    if isinstance(model, GenerativeClassifier) and task in model.awake_tasks():
        name = task
    return [name] * len(X), [""] * len(X)


def _csv(columns: tuple[str, ...], lines: list[tuple[Any, ...]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(lines)
    return text.getvalue()
