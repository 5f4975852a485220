"""The metrics: matrices worked by hand, the formulas of the paper as loops, and properties."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dgdmn.core.errors import UsageError
from dgdmn.metrics import acc, bwt, last_k, standard_error

A = np.array(
    [
        [0.9, 0.1, 0.2],
        [0.7, 0.8, 0.3],
        [0.4, 0.6, 1.0],
    ]
)
# Tasks 0, 1, 2, then 0 and 1 once more, as in the paper's revision experiment.
REVISED = np.vstack([A, [0.95, 0.5, 0.9], [0.85, 0.75, 0.7]])
REVISED_ORDER = [0, 1, 2, 0, 1]

unit = st.floats(0, 1)
squares = st.integers(1, 6).flatmap(lambda t: arrays(np.float64, (t, t), elements=unit))


def test_acc_is_the_mean_of_the_last_row():
    assert acc(A) == pytest.approx((0.4 + 0.6 + 1.0) / 3)
    assert acc(A[:2]) == pytest.approx((0.7 + 0.8 + 0.3) / 3)
    assert acc(REVISED) == pytest.approx((0.85 + 0.75 + 0.7) / 3)


def test_bwt_counts_the_first_task_and_not_the_last():
    assert bwt(A) == pytest.approx(((0.4 - 0.9) + (0.6 - 0.8)) / 2)
    only_first_changes = A.copy()
    only_first_changes[2, 0] = 0.9
    assert bwt(only_first_changes) == pytest.approx((0.0 + (0.6 - 0.8)) / 2)
    last_task_lower = A.copy()
    last_task_lower[2, 2] = 0.0
    assert bwt(last_task_lower) == bwt(A)


def test_bwt_of_an_unfinished_run_covers_the_tasks_seen():
    assert bwt(A[:2]) == pytest.approx(0.7 - 0.9)


def test_bwt_with_revision_starts_at_the_first_learning_and_skips_the_last_task():
    expected = (
        (0.85 - 0.9) + (0.7 - 1.0)
    ) / 2  # task 0 from row 0, task 2 from row 2, task 1 was last
    assert bwt(REVISED, REVISED_ORDER) == pytest.approx(expected)


def test_one_task_has_no_transfer():
    assert math.isnan(bwt([[0.5]]))
    assert math.isnan(bwt([[0.5], [0.7]], order=[0, 0]))


def test_last_k_of_all_tasks_averages_the_tasks_seen():
    assert last_k(A, 3) == pytest.approx([0.9, 0.75, 2.0 / 3])
    assert last_k(A[:2], 3) == pytest.approx([0.9, 0.75])
    expected = [0.9, 0.75, 2.0 / 3, (0.95 + 0.5 + 0.9) / 3, (0.85 + 0.75 + 0.7) / 3]
    assert last_k(REVISED, 3, REVISED_ORDER) == pytest.approx(expected)


def test_last_k_counts_a_repeated_task_once():
    assert last_k([[0.5, 0.0], [0.6, 0.0], [0.2, 1.0]], 2, order=[0, 0, 1]) == pytest.approx(
        [0.5, 0.6, 0.6]
    )


def test_last_k_averages_the_most_recent_tasks():
    assert last_k(A, 1) == pytest.approx([0.9, 0.8, 1.0])
    assert last_k(A, 2) == pytest.approx([0.9, 0.75, 0.8])
    revised = last_k(REVISED, 2, REVISED_ORDER)
    assert revised[3:] == pytest.approx(
        [(0.9 + 0.95) / 2, (0.85 + 0.75) / 2]
    )  # tasks 2, 0 then 0, 1


def test_standard_error():
    assert standard_error([0.1, 0.2, 0.3]) == pytest.approx(0.1 / math.sqrt(3))
    assert standard_error([0.5, 0.5]) == 0
    assert math.isnan(standard_error([0.5]))


def test_unknown_entries_affect_only_what_uses_them():
    early = A.copy()
    early[0] = np.nan
    assert acc(early) == acc(A)
    assert math.isnan(bwt(early))
    assert np.isnan(last_k(early, 3)).tolist() == [True, False, False]
    late = A.copy()
    late[2, 1] = np.nan
    assert math.isnan(acc(late))


@settings(deadline=None)
@given(squares)
def test_the_default_order_is_the_formula_of_the_paper(matrix):
    T = len(matrix)
    assert acc(matrix) == pytest.approx(sum(matrix[T - 1, i] for i in range(T)) / T)
    if T > 1:
        paper_bwt = sum(matrix[T - 1, i] - matrix[i, i] for i in range(T - 1)) / (T - 1)
        assert bwt(matrix) == pytest.approx(paper_bwt, abs=1e-12)
    for i in range(T):
        assert last_k(matrix, len(matrix))[i] == matrix[i, : i + 1].mean()
        assert last_k(matrix, 2)[i] == matrix[i, max(0, i - 1) : i + 1].mean()


@settings(deadline=None)
@given(squares)
def test_bounds(matrix):
    assert 0 <= acc(matrix) <= 1
    assert np.all((last_k(matrix, len(matrix)) >= 0) & (last_k(matrix, len(matrix)) <= 1))
    assert len(matrix) == 1 or -1 <= bwt(matrix) <= 1


@settings(deadline=None)
@given(st.integers(2, 6), unit)
def test_a_constant_matrix_forgets_nothing(T, value):
    constant = np.full((T, T), value)
    assert bwt(constant) == 0
    assert acc(constant) == pytest.approx(value)
    assert last_k(constant, T) == pytest.approx(np.full(T, value))


@settings(deadline=None)
@given(squares, st.randoms(use_true_random=False))
def test_the_order_of_the_columns_does_not_matter(matrix, random):
    T = len(matrix)
    place = list(range(T))
    random.shuffle(place)  # task j moves to column place[j]
    moved = np.empty_like(matrix)
    moved[:, place] = matrix
    assert acc(moved) == pytest.approx(acc(matrix))
    assert bwt(moved, place) == pytest.approx(bwt(matrix), abs=1e-12, nan_ok=True)
    assert last_k(moved, T, place) == pytest.approx(last_k(matrix, len(matrix)))
    assert last_k(moved, 2, place) == pytest.approx(last_k(matrix, 2))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: acc([0.5, 0.5]), r"shape \(2,\)"),
        (lambda: acc(np.empty((0, 3))), r"shape \(0, 3\)"),
        (lambda: acc([[0.5], [0.5, 0.5]]), "rows of equal length"),
        (lambda: acc([[0.5, 1.5]]), "holds 1.5"),
        (lambda: bwt([[-0.1]]), "holds -0.1"),
        (lambda: acc([[math.inf]]), "holds inf"),
        (lambda: bwt(REVISED), "5 rows for 3 tasks: give order"),
        (lambda: bwt(A, [0, 1]), "order has 2 entries"),
        (lambda: last_k(A, 3, [0, 1, 3]), "order holds 3: give column numbers from 0 to 2"),
        (lambda: last_k(A, 3, [0, -1, 2]), "order holds -1"),
        (lambda: last_k(A, 1, [0, 1, "two"]), "order holds 'two'"),
        (lambda: last_k(A, 0), "k is 0"),
        (lambda: standard_error([]), r"shape \(0,\)"),
    ],
)
def test_wrong_arguments_are_refused_in_one_sentence(call, message):
    with pytest.raises(UsageError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)
