"""The curves of the paper's figures, from runs: what the page and the files both draw."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from dgdmn import metrics, paper
from dgdmn.report.entries import TOGETHER, Entry, mean_curve
from dgdmn.report.runs import Run

MOST_LINES = 50
"""Tasks drawn as a line of their own; of more, as many are drawn, evenly chosen."""


@dataclass(frozen=True)
class TaskCurve:
    """The accuracy on one task, from when it was first learnt."""

    task: str
    number: int
    """Its column, from 0."""
    steps: tuple[int, ...]
    """Tasks seen, from 1."""
    values: tuple[float, ...]


def task_curves(entry: Entry, *, ltm: bool = False) -> tuple[TaskCurve, ...]:
    """Accuracy of each task after each task, the mean over seeds; of the long-term memory alone if asked."""
    runs = [run for run in entry.runs if len(run.accuracy) and (run.accuracy_ltm is not None or not ltm)]
    longest = max(runs, key=lambda run: len(run.accuracy), default=None)
    if longest is None:
        return ()
    return tuple(
        _task_curve(runs, longest, column, ltm) for column in _chosen(list(dict.fromkeys(longest.columns)))
    )


def _task_curve(runs: list[Run], longest: Run, column: int, ltm: bool) -> TaskCurve:
    first = longest.columns.index(column)
    matrices = [run.accuracy_ltm if ltm and run.accuracy_ltm is not None else run.accuracy for run in runs]
    values = mean_curve([matrix[first:, column] for matrix in matrices if len(matrix) > first])
    steps = tuple(range(first + 1, first + 1 + len(values)))
    return TaskCurve(longest.tasks[column], column, steps, values)


def _chosen(columns: list[int]) -> list[int]:
    if len(columns) <= MOST_LINES:
        return columns
    return [columns[i] for i in np.linspace(0, len(columns) - 1, MOST_LINES).round().astype(int)]


def has_ltm_curves(entry: Entry) -> bool:
    """Whether the long-term memory alone ever answers otherwise than the whole memory."""
    return any(
        run.accuracy_ltm is not None and not np.array_equal(run.accuracy, run.accuracy_ltm, equal_nan=True)
        for run in entry.runs
    )


def forgetting(entry: Entry, *, last: int = 0, ltm: bool = False) -> tuple[float, ...]:
    """Mean accuracy on the tasks seen, or on the last so many of them, the mean over seeds."""
    curves = []
    for run in entry.runs:
        matrix = run.accuracy_ltm if ltm else run.accuracy
        if matrix is not None and len(matrix):
            curves.append(metrics.last_k(matrix, last or len(run.tasks), run.columns))
    return mean_curve(curves)


def training_time(entry: Entry) -> tuple[float, ...]:
    """Seconds of learning and sleeping until each task, the mean over seeds."""
    return mean_curve([run.timeline.trained for run in entry.runs if run.timeline.trained])


def sleeps(entry: Entry) -> tuple[int, ...]:
    """The steps after which the first run had slept."""
    return entry.first.timeline.sleeps


_PUBLISHED = {"average": ("{}_avg_v1", "{}_avg_acc"), "last10": ("{}_last10",), "time": ("{}_time_s",)}


JOINTLY = {"ltm": "dgr", "nn": "joint"}
"""The paper's series under noise and occlusion, and the algorithm that is the same, trained with all tasks together."""


def published_resilience(entries: Sequence[Entry], kind: str) -> list[tuple[Entry, str, paper.Curve]]:
    """The paper's series under `noise` or `occlusion`, each beside the entry that it can be compared with."""
    together = {
        entry.algorithm: entry
        for entry in entries
        if entry.first.dataset == "digits" and entry.setting == TOGETHER
    }
    return [
        (together[name], series, paper.curve(kind)) for series, name in JOINTLY.items() if name in together
    ]


def published_time(dataset: str, entries: Sequence[Entry]) -> paper.Curve | None:
    """The paper's training times in seconds of our machine: DGR's last is ours; None where that is not known."""
    curve = published(dataset, "time")
    ours = [training_time(entry) for entry in entries if entry.algorithm == "dgr" and not entry.setting]
    if curve is None or not ours or not 0 < len(ours[0]) <= len(curve.x):
        return None
    scale = ours[0][-1] / curve.series["dgr"][len(ours[0]) - 1]
    scaled = {name: tuple(scale * value for value in values) for name, values in curve.series.items()}
    return replace(curve, series=scaled) if 0 < scale < math.inf else None


def published(dataset: str, what: str) -> paper.Curve | None:
    """The paper's curves on a dataset: `average` accuracy, on the `last10` tasks, or training `time`."""
    known = paper.curve_names()
    found = [name.format(dataset) for name in _PUBLISHED[what] if name.format(dataset) in known]
    return paper.curve(found[0]) if found else None
