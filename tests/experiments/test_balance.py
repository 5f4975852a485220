"""Rows in equal parts: what is chosen, counted by hand."""

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dgdmn.experiments.balance import balanced, stacked
from dgdmn.streams import Rows


def rows_of(sizes):
    """A task for each list, a class for each size in it; every row has a value of its own."""
    parts, start = {}, 0
    for number, counts in enumerate(sizes):
        y = np.repeat(np.arange(len(counts)), counts)
        parts[f"task {number}"] = Rows(np.arange(start, start + len(y))[:, None], y)
        start += len(y)
    return parts


def test_tasks_are_stacked_one_after_the_other():
    rows = stacked(rows_of([[2, 1], [2]]))
    assert rows.x.ravel().tolist() == [0, 1, 2, 3, 4]
    assert rows.y.tolist() == [0, 0, 1, 0, 0]
    assert rows.task.tolist() == [0, 0, 0, 1, 1]


@given(
    st.lists(st.lists(st.integers(1, 9), min_size=1, max_size=4), min_size=1, max_size=4),
    st.integers(1, 9),
    st.integers(16, 60),
)
def test_every_class_of_every_task_gives_as_many_rows_as_it_can(sizes, each, most):
    parts = rows_of(sizes)
    rows = balanced(parts, each, most, np.random.default_rng(0))
    share = min(each, most // sum(map(len, sizes)))
    expected = {(t, y): min(n, share) for t, counts in enumerate(sizes) for y, n in enumerate(counts)}
    assert Counter(zip(rows.task.tolist(), rows.y.tolist(), strict=True)) == expected
    assert len(rows.x) <= most
    whole = stacked(parts)
    chosen = rows.x.ravel()
    assert len(set(chosen.tolist())) == len(chosen), "no row twice"
    assert (whole.y[chosen] == rows.y).all()
    assert (whole.task[chosen] == rows.task).all()


def test_the_generator_chooses():
    parts = rows_of([[50]])
    chosen = [balanced(parts, 9, 9, np.random.default_rng(seed)).x.ravel().tolist() for seed in (0, 0, 1)]
    assert chosen[0] == chosen[1]
    assert sorted(chosen[0]) != sorted(chosen[2])
