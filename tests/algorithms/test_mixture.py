"""Estimators with the mixture memory: exact in any order, any data, budgets, forget, merge, files, attacks."""

import copy
import errno
import itertools
import os
import pickle
import re
import subprocess
import sys
import time
import warnings
from functools import reduce
from operator import getitem
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dgdmn
from dgdmn import DGDMN, DGR, DGDMNRecog, load, merge, storage
from dgdmn.algorithms.dgdmn import LONG_TERM
from dgdmn.config import resolve, to_dict
from dgdmn.config.registry import STREAMS
from dgdmn.core.errors import DgdmnError, UsageError
from dgdmn.testing import find_rows

FIXED = {"shrinkage": 0.03, "own_covariance": 0.5}
"""λ and g are history; with equal ones the answers are exact."""


def blobs(d, n_classes=3, n=20, seed=0, spread=1.0):
    """Rows of classes around different means."""
    rng = np.random.default_rng(seed)
    means = np.random.default_rng(1_000 + d).standard_normal((n_classes, d)) * 3
    y = np.arange(n * n_classes) % n_classes
    return means[y] + spread * rng.standard_normal((len(y), d)), y


def images(n_classes=3, n=8, seed=0, side=12):
    rng = np.random.default_rng(seed)
    patterns = np.random.default_rng(7).uniform(size=(n_classes, side, side))
    y = np.arange(n * n_classes) % n_classes
    noise = rng.uniform(-0.3, 0.3, (len(y), side, side))
    return np.clip(patterns[y] + noise, 0, 1).astype(np.float32), y


def learned(tasks, kind=DGDMN, asleep=True, **options):
    """A model that learned tasks (name, X, y) in turn."""
    model = kind(**{**FIXED, "random_state": 0, **options})
    for name, X, y in tasks:
        model.partial_fit(X, y, task=name)
    return model.sleep() if asleep else model


def one_class_each(X, y):
    return [(f"t{label}", X[y == label], y[y == label]) for label in np.unique(y).tolist()]


def long_term(model):
    return model.fitted_.memory.ltm


def assert_same_sums(one, other, relative=1e-10):
    """Counts are equal; means and scatters to 1e-10 of their size."""
    found = []
    for model in (one, other):
        labels, memory = model.fitted_.labels, long_term(model)
        found.append({(c.task, labels[c.label]): c for c in memory.components})
    assert found[0].keys() == found[1].keys()
    assert long_term(one).pool.n == long_term(other).pool.n
    pairs = [(long_term(one).pool.scatter, long_term(other).pool.scatter)]
    pairs += [(long_term(one).pool.total.scatter, long_term(other).pool.total.scatter)]
    for key, ours in found[0].items():
        theirs = found[1][key]
        assert ours.n == theirs.n
        pairs += [(ours.mean, theirs.mean), (ours.scatter, theirs.scatter)]
    for a, b in pairs:
        np.testing.assert_allclose(a, b, rtol=relative, atol=relative * np.abs(a).max(initial=0))


def assert_same_answers(one, other, X, moved=None, within=1e-6):
    """The same labels, but where the scores of the two best are within 1e-6."""
    ours, theirs = one.predict_proba(X), other.predict_proba(X if moved is None else moved)
    assert one.classes_.tolist() == other.classes_.tolist()
    top = np.sort(ours, axis=1)
    sure = top[:, -1] > top[:, -2] * (1 + within) if ours.shape[1] > 1 else np.ones(len(X), bool)
    assert np.array_equal(ours.argmax(axis=1)[sure], theirs.argmax(axis=1)[sure])


FRONTS = {
    "gabor": (images(4, 6), {}),
    "relu": (blobs(3, 4, 6), {"scale": (0.0, 2.0)}),
    "none": (blobs(70, 4, 6), {}),
    "wide": (blobs(300, 4, 6), {"code_dim": 40}),
}
TASKS = {"a": (0, 1), "b": (1, 2), "c": (3,)}


def pieces(X, y, cuts=()):
    """(task, X, y) of TASKS, each cut into batches; class 1 is in two tasks."""
    found = []
    for task, labels in TASKS.items():
        half = slice(0, None, 2) if task == "a" else slice(1, None, 2)
        rows = np.concatenate([np.flatnonzero(y == k)[half] for k in labels])
        parts = np.split(rows, [cut for cut in cuts if cut < len(rows)])
        found += [(task, X[part], y[part]) for part in parts if len(part)]
    return found


# Exactness


@settings(max_examples=5, deadline=None)
@given(
    front=st.sampled_from(sorted(FRONTS)),
    order=st.permutations(range(3)),
    cuts=st.one_of(st.just(range(1, 9)), st.sets(st.integers(1, 8), max_size=3)),
    n_stm=st.integers(1, 4),
)
def test_order_batches_sleeps_and_merges_do_not_matter(front, order, cuts, n_stm):
    (X, y), options = FRONTS[front]
    whole = learned(pieces(X, y), **options)
    parts = pieces(X, y, sorted(cuts))
    tasks = [list(TASKS)[index] for index in order]
    shuffled = [part for task in tasks for part in parts[::-1] if part[0] == task]
    other = learned(shuffled, n_stm=n_stm, **options)
    assert_same_sums(whole, other)
    assert_same_answers(whole, other, X)
    halves = [
        learned([part for part in parts if (part[0] == "a") == first], **options)
        for first in (True, False)
    ]
    merged = merge(*halves)
    assert_same_sums(whole, merged)
    assert_same_answers(whole, merged, X)


