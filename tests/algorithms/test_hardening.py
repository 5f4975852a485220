"""Attacks on estimators: ranges that are rows, labels that merge, two calls at once, forged memories."""

import threading
import time
from functools import reduce
from operator import getitem

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dgdmn import DGDMN, ER, NN, load, storage
from dgdmn.algorithms.scaling import Scaling
from dgdmn.core.errors import DgdmnError, UsageError
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
        np.array([[1e14, 2e14], [1e14, 2e14]]),
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


@pytest.fixture(scope="module")
def saved_memory(tmp_path_factory):
    """A memory with a long-term memory, a prior, an awake task and its codes."""
    home = tmp_path_factory.mktemp("memory") / "memory"
    options = {"generator_epochs": 1, "learner_epochs": 1, "value_range": ([0] * 3, [12] * 3)}
    model = DGDMN("deep", min_steps=2, random_state=0, **options)
    for number in range(3):
        model.partial_fit(X + number, [number] * 8, task=str(number))
    model.save(home)
    return home


def forge(source, target, path, value):
    """A copy of a memory with one changed value or array, and correct checksums."""
    about, state = storage.read(source)
    tree = {**about, "state": state}
    holder = reduce(getitem, path[:-1], tree)
    holder[path[-1]] = value(holder[path[-1]]) if callable(value) else value
    storage.write(target, tree, tree.pop("state"))


def put(index, value):
    """A change of some elements of an array."""

    def change(array):
        array[index] = value
        return array

    return change


LTM, STM, PRIOR = ("state", "ltm"), ("state", "stm", 0), ("state", "ltm", "prior")
MANY_TASKS = [{"task": str(n), "times": 1, "classes": [0]} for n in range(10**3)]
FORGED = [
    (("config", "n_stm"), 10**9, "n_stm"),
    (("config", "n_max"), 10**12, "n_max"),
    (("config", "generator_epochs"), 10**12, "generator_epochs"),
    (("config", "latent_dim"), 10**9, "latent_dim"),
    (("config", "learner_layers"), [10**9], "learner_layers"),
    (("config", "learner_layers"), [1] * 10**5, "learner_layers"),
    (("parameters", "n_stm"), 10**9, "n_stm"),
    (("features",), 10**9, "features"),
    (("columns",), {"a": "number"}, "columns make 1 numbers"),
    (("columns",), {"a": "number", "b": "number", "c": "word"}, "column 'c' has kind 'word'"),
    (("columns",), ["a", "b", "c"], "columns must map names to kinds"),
    (("fitted", "shape"), [10**10], "size is"),
    (("fitted", "shape"), [3] * 10**5, "of shape"),
    (("fitted", "shape"), [], "of shape"),
    (("fitted", "outputs"), 10**9, "outputs"),
    (("fitted", "outputs"), 3.0, "outputs"),
    (("fitted", "labels"), [], "labels"),
    (("fitted", "labels"), [0, 0, 1], "distinct"),
    (("fitted", "closed"), 1, "closed"),
    (("fitted", "warned"), "no", "warned"),
    (("state", "scaling", "given"), None, "given"),
    (("fitted", "rng", "entropy"), -1, "entropy"),
    (("fitted", "rng", "used"), 10**30, "used"),
    (("state", "scaling", "low"), np.full(3, 1e9), "range of values"),
    (("state", "largest_buffer"), -1, "largest_buffer"),
    ((*LTM, "age"), 10**13, "age"),
    ((*LTM, "age"), -1, "age"),
    ((*LTM, "age"), True, "age"),
    ((*LTM, "outputs"), 10**9, "outputs"),
    ((*LTM, "n_classes"), 10**9, "classes"),
    ((*LTM, "tasks"), MANY_TASKS * 2, "same name"),
    ((*LTM, "tasks", 0, "times"), 0, "times"),
    ((*LTM, "tasks", 0, "task"), 7, "task"),
    ((*LTM, "tasks", 0, "classes"), [3], "class index"),
    ((*LTM, "tasks", 0, "classes"), [-1], "class index"),
    ((*LTM, "learner", "head.bias"), put(0, np.nan), "not finite"),
    ((*LTM, "learner", "head.weight"), put(0, 3e38), "not finite"),
    ((*PRIOR, "labels"), put(0, -1), "class index"),
    ((*PRIOR, "labels"), put(-1, 3), "class index"),
    ((*PRIOR, "labels"), put(0, 2), "sorted"),
    ((*PRIOR, "weights"), put(0, 0), "weights"),
    ((*PRIOR, "weights"), put(0, -1), "weights"),
    ((*PRIOR, "weights"), put(0, np.inf), "not finite"),
    ((*PRIOR, "roots"), put((0, 0, 0), -1), "Cholesky"),
    ((*PRIOR, "roots"), put((0, 0, 0), 0), "Cholesky"),
    ((*PRIOR, "roots"), put((0, 0, 1), 1), "Cholesky"),
    ((*PRIOR, "means"), lambda array: array[:, 1:], "means"),
    ((*STM, "n_seen"), 10**6, "n_seen"),
    ((*STM, "task"), "other", "task"),
    ((*STM, "codes", "labels"), put(0, 3), "class index"),
    ((*STM, "codes", "codes"), put((0, 0), np.nan), "not finite"),
    (("state", "stm"), lambda held: held * 2, ""),
]


