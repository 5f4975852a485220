"""The accuracy matrices as csv: one line a row, so that a torn last line can be told from a whole one."""

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dgdmn.disk import os_errors
from dgdmn.errors import DgdmnError


@dataclass(frozen=True)
class Row:
    """The accuracies on all tasks, recorded when `step` tasks were learnt, `after` being the last."""

    step: int
    after: str
    values: tuple[float, ...]

    def cells(self) -> list[str]:
        """Its csv cells: `repr` keeps every bit, NaN is empty."""
        return [str(self.step), self.after, *("" if math.isnan(v) else repr(v) for v in self.values)]


def header(tasks: Sequence[str]) -> list[str]:
    """The first line of a matrix."""
    return ["step", "after", *tasks]


def csv_bytes(*rows: Sequence[str]) -> bytes:
    """The lines of a csv file."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()


def read_rows(path: Path, tasks: tuple[str, ...]) -> list[Row]:
    """The whole lines of a matrix, in the order written; none where there is no file."""
    whole = _whole_lines(path)
    try:
        lines = list(csv.reader(whole.decode().split("\n")[:-1], strict=True))
        if lines and lines[0] != header(tasks):
            raise ValueError("its header does not name the tasks of config.json")
        return [_parse_row(number, cells, tasks) for number, cells in enumerate(lines[1:], start=2)]
    except (ValueError, csv.Error) as error:
        raise DgdmnError(f"{path} is damaged: {error}; restore it or run it again") from error


def _parse_row(number: int, cells: Sequence[str], tasks: tuple[str, ...]) -> Row:
    try:
        step, after, *values = cells
        row = Row(int(step), after, tuple(float(cell) if cell else math.nan for cell in values))
    except ValueError:
        raise ValueError(f"line {number} is not a step, a task and numbers") from None
    if row.step < 1 or after not in tasks or len(values) != len(tasks):
        raise ValueError(f"line {number} does not fit the {len(tasks)} tasks of config.json")
    return row


def _whole_lines(path: Path) -> bytes:
    # Without its line break the last line may lack digits even where it has all its cells.
    if not path.exists():
        return b""
    with os_errors("read", path):
        content = path.read_bytes()
    return content[: content.rfind(b"\n") + 1]


def by_step(path: Path, tasks: tuple[str, ...]) -> dict[int, Row]:
    """The row that counts for each step, by step."""
    rows = {row.step: row for row in read_rows(path, tasks)}  # the last row of a step wins
    return dict(sorted(rows.items()))


def stack(rows: Mapping[int, Row], steps: int, tasks: int) -> NDArray[np.float64]:
    """Rows as an array (steps, tasks), NaN where a step has none; later steps are left out."""
    matrix = np.full((steps, tasks), np.nan)
    for step, row in rows.items():
        if step <= steps:
            matrix[step - 1] = row.values
    return matrix