def test_bytes_of_images_are_value_by_255():
    X, y = images()
    whole = np.round(X * 255).astype(np.uint8)
    bytes_model = learned(one_class_each(whole, y))
    floats = learned(one_class_each(whole / 255, y))
    assert_same_sums(bytes_model, floats)
    assert np.array_equal(bytes_model.predict_proba(whole), floats.predict_proba(whole / 255))


@pytest.mark.parametrize("d", [4, 70])
@pytest.mark.parametrize("kind", [np.int64, np.uint8, np.int16, bool])
def test_integers_of_a_table_are_the_same_floats(d, kind):
    X, y = blobs(d)
    X = np.clip(np.round(X), 0, 10)
    whole = X.astype(kind)
    one, other = learned([("a", whole, y)]), learned([("a", whole.astype(float), y)])
    assert np.array_equal(one.predict_proba(whole), other.predict_proba(whole.astype(float)))


@settings(max_examples=6, deadline=None)
@given(
    d=st.sampled_from([3, 70, 200]),
    seed=st.integers(0, 99),
    shift=st.sampled_from([0.0, 10.0, 1e3]),
    free=st.booleans(),
)
def test_units_of_a_table_do_not_matter(d, seed, shift, free):
    """Columns times 1e-6 to 1e6, shifted by up to 1,000 deviations, some constant within a class."""
    rng = np.random.default_rng(seed)
    X, y = blobs(d, 4, 15, seed, spread=4.0)
    test = blobs(d, 4, 15, seed + 1, spread=4.0)[0]
    X[:, 0] = test[:, 0] = 5.0  # constant
    if d > 3:  # a scale that the first call cannot show is 1
        X[:, 1] = test[:, 1] = y == 2  # constant within every class
    factor = 10 ** rng.uniform(-6, 6, d)
    offset = shift * factor * rng.standard_normal(d)
    options = {"shrinkage": None, "own_covariance": None} if free else {}
    one = learned(one_class_each(X, y), **options)
    other = learned(one_class_each(X * factor + offset, y), **options)
    within = 1e-2 if shift else 1e-6  # shifted values are rounded
    assert_same_answers(one, other, test, test * factor + offset, within)


# Meanings


@pytest.fixture(scope="module")
def awake_and_asleep():
    """Classes 0 and 1 asleep, classes 2 and 3 awake, one task each."""
    X, y = blobs(70, 4, 30, spread=3.0)
    model = learned(one_class_each(X, y)[:2], n_stm=3)
    for name, rows, labels in one_class_each(X, y)[2:]:
        model.partial_fit(rows, labels, task=name)
    assert model.awake_tasks() == ("t2", "t3")
    return model, X, y


def test_a_task_routes_to_the_memory_that_holds_it(awake_and_asleep):
    model, X, _ = awake_and_asleep
    assert set(model.predict(X, task="t2").tolist()) == {2}, "an awake task memory knows its class"
    assert set(model.predict(X, task="t0").tolist()) == {0, 1}, "the whole long-term memory"
    assert np.array_equal(model.predict(X, task="t0"), model.predict(X, task="never learned"))
    assert set(model.predict(X).tolist()) == {0, 1, 2, 3}


def test_without_a_task_all_components_form_one_posterior(awake_and_asleep):
    model, X, y = awake_and_asleep
    asleep = copy.deepcopy(model).sleep()
    together = model.predict_proba(X)
    assert (model.predict(X) == y).mean() > 0.95
    assert (asleep.predict(X) == model.predict(X)).mean() > 0.95
    alone = np.concatenate([model.predict_proba(row[None]) for row in X])
    np.testing.assert_allclose(alone, together, atol=1e-9)
    assert np.array_equal(model.predict_proba(X[::-1])[::-1].argmax(1), together.argmax(1))


def test_recognition_names_the_memory_of_the_winning_component(awake_and_asleep):
    model, X, _ = awake_and_asleep
    found = model.recognize(X)
    assert found.memories == ("t2", "t3", LONG_TERM)
    by_label = {0: LONG_TERM, 1: LONG_TERM, 2: "t2", 3: "t3"}
    expected = [by_label[label] for label in model.predict(X).tolist()]
    assert found.answered_by.tolist() == expected
    assert found.losses.shape == (len(X), 3)
    alone = [model.recognize(row[None]).answered_by[0] for row in X[:12]]
    assert alone == expected[:12]


def test_dgdmn_recog_is_dgdmn_without_names():
    X, y = blobs(70, 3, 30)
    named = learned([("x", *part[1:]) for part in one_class_each(X, y)], DGDMNRecog)
    unnamed = learned([(None, *part[1:]) for part in one_class_each(X, y)])
    assert_same_sums(named, unnamed)
    assert np.array_equal(named.predict_proba(X), unnamed.predict_proba(X))
    assert np.array_equal(named.predict(X, task="task 1"), named.predict(X))
    assert (
        named.consolidated_tasks() == unnamed.consolidated_tasks() == ("task 1", "task 2", "task 3")
    )