@pytest.mark.parametrize(("path", "value", "reason"), FORGED, ids=range(len(FORGED)))
def test_a_forged_value_is_refused_in_one_sentence(path, value, reason, saved_memory, tmp_path):
    """Every value is checked at load, whatever it is, in no time (D7)."""
    forge(saved_memory, tmp_path / "forged", path, value)
    since = time.process_time()
    with pytest.raises(DgdmnError) as raised:
        load(tmp_path / "forged")
    assert time.process_time() - since < 2
    message = str(raised.value)
    assert reason in message
    assert message.startswith(str(tmp_path))
    assert message.isprintable()
    assert len(message) < 500


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ((*LTM, "age"), 10**12),
        (("config", "generator_epochs"), 10**6),
        (("config", "min_steps"), 10**8),
        (("config", "prior_components"), 10**6),
        ((*LTM, "tasks", 0, "times"), 10**12),
    ],
)
def test_what_is_known_of_an_allowed_extreme_costs_nothing(path, value, saved_memory, tmp_path):
    forge(saved_memory, tmp_path / "forged", path, value)
    since = time.process_time()
    assert load(tmp_path / "forged").info().memory_bytes > 0
    assert time.process_time() - since < 2


def test_the_bytes_of_many_task_memories_are_multiplied():
    model = DGDMN("deep", n_stm=10_000, n_max=10**7, min_steps=2, random_state=0)
    model.partial_fit(X, [0] * 8, task="a")
    since = time.process_time()
    many = model.memory_bytes()
    assert time.process_time() - since < 1
    few = DGDMN("deep", n_stm=2, min_steps=2, random_state=0).partial_fit(X, [0] * 8, task="a")
    one = (many - few.memory_bytes()) / 9_998
    assert one == int(one) > 0


def test_forged_rows_labels_and_counts_of_exemplars_are_refused(tmp_path):
    model = ER("deep", exemplars=10, random_state=0, **SMALL).partial_fit(X, [0, 1] * 4)
    model.save(tmp_path / "memory")
    changes = [
        (("rows", "y"), put(0, 2)),
        (("rows", "y"), put(0, -1)),
        (("rows", "x"), lambda array: array[:, 1:]),
        (("rows", "x"), lambda array: array.astype(np.float32)),
        (("rows", "y"), lambda array: array[1:]),
        (("seen",), 0),
        (("seen",), 10**13),
        (("capacity",), 0),
        (("capacity",), "many"),
    ]
    for path, value in changes:
        forge(tmp_path / "memory", tmp_path / "forged", ("state", *path), value)
        with pytest.raises(DgdmnError, match="is not a memory that can be loaded"):
            load(tmp_path / "forged")


def test_parameters_that_fit_would_refuse_are_not_saved(tmp_path):
    model = NN("deep", random_state=0, **SMALL).partial_fit(X, [0, 1] * 4)
    with pytest.raises(UsageError, match="batch_size is 0"):
        model.set_params(batch_size=0).save(tmp_path / "memory")
    assert not (tmp_path / "memory").exists()


def test_answers_that_are_not_finite_are_an_error(tmp_path):
    model = NN("deep", random_state=0, **SMALL).partial_fit(X, [0, 1] * 4)
    model.fitted_.memory.learner.head.weight.data.fill_(np.inf)
    with pytest.raises(DgdmnError, match="not finite"):
        model.predict(X)
