"""The paper's two tables with ours in each cell, and what must be said of a cell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from dgdmn import paper
from dgdmn.report.colours import display_name
from dgdmn.report.reproducibility.goals import BASELINES, DATASETS
from dgdmn.report.reproducibility.not_learnt import listed
from dgdmn.report.reproducibility.numbers import Shelf, acc, bwt, mean, said, short, table, values
from dgdmn.report.reproducibility.reasons import below
from dgdmn.report.reproducibility.verdicts import Verdict, judge
from dgdmn.report.words import dataset_name

Metric = Literal["acc", "bwt"]
ROWS = (*BASELINES, "dgr", "dgdmn", "joint")
TASKS = {"digits": 10, "permnist": 6, "shapes": 6, "hindi": 8}
_WHY_NOT = (
    "; for DGR's last digit docs/LOG.md has a likely cause; Joint, too, misses shapes with many corners"
)
HARDLY = 0.85
"""Mean accuracy on a task right after it was learnt below which an algorithm has not learnt some of them."""


@dataclass(frozen=True)
class Cell:
    """One number of a table."""

    dataset: str
    algorithm: str
    ours: tuple[float, ...]
    """A value for each seed."""
    published: float | None
    learnt: float
    """Our mean accuracy on a task right after it was learnt; NaN without runs."""

    @property
    def verdict(self) -> Verdict:
        """Ours beside the paper's."""
        return judge(self.ours, self.published)

    @property
    def name(self) -> str:
        """What people call it."""
        return f"{display_name(self.algorithm)} on {dataset_name(self.dataset)}"


def cell(shelf: Shelf, metric: Metric, dataset: str, algorithm: str) -> Cell:
    """Ours and the paper's."""
    found = shelf.find(dataset, algorithm)
    published = paper.published(algorithm, dataset)
    return Cell(
        dataset,
        algorithm,
        tuple(values(found, acc if metric == "acc" else bwt)),
        getattr(published, metric) if published else None,
        mean([one.run.learnt for one in found]),
    )


def metric_table(shelf: Shelf, metric: Metric) -> str:
    """A table of the paper: in each cell ours (seeds), the paper's, the verdict."""
    cells = [[cell(shelf, metric, dataset, name) for dataset in DATASETS] for name in ROWS]
    head = ["", *(dataset_name(dataset) + ("¹" if dataset == "shapes" else "") for dataset in DATASETS)]
    body = table(head, [[display_name(row[0].algorithm), *map(_text, row)] for row in cells])
    compared = (
        (one.name, one.ours, one.published, (metric, one.dataset, one.algorithm))
        for row in cells
        for one in row
    )
    parts = [body, _shapes_note(shelf), below(compared)]
    if metric == "bwt":
        parts.append(_never_learnt(shelf))
    return "\n\n".join(part for part in parts if part)


def _text(one: Cell) -> str:
    if one.verdict.kind == "not run yet":
        return f"not run yet; paper {short(one.published)}" if one.published is not None else "not run yet"
    theirs = f"; paper {short(one.published)}; {one.verdict}" if one.published is not None else ""
    return f"**{said(one.ours)}**{theirs}"


def _shapes_note(shelf: Shelf) -> str:
    notes = dict.fromkeys(
        note for one in shelf.results if one.run.dataset == "shapes" and (note := one.run.text("note"))
    )
    said_so = "; ".join(notes) or "no run yet, so nothing to say of its data"
    return f"¹ Shapes: {said_so}. Joint, on the same data, is its ceiling."


def published_learnt(algorithm: str, dataset: str) -> tuple[float, float] | None:
    """The paper's mean accuracy on a task right after it was learnt, but for the last: from and to, by ACC and BWT.

    BWT = mean of A[T, i] − A[i, i] over i < T, and T · ACC = A[T, T] + their sum; of the last task, just learnt,
    nothing is known but that A[T, T] lies between 0 and 1.

    >>> [round(bound, 3) for bound in published_learnt("ppr", "digits")]
    [0.444, 0.555]
    """
    known = paper.published(algorithm, dataset)
    if known is None or dataset not in TASKS:
        return None
    tasks = TASKS[dataset]
    others = (max(0.0, tasks * known.acc - 1) / (tasks - 1), tasks * known.acc / (tasks - 1))
    least, most = (min(1.0, bound - known.bwt) for bound in others)
    return least, most


def _never_learnt(shelf: Shelf) -> str:
    """Where BWT looks good because there was nothing to forget."""
    lines = []
    for dataset in DATASETS:
        for algorithm in ROWS:
            one = cell(shelf, "bwt", dataset, algorithm)
            theirs = published_learnt(algorithm, dataset)
            hardly = [
                *([f"ours ({short(one.learnt, 2)})"] if one.learnt < HARDLY else []),
                *([f"the paper's ({_range(*theirs)})"] if theirs and theirs[1] < HARDLY else []),
            ]
            if hardly:
                lines.append(f"- {one.name}: {' and '.join(hardly)}")
    missed = listed(shelf, DATASETS, ROWS, _WHY_NOT)
    if not lines:
        return missed
    head = (
        "Who never learns has nothing to forget. These did not learn some of the tasks in the first place, so their "
        "BWT looks better than it is (in brackets the mean accuracy on a task right after it was learnt; of the "
        "paper's, ACC and BWT give the bounds):"
    )
    return "\n\n".join(part for part in (head, "\n".join(lines), missed) if part)


def _range(least: float, most: float) -> str:
    return f"{short(least, 2)} to {short(most, 2)}"
