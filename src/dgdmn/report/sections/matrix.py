"""Section 3: the accuracy matrices as heat maps."""

import math
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from dgdmn.report.colours import HEAT_STEPS
from dgdmn.report.entries import Dataset
from dgdmn.report.runs import Run
from dgdmn.report.words import short

MOST_CELLS = 4_000
"""Cells of a matrix that a page has room for; a larger one is left to its csv file."""
MOST_OF_ALL = 60_000
"""Cells of all matrices of a dataset; of more, each algorithm shows its lowest seed only."""


@dataclass(frozen=True)
class Heatmap:
    """The matrices of one run."""

    name: str
    note: str
    tables: tuple[tuple[str, Markup], ...]
    """A caption and a table for each matrix."""


def heatmaps(dataset: Dataset) -> tuple[Heatmap, ...]:
    """The matrices of each run that has a row, or of each algorithm's lowest seed where they are many."""
    runs = [run for run in dataset.runs if len(run.accuracy)]
    if sum(run.accuracy.size for run in runs) > MOST_OF_ALL:
        lowest = {entry.first.name for entry in dataset.entries}
        runs = [run for run in runs if run.name in lowest]
    return tuple(map(_heatmap, runs))


def _heatmap(run: Run) -> Heatmap:
    if run.accuracy.size > MOST_CELLS:
        rows, columns = run.accuracy.shape
        return Heatmap(run.name, f"{rows} × {columns} cells are too many for a page: see accuracy.csv.", ())
    tables = [("The whole memory", heat_table(run, run.accuracy))]
    if run.accuracy_ltm is not None and not np.array_equal(run.accuracy, run.accuracy_ltm, equal_nan=True):
        tables.append(("The long-term memory alone", heat_table(run, run.accuracy_ltm)))
    return Heatmap(run.name, "" if run.complete else "This run has not ended.", tuple(tables))


def heat_table(run: Run, matrix: NDArray[np.float64]) -> Markup:
    """A as a table: a row after each task, a column for each task; end tags that HTML can do without are left out."""
    head = Markup("").join(Markup("<th scope=col>{}").format(short(task, 16)) for task in run.tasks)
    body = Markup("").join(
        Markup("<tr><th scope=row>{}. {}{}").format(
            step, short(run.tasks[run.columns[step - 1]], 16), _cells(row, run.columns[step - 1])
        )
        for step, row in enumerate(matrix, start=1)
    )
    return Markup("<table class=heat><thead><tr><th scope=col>after{}<tbody>{}</table>").format(head, body)


def _cells(row: NDArray[np.float64], learnt: int) -> Markup:
    return Markup(
        "".join(
            f'<td class="{heat_class(value)}{" now" if column == learnt else ""}">{_percent(value)}'
            for column, value in enumerate(row)
        )
    )


def heat_class(value: float) -> str:
    """The class of a cell's colour.

    >>> heat_class(0.0), heat_class(0.84), heat_class(float("nan"))
    ('h0', 'h17', 'hn')
    """
    return f"h{round(value * HEAT_STEPS)}" if math.isfinite(value) else "hn"


def _percent(value: float) -> str:
    if not math.isfinite(value):
        return "–"
    return f"{value:.2f}".removeprefix("0") if value < 0.995 else "1.0"
