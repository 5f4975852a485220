"""The vote of the nearest rows against counting by hand."""

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dgdmn.experiments.balance import Labelled
from dgdmn.experiments.judging import VOTERS, Judges, majority


def by_hand(votes):
    """Values in the order of their first vote, and a sort that keeps it."""
    return max(Counter(votes).items(), key=lambda item: (item[1], -votes.index(item[0])))[0]


@given(st.lists(st.lists(st.integers(0, 3), min_size=5, max_size=5), min_size=1, max_size=9))
def test_the_majority_wins_and_a_tie_goes_to_the_nearest(votes):
    assert majority(np.array(votes)).tolist() == [by_hand(row) for row in votes]


def test_labels_may_be_text():
    assert majority(np.array([["b", "a", "a"], ["b", "a", "c"]])).tolist() == ["a", "b"]


def test_verdicts_are_those_of_a_search_in_double_precision():
    rng = np.random.default_rng(0)
    x = rng.random((300, 6, 5), dtype=np.float32)
    y, task = rng.integers(0, 4, 300), rng.integers(0, 3, 300)
    asked = rng.random((600, 6, 5), dtype=np.float32)  # more than one batch
    distances = ((asked[:, None].astype(float) - x[None]) ** 2).sum(axis=(2, 3))
    nearest = distances.argsort(axis=1)[:, :VOTERS]
    labels, tasks = Judges(Labelled(x, y, task)).verdicts(asked)
    assert labels.tolist() == [by_hand(row) for row in y[nearest].tolist()]
    assert tasks.tolist() == [by_hand(row) for row in task[nearest].tolist()]


def test_fewer_rows_than_voters_all_vote():
    rows = Labelled(np.array([[0.0], [1.0], [0.9]], np.float32), np.array([7, 8, 8]), np.array([0, 1, 2]))
    labels, tasks = Judges(rows).verdicts(np.array([[0.1]], np.float32))
    assert (labels.tolist(), tasks.tolist()) == ([8], [0])