@pytest.mark.parametrize("kind", [DGDMN, DGR, DGDMNRecog])
@pytest.mark.parametrize("asleep", [True, False])
def test_rows_without_a_task_join_the_newest_component_of_their_class(kind, asleep):
    X, y = blobs(70, 4, 10)
    model = learned([(None, X[y < 2], y[y < 2])], kind, asleep=asleep)
    model.partial_fit(X[y < 3], y[y < 3])  # 0 and 1 are known, 2 is new
    model.sleep()
    labels = model.fitted_.labels
    found = {(c.task, labels[c.label]): c.n for c in long_term(model).components}
    assert found == {("task 1", 0): 20, ("task 1", 1): 20, ("task 2", 2): 10}
    twice = learned([("t", X[y < 3], y[y < 3]), ("t", X[y < 2], y[y < 2])])
    np.testing.assert_allclose(
        long_term(model).pool.scatter, long_term(twice).pool.scatter, rtol=1e-9, atol=1e-9
    )


@pytest.mark.parametrize("front", sorted(FRONTS))
def test_dgr_agrees_with_dgdmn_after_sleep(front):
    (X, y), options = FRONTS[front]
    tasks = pieces(X, y)
    dgr, dual = (learned([*tasks, tasks[0]], kind, **options) for kind in (DGR, DGDMN))
    assert_same_sums(dgr, dual)
    assert_same_answers(dgr, dual, X)
    assert dgr.awake_tasks() == ()


@pytest.mark.parametrize("n_stm", [1, 2, 9])
def test_revision_of_a_known_task_merges_exactly(n_stm):
    X, y = blobs(70)
    whole = learned([("a", X, y)])
    again = learned([("a", X[:20], y[:20]), ("a", X[20:45], y[20:45])], n_stm=n_stm)
    again.partial_fit(X[45:], y[45:], task="a")
    assert_same_sums(whole, again.sleep())
    assert long_term(again).tasks["a"].times == 3


# Budget


@pytest.mark.parametrize("kind", [DGDMN, DGR])
@pytest.mark.parametrize(("d", "n_tasks"), [(3, 10), (70, 60)])
def test_bytes_stay_within_the_budget_on_many_tasks(d, n_tasks, kind):
    """Awake and asleep, down to exactly one mean per class, without a warning."""
    n_classes = 5 if d == 3 else 30
    X, y = blobs(d, n_classes, 12, spread=1.5)
    spec = long_term(learned([("a", X, y)], kind)).spec
    budget = spec.pool_bytes + spec.front_end_bytes + n_classes * spec.min_component_bytes
    model = kind(**FIXED, memory_budget=budget)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for number in range(n_tasks):
            label = number % n_classes
            model.partial_fit(X[y == label], y[y == label], task=f"t{number}")
            assert model.memory_bytes() <= budget
    model.sleep()
    assert (model.predict(X) == y).mean() > (0.9 if d == 70 else 0.6)
    assert max(len(c.scatter) for c in long_term(model).components) == 0
    assert len(long_term(model).tasks) == n_tasks


