"""The accuracy matrix A -> ACC, BWT, curves (section 2): pure functions, numpy only.

A[i, j] is the accuracy on task j after the i-th training (0-based), in [0, 1], or NaN where it is
unknown. NaN is never skipped: a mean over something unknown is unknown.

`order` says which task (column) each row learned. Without it row i learned task i, as in the paper; a stream
that repeats tasks needs it. A run that is still going on has fewer rows than columns: its BWT, forward
transfer and curves are about the tasks seen so far, its ACC about all columns.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dgdmn.core.errors import UsageError

Matrix = NDArray[np.float64]


def acc(A: ArrayLike) -> float:
    """ACC = 1/T Σ_{j=1..T} A[T, j]: the mean of the last row.

    >>> acc([[1.0, 0.0], [0.5, 1.0]])
    0.75
    """
    return float(np.mean(_matrix(A)[-1]))


def bwt(A: ArrayLike, order: Sequence[int] | None = None) -> float:
    """BWT = 1/(T-1) Σ_{i=1..T-1} A[T, i] − A[i, i]: what learning later tasks did to earlier ones.

    With repeated tasks, A[i, i] is the accuracy on a task right after it was learned for the first time, and
    the sum goes over the tasks seen except the one learned last: nothing was learned after it, so its
    difference is zero by definition, or, if it was learned before, the effect of its own revision. NaN when
    only one task was seen.

    >>> bwt([[1.0, 0.0], [0.5, 1.0]])
    -0.5
    """
    matrix = _matrix(A)
    learned = _learned(matrix, order)
    changes = [
        matrix[-1, task] - matrix[row, task]
        for task, row in _first(learned).items()
        if task != learned[-1]
    ]
    return _mean(changes)


def forward_transfer(
    A: ArrayLike, baseline: ArrayLike, order: Sequence[int] | None = None
) -> float:
    """FWT = 1/(T-1) Σ_{i=2..T} A[i-1, i] − b_i (Lopez-Paz and Ranzato, 2017).

    `baseline` b, one entry a column, is the accuracy of an untrained model. A task counts with the row before
    it was first learned, so the first task does not count; NaN when it is the only one.

    >>> forward_transfer([[1.0, 0.5], [0.5, 1.0]], baseline=[0.25, 0.25])
    0.25
    """
    matrix = _matrix(A)
    b = _numbers("baseline", baseline)
    if b.shape != matrix.shape[1:]:
        raise UsageError(
            f"baseline has shape {b.shape}: give one accuracy for each of {matrix.shape[1]} tasks"
        )
    _check_accuracies("baseline", b)
    first = _first(_learned(matrix, order))
    return _mean([matrix[row - 1, task] - b[task] for task, row in first.items() if row > 0])


def forgetting_curve(A: ArrayLike, order: Sequence[int] | None = None) -> Matrix:
    """For each row i the mean of A[i, :i+1]: average accuracy on the distinct tasks seen so far.

    >>> forgetting_curve([[1.0, 0.0], [0.5, 1.0]]).tolist()
    [1.0, 0.75]
    """
    matrix = _matrix(A)
    return last_k(matrix, matrix.shape[1], order)


def last_k(A: ArrayLike, k: int, order: Sequence[int] | None = None) -> Matrix:
    """For each row i the mean over the last min(k, tasks seen) distinct tasks seen, a repeated one counted
    where it was learned last; the paper's long sequences use k = 10.

    >>> last_k([[1.0, 0.0], [0.5, 1.0]], k=1).tolist()
    [1.0, 1.0]
    """
    if k < 1:
        raise UsageError(f"k is {k}: give the number of last tasks to average over, 1 or more")
    matrix = _matrix(A)
    learned = _learned(matrix, order)
    return np.array([np.mean(row[_recent(learned[: i + 1], k)]) for i, row in enumerate(matrix)])


def standard_error(values: ArrayLike) -> float:
    """s / √n with s² = 1/(n-1) Σ (v − mean)²: the standard error of a mean over seeds; NaN for one value.

    >>> standard_error([1.0, 3.0])
    1.0
    """
    v = _numbers("values", values)
    if v.ndim != 1 or v.size == 0:
        raise UsageError(f"values have shape {v.shape}: give a flat list of at least one number")
    return float(np.std(v, ddof=1) / math.sqrt(v.size)) if v.size > 1 else math.nan


def _matrix(A: ArrayLike) -> Matrix:
    matrix = _numbers("accuracy matrix", A)
    if matrix.ndim != 2 or matrix.size == 0:
        raise UsageError(
            f"accuracy matrix has shape {matrix.shape}: give rows × tasks, at least 1 × 1"
        )
    _check_accuracies("accuracy matrix", matrix)
    return matrix


def _numbers(name: str, values: ArrayLike) -> Matrix:
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise UsageError(
            f"{name} is not a regular array of numbers: give rows of equal length"
        ) from None


def _check_accuracies(name: str, values: Matrix) -> None:
    wrong = values[(values < 0) | (values > 1)]
    if wrong.size:
        raise UsageError(f"{name} holds {wrong[0]}: accuracies are in [0, 1], or NaN where unknown")


def _learned(matrix: Matrix, order: Sequence[int] | None) -> list[int]:
    """The column that each row learned."""
    rows, columns = matrix.shape
    if order is None:
        if rows > columns:
            raise UsageError(
                f"accuracy matrix has {rows} rows for {columns} tasks: give order, the column each row learned"
            )
        return list(range(rows))
    if len(order) != rows:
        raise UsageError(f"order has {len(order)} entries: give one column for each of {rows} rows")
    for task in order:
        if not isinstance(task, int | np.integer) or not 0 <= task < columns:
            raise UsageError(f"order holds {task!r}: give column numbers from 0 to {columns - 1}")
    return [int(task) for task in order]


def _first(learned: Sequence[int]) -> dict[int, int]:
    """For each task seen the row at which it was first learned."""
    return {task: learned.index(task) for task in dict.fromkeys(learned)}


def _recent(learned: Sequence[int], k: int) -> list[int]:
    """The k distinct tasks learned most recently, in the order of the columns."""
    return sorted(list(dict.fromkeys(reversed(learned)))[:k])


def _mean(values: Sequence[float]) -> float:
    # numpy warns about the mean of nothing; here it is an answer: not defined.
    return float(np.mean(values)) if values else math.nan
