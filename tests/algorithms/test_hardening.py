"""Attacks on estimators: ranges that are rows, labels that merge, two calls at once, failed first calls."""

import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dgdmn import DGDMN, NN, load
from dgdmn.algorithms.scaling import Scaling
from dgdmn.core.errors import UsageError
from dgdmn.testing import find_rows

X = np.random.default_rng(0).uniform(0, 10, (8, 3))
SMALL = {"learner_layers": (4,), "min_steps": 2}

finite = st.floats(-1e6, 1e6, allow_nan=False, width=32)


@settings(max_examples=200, deadline=None)
@given(
    rows=arrays(np.float32, st.tuples(st.integers(1, 4), st.integers(2, 5)), elements=finite),
    repeats=st.integers(1, 3),
)
def test_the_range_of_a_first_task_is_never_a_row(rows, repeats):
    """Identical rows, one dominating row of two, one extreme row: none is the range (D4)."""
    table = np.repeat(rows, repeats, axis=0)
    scaling = Scaling.fit(table, None)
    if (scaling.low == 0).all() and (scaling.high == 1).all():
        return  # values in [0, 1] are not scaled
    assert find_rows(scaling, table) == []
    assert not scaling.clips(table)


@pytest.mark.parametrize(
    "table",
    [
        np.tile([3.5, -7.0, 120.0], (6, 1)),
        np.array([[9.0, 8.0, 7.0], [1.0, 2.0, 3.0]]),
        np.vstack([[51.0, 52.0, 53.0], np.full((5, 3), 2.0)]),
        np.array([[1e300, 2e300], [1e300, 2e300]]),
    ],
)
def test_no_row_is_in_the_object_or_on_disk(table, tmp_path):
    model = NN("deep", random_state=0, **SMALL).partial_fit(table, np.arange(len(table)) % 2)
    model.save(tmp_path / "memory")
    loaded = load(tmp_path / "memory")
    with np.errstate(over="ignore"):
        assert find_rows(model, table) == find_rows(loaded, table) == []


@pytest.mark.parametrize(
    "labels",
    [
        ["a", "a\0"],
        [2**53, 2**53 + 1, 0.5],
        [2**63 + 1, -1],
        ["a", "\ud800"],
        [float("inf"), 1.0],
        ["a", 1],
    ],
)
def test_labels_that_an_array_would_merge_are_refused(labels):
    """A class must not be lost silently (D11)."""
    y = [labels[n % len(labels)] for n in range(8)]
    with pytest.raises((UsageError, ValueError)) as raised:
        NN("deep", **SMALL).partial_fit(X, y)
    assert "\n" not in str(raised.value)


def test_labels_of_a_later_call_are_kept_apart_too():
    model = NN("deep", **SMALL).partial_fit(X, [2**53 + 1] * 8)
    with pytest.raises(UsageError, match="not distinct"):
        model.partial_fit(X, np.array([1.0, 2.0] * 4))
    assert model.partial_fit(X, [2**53] * 8).classes_.tolist() == [2**53, 2**53 + 1]


def test_dates_are_refused_in_one_sentence():
    with pytest.raises(UsageError, match="dates and times must be made numbers"):
        NN("deep", **SMALL).partial_fit(X.astype("datetime64[s]"), [0, 1] * 4)


def test_a_second_call_that_learns_is_refused_and_loses_nothing():
    """Two threads, or a callback, cannot lose a task silently (D13)."""
    inside, go_on = threading.Event(), threading.Event()

    def wait(_):
        inside.set()
        assert go_on.wait(10)

    model = DGDMN("deep", min_steps=2, random_state=0, callback=wait)
    thread = threading.Thread(target=lambda: model.partial_fit(X, [0] * 8, task="a"))
    thread.start()
    assert inside.wait(10)
    with pytest.raises(UsageError, match="learning in another call"):
        model.partial_fit(X, [1] * 8, task="b")
    go_on.set()
    thread.join()
    model.partial_fit(X, [1] * 8, task="b")
    assert sorted((*model.awake_tasks(), *model.consolidated_tasks())) == ["a", "b"]


def test_a_failed_first_call_leaves_a_given_random_state_as_it_was():
    source = np.random.RandomState(0)
    model = NN("deep", random_state=source, **SMALL)
    with pytest.raises(UsageError):
        model.set_params(value_range=(3, 1)).partial_fit(X, [0, 1] * 4)
    assert source.randint(2**31) == np.random.RandomState(0).randint(2**31)