def test_many_classes_merge_to_one_mean_each_and_warn_when_even_that_is_too_much():
    X, y = blobs(70, 40, 4)
    spec = long_term(learned([("a", X[:4], y[:4])])).spec
    budget = spec.pool_bytes + spec.front_end_bytes + 30 * spec.min_component_bytes
    with pytest.warns(UserWarning, match=r"memory_budget is [\d,]+; one mean per class needs"):
        model = learned(one_class_each(X, y), memory_budget=budget)
    assert (model.predict(X) == y).mean() > 0.9
    needed = int(
        re.findall(r"needs ([\d,]+)", str(_warning(one_class_each(X, y), budget)))[-1].replace(
            ",", ""
        )
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        enough = learned(one_class_each(X, y), memory_budget=needed)
    assert enough.memory_bytes() <= needed


def _warning(tasks, budget):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        learned(tasks, memory_budget=budget)
    return caught[-1].message


@pytest.mark.parametrize("X", [np.eye(3), np.eye(70), np.eye(144).reshape(-1, 12, 12)])
def test_a_budget_that_is_too_small_is_refused_in_one_sentence(X):
    model = DGDMN(memory_budget=10_000)
    with pytest.raises(
        UsageError, match=r"memory_budget is 10,000; [\d,]+ features need"
    ) as raised:
        model.partial_fit(X, np.arange(len(X)) % 2)
    assert "\n" not in str(raised.value)
    assert not hasattr(model, "fitted_")


# Any data


def heavy(d):
    X, y = blobs(d, 3, 40)
    return np.random.default_rng(0).standard_cauchy(X.shape) ** 3 + X, y


HARD = {
    "tiny columns": lambda: (blobs(5)[0] * 1e-150, blobs(5)[1]),
    "huge columns": lambda: (blobs(5)[0] * 1e120, blobs(5)[1]),
    "huge wide columns": lambda: (blobs(80)[0] * 1e120, blobs(80)[1]),
    "tiny wide columns": lambda: (blobs(80)[0] * 1e-120, blobs(80)[1]),
    "any scale": lambda: (blobs(80)[0] * 10.0 ** np.linspace(-60, 60, 80), blobs(80)[1]),
    "any scale, coded": lambda: (blobs(300)[0] * 10.0 ** np.linspace(-30, 30, 300), blobs(300)[1]),
    "heavy tails": lambda: heavy(5),
    "heavy tails, wide": lambda: heavy(90),
    "heavy tails, coded": lambda: heavy(300),
    "constant columns": lambda: (np.where(np.arange(80) % 2, blobs(80)[0], 0.1), blobs(80)[1]),
    "constant large columns": lambda: (np.where(np.arange(9) % 2, blobs(9)[0], 1e9), blobs(9)[1]),
    "one column": lambda: blobs(1),
    "more columns than rows": lambda: (blobs(900, 3, 2)[0], blobs(900, 3, 2)[1]),
    "classes of one row": lambda: (blobs(70, 20, 1)[0], blobs(70, 20, 1)[1]),
    "small classes of one row": lambda: (blobs(4, 20, 1)[0], blobs(4, 20, 1)[1]),
    "few rows of 10,000 columns": lambda: blobs(10_000, 2, 3),
    "small images": lambda: images(side=6),
    "blank images": lambda: (np.zeros((6, 12, 12)), np.arange(6) % 2),
    "color": lambda: (np.random.default_rng(0).uniform(size=(8, 14, 14, 3)), np.arange(8) % 2),
}


@pytest.mark.parametrize("name", HARD)
@pytest.mark.parametrize("one_task", [True, False])
def test_any_data_works_or_is_refused_in_one_sentence(name, one_task):
    X, y = HARD[name]()
    tasks = [("all", X, y)] if one_task else one_class_each(X, y)
    options = {"shrinkage": None, "own_covariance": None}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            model = learned(tasks, **options)
        except UsageError as error:
            refused = str(error)
        else:
            refused = ""
        if refused:
            assert "\n" not in refused
            return
        answers = model.predict_proba(X)
        assert np.isfinite(answers).all()
        np.testing.assert_allclose(answers.sum(axis=1), 1)
        if name not in ("blank images", "color") and "heavy" not in name:
            assert (model.predict(X) == y).mean() > 0.9
        if name == "few rows of 10,000 columns":
            return  # a projection is not decoded
        assert np.isfinite(model.reconstruct(X[:2])).all()
        assert model.sample(3, random_state=0)[0].shape == (3, *X.shape[1:])


@pytest.mark.parametrize("d", [300, 90])
def test_columns_of_any_scale_survive_the_budget(d):
    """Scatters in float32: nothing overflows and nothing becomes negative."""
    X, y = blobs(d, 6, 30)
    X = X * 10.0 ** np.linspace(-13, 13, d)
    spec = long_term(learned([("a", X, y)])).spec
    budget = spec.pool_bytes + spec.front_end_bytes + 6 * spec.min_component_bytes + 30_000
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = learned(one_class_each(X, y), memory_budget=budget)
        assert (model.predict(X) == y).mean() > 0.9
    assert model.memory_bytes() <= budget


def test_a_first_task_of_one_class_and_one_row():
    X, y = blobs(70, 3, 5)
    model = learned([("a", X[:1], y[:1])], asleep=False)
    assert model.predict(X[:3]).tolist() == [y[0]] * 3
    model.partial_fit(X, y, task="b").sleep()
    assert (model.predict(X) == y).all()
    with pytest.raises(UsageError, match="1 sample, which has no scale"):
        learned([("a", X[:1, :4], y[:1])])


def test_a_thousand_classes():
    X, y = blobs(70, 1_000, 2, spread=0.5)
    since = time.process_time()
    model = DGDMN(n_stm=3)
    for part in np.split(np.argsort(y, kind="stable"), 2):
        model.partial_fit(X[part], y[part], task=str(part[0]))
    model.sleep()
    assert (model.predict(X[:50]) == y[:50]).mean() > 0.95
    assert model.memory_bytes() <= 8_000_000
    assert time.process_time() - since < 10


# No rows


@pytest.mark.parametrize("front", ["gabor", "none", "relu"])
def test_no_row_is_kept_in_object_file_or_pickle(front, tmp_path):
    """Neither rows nor their features nor their codes."""
    X, y = {"gabor": images(2, 21), "none": blobs(70, 2, 25), "relu": blobs(4, 2, 25)}[front]
    model = learned(one_class_each(X, y)[:1], asleep=False, shrinkage=None, own_covariance=None)
    for asleep in (False, True):
        model.partial_fit(X, y, task="b")
        if asleep:
            model.sleep()
        model.predict(X)  # nothing is cached
        model.save(tmp_path / "memory")
        features = model.fitted_.inputs.apply(X)
        codes = features @ long_term(model).spec.code
        copies = (model, load(tmp_path / "memory"), pickle.loads(pickle.dumps(model)))
        files = [path.read_bytes() for path in (tmp_path / "memory").iterdir()]
        for rows in (X.reshape(len(X), -1)[:5], features[:5], codes[:5]):
            assert find_rows([*copies, *files], rows) == []
            assert find_rows(storage.read(tmp_path / "memory"), rows) == []


# Forget


@pytest.mark.parametrize("kind", [DGDMN, DGR])
@pytest.mark.parametrize("awake", [True, False])
def test_forgetting_a_class_is_exact_where_the_code_is_complete(kind, awake):
    """q = d: the predictions and the sums of a memory that never learned the class."""
    X, y = blobs(70, 4, 30, spread=3.0)
    tasks = [("a", X[:60], y[:60]), ("b", X[60:], y[60:])]
    stm = {} if kind is DGR else {"n_stm": 5}
    model = learned(tasks, kind, asleep=not awake, **stm)
    never = learned(
        [(t, rows[k != 2], k[k != 2]) for t, rows, k in tasks], kind, asleep=not awake, **stm
    )
    model.forget(labels=[2])
    assert model.classes_.tolist() == [0, 1, 3]
    np.testing.assert_allclose(model.predict_proba(X), never.predict_proba(X), atol=1e-8)
    assert_same_sums(model.sleep(), never.sleep(), relative=1e-8)
    assert_same_answers(model, never, X)
    model.partial_fit(X[y == 2], y[y == 2], task="again").sleep()
    assert (model.predict(X) == y).mean() > 0.9


def test_forgetting_tasks_and_labels_within_tasks():
    X, y = blobs(70, 3, 30)
    tasks = [("a", X[:45], y[:45]), ("b", X[45:], y[45:])]
    left = learned(tasks).forget(tasks=["a"])
    assert_same_sums(left, learned(tasks[1:]), relative=1e-8)
    assert left.consolidated_tasks() == ("b",)
    both = learned(tasks).forget(tasks=["a"], labels=[1])
    found = {(c.task, both.fitted_.labels[c.label]) for c in long_term(both).components}
    assert found == {("a", 0), ("a", 2), ("b", 0), ("b", 1), ("b", 2)}
    assert both.classes_.tolist() == [0, 1, 2]


def test_forgetting_one_task_awake_and_another_asleep():
    X, y = blobs(70, 4, 30, spread=3.0)
    tasks = one_class_each(X, y)
    model = learned(tasks[:2], n_stm=4)
    for name, rows, labels in tasks[2:]:
        model.partial_fit(rows, labels, task=name)
    model.forget(tasks=["t0", "t3"])
    assert model.awake_tasks() == ("t2",)
    assert model.consolidated_tasks() == ("t1",)
    assert_same_sums(model.sleep(), learned(tasks[1:3]), relative=1e-8)


@pytest.mark.parametrize("front", ["gabor", "relu", "wide"])
def test_forgetting_in_a_shorter_code_removes_components_and_keeps_the_pool(front):
    (X, y), options = FRONTS[front]
    model = learned(pieces(X, y), **options)
    pool, before = long_term(model).pool, model.memory_bytes()
    model.forget(labels=[3])
    assert 3 not in model.predict(X).tolist()
    assert np.array_equal(long_term(model).pool.scatter, pool.scatter), "it stays: docs/mixture.md"
    assert model.memory_bytes() < before
    assert (model.predict(X) == y)[y != 3].mean() > 0.9


def test_what_cannot_be_forgotten_is_refused_and_nothing_changes(tmp_path):
    X, y = blobs(70, 3, 20)
    model = learned([("a", X[:30], y[:30]), ("b", X[30:], y[30:] % 2)])
    before = model.predict_proba(X)
    for options, reason in [
        ({}, "forget needs labels or tasks"),
        ({"labels": [9]}, "no label 9; there are 0, 1, 2"),
        ({"tasks": ["z"]}, "no task 'z'; there are a, b"),
        ({"labels": [0, 1, 2]}, "that would forget everything"),
        ({"tasks": ["a", "b"]}, "that would forget everything"),
        ({"labels": [2], "tasks": ["b"]}, "nothing of these labels was learned in these tasks"),
        ({"labels": []}, "nothing of these labels"),
    ]:
        with pytest.raises(UsageError, match=reason) as raised:
            model.forget(**options)
        assert "\n" not in str(raised.value)
        assert np.array_equal(model.predict_proba(X), before)
    deep = DGDMN("deep", min_steps=2, generator_epochs=1, learner_epochs=1)
    deep.partial_fit(X[:, :4] % 1, y, task="a")
    with pytest.raises(UsageError, match="cannot forget; only the mixture memory can"):
        deep.forget(labels=[0])


def test_a_model_that_has_forgotten_is_saved_and_resumes(tmp_path):
    X, y = blobs(70, 3, 20)
    model = learned(one_class_each(X, y)).forget(labels=[0])
    model.save(tmp_path / "memory")
    again = load(tmp_path / "memory")
    assert np.array_equal(again.predict_proba(X), model.predict_proba(X))
    for one in (model, again):
        one.partial_fit(X, y, task="new").sleep()
    assert np.array_equal(again.predict_proba(X), model.predict_proba(X))


def test_closed_classes_stay_after_forgetting():
    X, y = blobs(70, 3, 20)
    model = DGDMN(**FIXED).partial_fit(X, y, classes=[0, 1, 2, 3], task="a").forget(labels=[1])
    assert model.classes_.tolist() == [0, 1, 2, 3]
    assert 1 not in model.predict(X).tolist()


# Merge


def test_merge_is_symmetric_and_equals_learning_in_sequence():
    X, y = blobs(70, 4, 20, spread=3.0)
    parts = [("a", X[:40], y[:40] // 2), ("b", X[40:], y[40:])]
    a, b = (learned([part], asleep=False) for part in parts)
    before = a.predict_proba(X), b.predict_proba(X)
    one, other, whole = merge(a, b), merge(b, a), learned(parts)
    assert_same_sums(one, whole)
    assert_same_sums(other, whole)
    assert_same_answers(one, whole, X)
    assert_same_answers(other, whole, X)
    assert np.array_equal(a.predict_proba(X), before[0]), "the models themselves do not change"
    assert np.array_equal(b.predict_proba(X), before[1])
    assert one.awake_tasks() == ()
    for model in (one, other):
        model.partial_fit(X, y, task="b").sleep()
    assert_same_answers(one, learned([*parts, ("b", X, y)]), X)
    assert one.memory_bytes() <= 8_000_000


def test_two_models_as_they_come_merge_with_their_counts():
    X, y = blobs(70, 4, 120, spread=5.0)
    a, b = DGDMN(random_state=1), DGDMN(random_state=2)
    a.partial_fit(X[:240], y[:240], task="a"), b.partial_fit(X[240:], y[240:], task="b")
    merged = merge(a, b)
    pools = [long_term(model.sleep()).pool for model in (a, b)]
    assert np.array_equal(long_term(merged).pool.votes, pools[0].votes + pools[1].votes)
    assert pools[0].log_losses.max() > 0
    texts = [np.array(list(letters))[y[:40]] for letters in ("abcd", "cdef")]
    a, b = (DGDMN().partial_fit(X[:40], text, task="a") for text in texts)
    assert merge(a, b).classes_.tolist() == list("abcdef")


def test_models_that_do_not_fit_are_not_merged():
    X, y = blobs(5, 3, 20)
    wide, _ = blobs(70, 3, 20)
    base = learned([("a", X, y)])
    deep = DGDMN("deep", min_steps=2, generator_epochs=1, learner_epochs=1)
    deep.partial_fit(X % 1, y, task="a")
    frame = learned([("a", wide, y)])
    frame.feature_names_in_ = np.array([f"x{n}" for n in range(70)], dtype=object)
    cases = [
        (
            base,
            learned([("a", X + 1, y)]),
            "scale of the features differs; create both with the same",
        ),
        (base, learned([("a", wide, y)]), "inputs of shape"),
        (base, learned([("a", X, y)], features="none"), "front end or its code_seed"),
        (learned([("a", wide, y)]), learned([("a", wide, y)], code_seed=1), "code_seed"),
        (base, learned([("a", X, y)], code_dim=50), "code_dim is 0 in one model and 50"),
        (base, learned([("a", X, y)], memory_budget=9_000_000), "memory_budget"),
        (base, learned([("a", X, y)], DGR), "cannot merge DGDMN with DGR"),
        (base, learned([("a", X, np.array(list("xyz"))[y])]), "labels"),
        (learned([("a", wide, y)]), frame, "names or kinds of columns differ"),
        (
            learned([("a", wide, y)], n_classes=3),
            learned([("a", wide, y + 3)], n_classes=3),
            "n_classes is 3",
        ),
        (deep, deep, "cannot merge; only the mixture memory can"),
        (base, deep, "cannot merge; only the mixture memory can"),
    ]
    for a, b, reason in cases:
        for one, other in ((a, b), (b, a)):
            with pytest.raises(UsageError) as raised:
                merge(one, other)
            message = str(raised.value)
            assert "\n" not in message
            assert reason in message or "DGR" in message or "50" in reason, message


# No constants by dataset


def test_no_dataset_selects_a_value():
    """The options of the mixture memory are the same for every stream, and its source names none."""
    options = [
        "generator", "memory_budget", "code_dim", "own_covariance", "features", "code_seed", "shrinkage"
    ]  # fmt: skip
    base = to_dict(resolve("best"))
    for stream in STREAMS:
        ours = to_dict(resolve(f"best/{stream}"))
        assert {name: ours[name] for name in options} == {name: base[name] for name in options}
    home = Path(dgdmn.__file__).parent
    files = [*(home / "features").glob("*.py"), *(home / "memory").glob("*.py")]
    assert len(files) > 10
    words = {*STREAMS, "mnist", "fashion", "cifar", "clinc", "hapt", "kdd", "devanagari", "letters"}
    for path in files:
        code = re.sub(r'""".*?"""|#[^\n]*', "", path.read_text(), flags=re.DOTALL).lower()
        used = [word for word in words if re.search(rf"[\"']{re.escape(word)}[\"'/-]", code)]
        assert not used, f"{path.name} names {used}"
        assert not re.search(r"\b(784|561|60_?000|28, 28)\b", code), path.name


# State


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A memory with an awake task on a complete code; held-out rows were counted."""
    X, y = blobs(70, 4, 100, spread=4.0)
    model = DGDMN(n_stm=3, random_state=0)
    for name, rows, labels in one_class_each(X, y):
        model.partial_fit(rows, labels, task=name)
    assert model.awake_tasks() == ("t3",)
    home = tmp_path_factory.mktemp("mixture") / "memory"
    model.save(home)
    return model, home, X, y


@pytest.mark.parametrize("asleep", [True, False])
@pytest.mark.parametrize(
    ("kind", "front"),
    [(DGDMN, "none"), (DGR, "none"), (DGDMNRecog, "none"), (DGDMN, "gabor")],
)
def test_a_saved_model_resumes_to_the_same_bits(kind, asleep, front, tmp_path):
    X, y = blobs(70, 4, 60, spread=4.0) if front == "none" else images(4, 8)
    model = kind(random_state=0)
    model.partial_fit(X[::2], y[::2], task="a")
    if asleep:
        model.sleep()
    model.save(tmp_path / "memory")
    twins = [load(tmp_path / "memory"), pickle.loads(pickle.dumps(model)), copy.deepcopy(model)]
    for step in range(2):
        for twin in twins:
            assert np.array_equal(twin.predict_proba(X), model.predict_proba(X))
            assert twin.memory_bytes() == model.memory_bytes()
        for one in (model, *twins):
            one.partial_fit(X[step::3], y[step::3], task=f"b{step}" if step else None)
    for twin in twins:
        twin.sleep()
    model.sleep()
    for twin in twins:
        assert np.array_equal(twin.predict_proba(X), model.predict_proba(X))
        drawn = [one.sample(4, random_state=1)[0] for one in (twin, model)]
        assert np.array_equal(*drawn)


def forge(source, target, path, value):
    """A copy of a memory with one changed value or array, and correct checksums."""
    about, state = storage.read(source)
    tree = {**about, "state": state}
    holder = reduce(getitem, path[:-1], tree)
    holder[path[-1]] = value(holder[path[-1]]) if callable(value) else value
    storage.write(target, tree, tree.pop("state"))


def put(index, value):
    def change(array):
        array = np.array(array)
        array[index] = value
        return array

    return change


LTM, STM = ("state", "ltm"), ("state", "stm", 0)
POOL, FROZEN, ONE = (*LTM, "pool"), (*LTM, "pool", "frozen"), (*LTM, "components", 0)
FORGED = [
    ((*ONE, "n"), 0, "n is 0"),
    ((*ONE, "n"), -5, "n is -5"),
    ((*ONE, "n"), 2.0, "n is 2.0"),
    ((*ONE, "n"), 10**13, "n is"),
    ((*ONE, "n"), 1e-9, "n is 1e-09"),
    ((*ONE, "n"), 1e12 + 0.5, "n is"),
    ((*ONE, "label"), 4, "label is 4"),
    ((*ONE, "label"), -1, "label is -1"),
    ((*ONE, "label"), True, "label is True"),
    ((*ONE, "label"), 3, "class"),
    ((*ONE, "task"), "never", "not in the log"),
    ((*ONE, "task"), 3, "task is 3"),
    ((*ONE, "mean"), put(0, np.nan), "not finite"),
    ((*ONE, "mean"), put(0, np.inf), "not finite"),
    ((*ONE, "mean"), put(slice(None), 1e308), "too large"),
    ((*ONE, "mean"), lambda a: a[1:], "mean"),
    ((*ONE, "mean"), lambda a: a[None], "mean"),
    ((*ONE, "mean"), lambda a: a.astype(np.float16), "mean"),
    ((*ONE, "mean"), lambda a: a.astype(np.int64), "mean"),
    ((*ONE, "scatter"), lambda a: a[1:], "triangle"),
    ((*ONE, "scatter"), lambda a: np.tile(a, 2), "triangle"),
    ((*ONE, "scatter"), lambda a: a[:, None], "triangle"),
    ((*ONE, "scatter"), lambda a: a.astype(np.int64), "scatter"),
    ((*ONE, "scatter"), lambda a: -a, "not positive"),
    ((*ONE, "scatter"), put(0, -1.0), "not positive"),
    ((*ONE, "scatter"), put(1, 1e9), "not positive"),
    ((*ONE, "scatter"), put(7, np.nan), "not finite"),
    ((*ONE, "sketch"), lambda a: a[1:], "sketch"),
    ((*ONE, "sketch"), lambda a: a.astype(np.int64), "sketch"),
    ((*LTM, "components"), lambda parts: parts * 2, "same task and class"),
    ((*LTM, "components"), {}, "components"),
    ((*LTM, "components", 0), 7, ""),
    ((*LTM, "n_classes"), 5, "classes"),
    ((*LTM, "age"), -1, "age"),
    ((*LTM, "tasks", 0, "classes"), [9], "class index"),
    ((*POOL, "scatter"), lambda a: a[1:], "scatter"),
    ((*POOL, "scatter"), lambda a: a.astype(np.float32), "scatter"),
    ((*POOL, "scatter"), lambda a: -a, "not positive"),
    ((*POOL, "scatter"), put(1, 1e9), "not positive"),
    ((*POOL, "scatter"), put(3, np.nan), "not finite"),
    ((*POOL, "scatter"), lambda a: a * 0 + 1e308, ""),
    ((*POOL, "n"), -1, "n is -1"),
    ((*POOL, "n"), 0, "rows"),
    ((*POOL, "n"), "many", "n is"),
    ((*POOL, "mean"), lambda a: a[:5], "mean"),
    ((*POOL, "variation"), put(0, -1.0), "variation"),
    ((*POOL, "votes"), put((0, 0), -1), "negative"),
    ((*POOL, "votes"), lambda a: a[1:], "votes"),
    ((*POOL, "votes"), lambda a: a.astype(float), "votes"),
    ((*POOL, "surprise"), put(0, -1.0), "negative"),
    ((*POOL, "untested"), -1, "untested"),
    ((*POOL, "untested"), None, "untested"),
    ((*FROZEN, "setting"), [2.0, 0.5], "setting"),
    ((*FROZEN, "setting"), [0.03], "setting"),
    ((*FROZEN, "setting"), [0.03, "x"], "setting"),
    ((*FROZEN, "setting"), [0.0, 0.5], "setting"),
    ((*FROZEN, "temperature"), 0.0, "temperature"),
    ((*FROZEN, "temperature"), 1, "temperature"),
    ((*FROZEN, "code_covariance"), lambda a: -a, "not positive"),
    ((*FROZEN, "code_covariance"), put(0, 0.0), "not positive"),
    ((*FROZEN, "code_covariance"), lambda a: a[1:], "code_covariance"),
    ((*POOL, "frozen"), [], "frozen"),
    (POOL, {}, ""),
    ((*STM, "task"), "t0", "task"),
    ((*STM, "components", 0, "label"), 9, "label is 9"),
    ((*STM, "components", 0, "scatter"), lambda a: -a, "not positive"),
    (("state", "features", "kind"), "relu", ""),
    (("state", "features", "kind"), "gabor", "gabor"),
    (("state", "features", "seed"), -1, "seed"),
    (("state", "features", "image_shape"), [7, 7], "image_shape"),
    (("state", "features", "fingerprint"), put((0, 0), 9.0), "differ"),
    (("config", "code_dim"), -1, "code_dim"),
    (("config", "memory_budget"), 1_000, "memory_budget"),
    (("config", "generator"), "vae", ""),
    (("config", "shrinkage"), 7.0, "shrinkage"),
    (("config", "priors"), "many", "priors"),
]  # fmt: skip


@pytest.mark.parametrize(("path", "value", "reason"), FORGED, ids=range(len(FORGED)))
def test_a_forged_value_is_refused_in_one_sentence(path, value, reason, saved, tmp_path):
    forge(saved[1], tmp_path / "forged", path, value)
    since = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(DgdmnError) as raised:
            load(tmp_path / "forged")
    assert time.process_time() - since < 2
    message = str(raised.value)
    assert reason in message
    assert message.startswith(str(tmp_path))
    assert message.isprintable()
    assert len(message) < 500


def test_a_full_disk_leaves_the_old_memory(saved, tmp_path, monkeypatch):
    _, home, X, y = saved
    model = load(home)
    model.save(tmp_path / "memory")
    before = model.predict_proba(X)
    model.partial_fit(X, y, task="more")

    after, sync = model.predict_proba(X), os.fsync
    for last in range(1, 9):  # the disk is full from this call on
        calls = itertools.count(1)

        def full(descriptor, last=last, calls=calls):
            if next(calls) >= last:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            sync(descriptor)

        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", full)
            try:
                model.save(tmp_path / "memory")
            except DgdmnError as error:
                refused = str(error)
            else:
                break
        assert "full" in refused
        assert "\n" not in refused
        found = load(tmp_path / "memory").predict_proba(X)
        assert any(
            found.shape == one.shape and np.array_equal(found, one) for one in (before, after)
        )
        assert last > 1 or np.array_equal(found, before)
    model.save(tmp_path / "memory")
    assert np.array_equal(load(tmp_path / "memory").predict_proba(X), model.predict_proba(X))


def test_predicting_with_a_table_imports_no_torch(saved, tmp_path):
    _, home, X, y = saved
    np.savez(tmp_path / "rows.npz", X=X[:5], y=y[:5])
    code = (
        "import sys\n"
        "from dgdmn.cli.app import main\n"
        "try:\n    main(sys.argv[1:])\n"
        "finally:\n    print('torch' in sys.modules)"
    )
    words = ["predict", str(home), str(tmp_path / "rows.npz"), "--out", str(tmp_path / "out.csv")]
    done = subprocess.run(
        [sys.executable, "-c", code, *words], capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == "False", done.stderr
    assert (tmp_path / "out.csv").read_text().startswith("row,label,")


# Samples, latents and what is refused


def test_images_are_dreamed_reconstructed_and_coded():
    X, y = images(3, 30)
    model = learned(one_class_each(X, y))
    drawn, labels = model.sample(30, random_state=0)
    assert drawn.shape == (30, 12, 12)
    assert set(labels.tolist()) == {0, 1, 2}
    assert (model.predict(drawn) == labels).mean() > 0.6, "dreams are blurred"
    rebuilt = model.reconstruct(X)
    error = np.square(rebuilt - X).mean()
    assert error < 0.5 * np.square(X - X.mean(axis=0)).mean()
    assert model.latents(X).shape == (90, long_term(model).spec.q)


def test_tables_are_dreamed_in_their_own_units():
    X, y = blobs(5, 3, 60)
    X = X * [1, 10, 1e3, 1e-3, 1] + [0, 5, 1e4, 0, 0]
    model = learned(one_class_each(X, y))
    drawn, labels = model.sample(900, random_state=0)
    for label in range(3):
        own, real = drawn[labels == label], X[y == label]
        np.testing.assert_allclose(own.mean(0), real.mean(0), atol=0.5 * X.std(axis=0).max())
        assert (np.abs(own.mean(0) - real.mean(0)) < 0.5 * real.std(0)).all()
    assert (model.predict(drawn) == labels).mean() > 0.95
    np.testing.assert_allclose(model.reconstruct(X), X.astype(np.float32), rtol=1e-4)


def test_constant_columns_are_dreamed_as_constants():
    for d in (9, 80, 300):
        X, y = blobs(d, 3, 30)
        X[:, ::2] = np.arange(len(X[0, ::2])) * 100.0
        drawn, _ = learned(one_class_each(X, y)).sample(20, random_state=0)
        np.testing.assert_allclose(drawn[:, ::2], X[:20, ::2], rtol=1e-3, atol=1e-3)


def test_images_too_large_to_decode_are_refused_in_one_sentence():
    X = np.random.default_rng(0).uniform(size=(6, 70, 70)).astype(np.float32)
    model = learned([("a", X, np.arange(6) % 2)])
    with pytest.raises(UsageError, match="too large to be generated"):
        model.sample(2)
