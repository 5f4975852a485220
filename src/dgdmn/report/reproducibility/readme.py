"""The README's own table: the average accuracy of ours with the paper's beside it, between two marks."""

from __future__ import annotations

from collections.abc import Sequence

from dgdmn.report.colours import display_name
from dgdmn.report.reproducibility.cells import ROWS, cell
from dgdmn.report.reproducibility.collected import Result
from dgdmn.report.reproducibility.goals import DATASETS
from dgdmn.report.reproducibility.numbers import BEST, Shelf, acc, said, short, table, values
from dgdmn.report.words import dataset_name

BEGIN, END = "<!-- results: written by `dgdmn reproduce --draw-only` -->", "<!-- end of results -->"
"""What stands before and after the table."""


def with_results(readme: str, results: Sequence[Result]) -> str:
    """The README with the table that follows from these results; as it is where it has no marks."""
    before, begin, rest = readme.partition(BEGIN)
    _, end, after = rest.partition(END)
    return f"{before}{BEGIN}\n{summary(Shelf(tuple(results)))}\n{END}{after}" if begin and end else readme


def summary(shelf: Shelf) -> str:
    """ACC of each algorithm on the paper's four datasets: ours, seeds in brackets, and the paper's."""
    rows = [[_name(name), *(_text(shelf, dataset, name) for dataset in DATASETS)] for name in ROWS]
    beyond = ["**DGDMN, `best`**", *(_best(shelf, dataset) for dataset in DATASETS)]
    return table(["", *map(dataset_name, DATASETS)], [*rows[:-1], beyond, rows[-1]])


def _name(algorithm: str) -> str:
    name = display_name(algorithm)
    return f"**{name}**" if algorithm == "dgdmn" else name


def _text(shelf: Shelf, dataset: str, algorithm: str) -> str:
    one = cell(shelf, "acc", dataset, algorithm)
    theirs = "" if one.published is None else f"; paper {short(one.published)}"
    return f"{said(one.ours)}{theirs}"


def _best(shelf: Shelf, dataset: str) -> str:
    return f"**{said(found)}**" if (found := values(shelf.find(dataset, "dgdmn", BEST), acc)) else "–"
