"""The accuracy matrix A -> ACC, BWT, curves (section 2): pure functions, numpy only.

A[i, j] is the accuracy on task j after the i-th training (0-based), in [0, 1], or NaN where it is
unknown. NaN is never skipped: a mean over something unknown is unknown.

`order` gives, for each row, the task (column) learned before it. Without it that is task i for row i; a stream
that repeats tasks needs it. A run that is still going on has fewer rows than columns: its BWT and curves are
about the tasks seen so far, its ACC about all columns.
"""

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dgdmn.core.errors import UsageError

Matrix = NDArray[np.float64]
Order = Sequence[int] | None


def acc(A: ArrayLike) -> float:
    """ACC = 1/T Σ_{j=1..T} A[T, j]: the mean of the last row.

    >>> acc([[1.0, 0.0], [0.5, 1.0]])
    0.75
    """
    return float(np.mean(_matrix(A)[-1]))


def bwt(A: ArrayLike, order: Order = None) -> float:
    """BWT = 1/(T-1) Σ_{i=1..T-1} A[T, i] − A[i, i]: what learning later tasks did to earlier ones.

    With repeated tasks, A[i, i] is the accuracy on a task right after it was learned for the first time, and
    the sum goes over the tasks seen except the one learned last: nothing was learned after it, so its
    difference is zero by definition, or, if it was learned before, the effect of its own revision. NaN when
    only one task was seen.

    >>> bwt([[1.0, 0.0], [0.5, 1.0]])
    -0.5
    """
    matrix, learned = _ordered(A, order)
    earlier = dict.fromkeys(task for task in learned if task != learned[-1])
    changes = [matrix[-1, task] - matrix[learned.index(task), task] for task in earlier]
    # Undefined for fewer than two tasks; np.mean([]) would warn.
    return float(np.mean(changes)) if changes else math.nan


def last_k(A: ArrayLike, k: int, order: Order = None) -> Matrix:
    """For each row i the mean over the last min(k, tasks seen) distinct tasks seen, a repeated one counted
    where it was learned last; the paper's long sequences use k = 10, its forgetting curves all tasks.

    >>> last_k([[1.0, 0.0], [0.5, 1.0]], k=1).tolist()
    [1.0, 1.0]
    """
    if k < 1:
        raise UsageError(f"k is {k}: give the number of last tasks to average over, 1 or more")
    matrix, learned = _ordered(A, order)
    recent = [list(dict.fromkeys(learned[i::-1]))[:k] for i in range(len(matrix))]
    return np.array([np.mean(matrix[i, sorted(tasks)]) for i, tasks in enumerate(recent)])


def standard_error(values: ArrayLike) -> float:
    """s / √n with s² = 1/(n-1) Σ (v − mean)²: the standard error of a mean over seeds; NaN for one value.

    >>> standard_error([1.0, 3.0])
    1.0
    """
    advice = "give a flat list of at least one number"
    v = _numbers("list of values", values, 1, advice, unit=False)
    return float(np.std(v, ddof=1) / math.sqrt(v.size)) if v.size > 1 else math.nan


def expected_calibration_error(p: ArrayLike, y: ArrayLike, bins: int = 15) -> float:
    """Σ_b n_b / n |accuracy_b − confidence_b| over bins of equal width of the largest probability.

    `p` has one row per sample, `y` the column of its class (Guo et al., 2017).

    >>> expected_calibration_error([[0.75, 0.25], [0.75, 0.25]], [0, 1])
    0.25
    """
    probabilities = _numbers("p", p, 2, "give rows × classes, at least 1 × 1")
    n = len(probabilities)
    right = np.asarray(y)
    if right.shape != (n,):
        raise UsageError(f"y has shape {right.shape}: give one column number for each of {n} rows")
    confidence = probabilities.max(axis=1)
    hits = probabilities.argmax(axis=1) == right
    place = np.clip(np.ceil(confidence * bins).astype(int) - 1, 0, bins - 1)
    gaps = np.bincount(place, weights=hits - confidence, minlength=bins)
    return float(np.abs(gaps).sum() / n)


def count_right(right: ArrayLike, groups: Iterable[str]) -> dict[str, list[int]]:
    """How many answers are right, and how many rows there are, in each group.

    >>> count_right([True, False, True], ["a", "a", "b"])
    {'a': [1, 2], 'b': [1, 1]}
    """
    found: dict[str, list[int]] = {}
    for hit, group in zip(np.asarray(right, dtype=int).tolist(), groups, strict=True):
        counts = found.setdefault(group, [0, 0])
        counts[0] += hit
        counts[1] += 1
    return dict(sorted(found.items()))


def macro_accuracy(by_class: Mapping[str, Sequence[int]]) -> float:
    """The mean accuracy of the classes, each counted once however many rows it has.

    >>> macro_accuracy({"often": [90, 90], "rare": [5, 10]})
    0.75
    """
    return float(np.mean([right / rows for right, rows in by_class.values()]))


def _matrix(A: ArrayLike) -> Matrix:
    return _numbers("accuracy matrix", A, 2, "give rows × tasks, at least 1 × 1")


def _numbers(name: str, values: ArrayLike, ndim: int, advice: str, *, unit: bool = True) -> Matrix:
    """The values, in [0, 1] if `unit`, as an array that has this many axes and is not empty."""
    try:
        numbers = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        advice = "give rows of equal length"
        raise UsageError(f"{name} is not a regular array of numbers: {advice}") from None
    if numbers.ndim != ndim or not numbers.size:
        raise UsageError(f"{name} has shape {numbers.shape}: {advice}")
    wrong = numbers[(numbers < 0) | (numbers > 1)]
    if unit and wrong.size:
        raise UsageError(f"{name} holds {wrong[0]}: accuracies are in [0, 1], or NaN where unknown")
    return numbers


def _ordered(A: ArrayLike, order: Order) -> tuple[Matrix, list[int]]:
    """The matrix, and the column that each of its rows learned."""
    matrix = _matrix(A)
    rows, columns = matrix.shape
    if order is None and rows > columns:
        problem = f"accuracy matrix has {rows} rows for {columns} tasks"
        raise UsageError(f"{problem}: give order, the task (column) learned before each row")
    order = range(rows) if order is None else order
    if len(order) != rows:
        raise UsageError(f"order has {len(order)} entries: give one column for each of {rows} rows")
    for task in order:
        if not isinstance(task, int | np.integer) or not 0 <= task < columns:
            raise UsageError(f"order holds {task!r}: give column numbers from 0 to {columns - 1}")
    return matrix, [int(task) for task in order]
