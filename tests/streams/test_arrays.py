"""Streams from arrays and lists of tasks, valid and invalid."""

from datetime import date

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dgdmn.core.errors import UsageError
from dgdmn.streams import Rows, Task, from_arrays, from_frame

X = np.arange(40, dtype=np.float64).reshape(20, 2)
Y = np.repeat([1, 0], 10)
TASK = np.tile(["b", "a"], 10)


def rows_of(task):
    return sorted(np.concatenate([task.train.x, task.test.x])[:, 0].tolist())


def test_without_tasks_every_class_is_a_task():
    stream = from_arrays(X, Y)
    assert (stream.task_names, stream.classes, stream.shape) == (("0", "1"), (0, 1), (2,))
    assert rows_of(stream[0]) == X[10:, 0].tolist()
    assert (len(stream[0].train), len(stream[0].test)) == (8, 2)


def test_a_task_array_sets_tasks_in_order_of_appearance():
    stream = from_arrays(X, Y, task=TASK)
    assert stream.task_names == ("b", "a")
    assert stream.classes == (0, 1)
    assert rows_of(stream[0]) == X[::2, 0].tolist()
    assert sorted(stream[0].test.y.tolist()) == [0, 1]  # one of the five rows of each class


def test_a_list_of_named_tasks():
    stream = from_arrays([("one", X, Y), ("two", X + 1, Y)], test_size=0.5)
    assert stream.task_names == ("one", "two")
    assert rows_of(stream[1]) == (X[:, 0] + 1).tolist()
    assert len(stream[1].test) == 10


def test_a_list_of_tasks_keeps_its_test_rows():
    tasks = [Task("one", Rows(X, Y), None, Rows(X[:3], Y[:3]))]
    stream = from_arrays(tasks, validation=0.5)
    assert (len(stream[0].train), len(stream[0].validation), len(stream[0].test)) == (10, 10, 3)


def test_given_test_rows_are_used():
    stream = from_arrays(X, Y, test=(X + 100, Y))
    assert (len(stream[0].train), len(stream[0].test)) == (10, 10)
    assert stream[0].test.x.min() == 120
    tasked = from_arrays(X, Y, task=TASK, test=(X[:2], Y[:2], TASK[:2]))
    assert [len(t.test) for t in tasked] == [1, 1]
    named = from_arrays([("one", X, Y)], test=[("one", X[:4], Y[:4])])
    assert (len(named[0].train), len(named[0].test)) == (20, 4)


@pytest.mark.parametrize("test", [(X, Y), (X, Y, np.full(20, "c")), [("c", X, Y)]])
@pytest.mark.parametrize("named", [False, True])
def test_rows_of_no_task_of_the_data_test_every_task(test, named):
    parts = [("b", X[:10], Y[:10]), ("a", X[10:], Y[10:])]
    stream = from_arrays(parts, test=test) if named else from_arrays(X, Y, task=TASK, test=test)
    assert stream.common_test
    assert stream.note == "all tasks have the same test rows"
    assert stream[0].test is stream[1].test
    assert rows_of(Task("", Rows(X[:0], Y[:0]), None, stream[0].test)) == X[:, 0].tolist()
    assert stream.labels == (((1,), (0,)) if named else ((0, 1), (0, 1)))


def test_labels_are_not_taken_for_tasks():
    stream = from_arrays(X, Y, task=Y, test=(X[:15], Y[:15]))
    assert stream.common_test, "tasks and labels have the same names"
    by_class = from_arrays(X, Y, test=(X, Y, TASK))
    assert (by_class.task_names, len(by_class[0].test)) == (("0", "1"), 20)
    validated = from_arrays(X, Y, task=TASK, test=(X, Y), validation=0.2)
    assert not validated.common_test, "validation rows belong to their task"


def test_rows_later_than_all_tasks_test_every_task(tmp_path):
    def write(name, hours):
        lines = [f"{hour},{hour % 7},{'ab'[hour % 2]}" for hour in hours]
        (tmp_path / name).write_text("\n".join(["hour,x,label", *lines]) + "\n")
        return tmp_path / name

    data, options = write("data.csv", range(20)), {"order_by": "hour", "tasks": 2}
    later = from_arrays(data, test=write("later.csv", range(20, 26)), **options)
    assert (later.common_test, len(later[1].test)) == (True, 6)
    one = from_arrays(data, test=write("one.csv", range(30, 31)), **options)
    assert len(one[0].test) == 1, "fewer rows than tasks"
    with pytest.raises(UsageError, match="tasks 'part 1' are in only one of data and test"):
        from_arrays(data, test=write("mixed.csv", range(19, 26)), **options)


@pytest.mark.parametrize("kind", ["npz", "csv", "frame"])
def test_a_test_part_may_lack_the_task_column(tmp_path, kind):
    if kind == "frame":
        pandas = pytest.importorskip("pandas")
        data = pandas.DataFrame({"x": X[:, 0], "y": Y, "month": TASK})
        stream = from_frame(data, "y", task="month", test=data.drop(columns="month"))
    else:
        paths = [tmp_path / f"{name}.{kind}" for name in ("data", "test")]
        for path, extra in zip(paths, ({"month": TASK}, {}), strict=True):
            columns = {"x": X[:, 0], "y": Y, **extra}
            if kind == "npz":
                np.savez(path, **{**columns, "x": X})
            else:
                rows = zip(*(values.tolist() for values in columns.values()), strict=True)
                lines = [",".join(map(str, row)) for row in [(*columns,), *rows]]
                path.write_text("\n".join(lines) + "\n")
        stream = from_arrays(paths[0], label="y", task="month", test=paths[1])
    assert (stream.task_names, stream.common_test) == (("b", "a"), True)


@given(
    counts=st.lists(st.integers(2, 12), min_size=1, max_size=4),
    test_size=st.floats(0.05, 0.9),
    seed=st.integers(0, 9),
)
def test_the_split_loses_no_row_and_tests_every_class(counts, test_size, seed):
    y = np.repeat(np.arange(len(counts)), counts)
    x = np.arange(len(y), dtype=np.float32)[:, None]
    task = from_arrays(x, y, task=np.zeros(len(y)), test_size=test_size, seed=seed)[0]
    assert rows_of(task) == x[:, 0].tolist()
    assert set(task.train.y) == set(task.test.y) == set(range(len(counts)))
    for value, n in enumerate(counts):
        assert abs((task.test.y == value).sum() - test_size * n) <= 1


def test_the_seed_decides_the_split():
    def held_out(seed):
        return from_arrays(X, Y, seed=seed)[0].test.x.tolist()

    assert held_out(0) == held_out(0)
    assert len({str(held_out(seed)) for seed in range(5)}) > 1


def test_values_stay_as_they_are():
    for dtype, kept in [
        ("u1", "u1"),
        ("f8", "f8"),
        ("f4", "f4"),
        ("i2", "f4"),
        ("i8", "f8"),
        ("?", "f4"),
    ]:
        assert from_arrays(X.astype(dtype), Y)[0].train.x.dtype == np.dtype(kept)
    assert from_arrays(X.reshape(20, 2, 1, 1), Y).shape == (2, 1, 1)


def test_labels_may_be_strings_and_data_may_be_lists():
    stream = from_arrays([[0.0, 1.0]] * 4, ["cat", "cat", "dog", "dog"])
    assert stream.classes == ("cat", "dog")
    objects = np.array(["cat", "cat", "dog", "dog"], dtype=object)
    assert from_arrays(X[:4], objects).task_names == ("cat", "dog")


def with_value(value):
    x = X.copy()
    x[3, 1] = value
    return x


@pytest.mark.parametrize("kind", [np.float64, np.longdouble])
@pytest.mark.parametrize("values", [(0.1, 0.1000000000000001), (1e16, 1e16 + 2), (5e-324, 1e-323)])
def test_close_numbers_are_different_tasks(values, kind):
    stream = from_arrays(X, Y, task=np.repeat(np.array(values, kind), 10))
    assert [len(task.train) + len(task.test) for task in stream] == [10, 10]
    zeros = from_arrays(X, Y, task=np.repeat([-0.0, 0.0], 10))
    assert zeros.task_names == ("-0.0",), "equal numbers are one task"


@pytest.mark.parametrize(
    ("args", "options", "message"),
    [
        ((with_value(np.nan)[:, :, None], Y), {}, r"NaN or infinite value in row 3"),
        ((with_value(np.inf), Y), {}, r"X has an infinite value in row 3"),
        ((X, Y[:-1]), {}, r"y has shape \(19,\), give 20 values"),
        ((X, Y), {"task": TASK[:-1]}, r"task has shape \(19,\)"),
        ((X, np.where(Y == 0, np.nan, 1.0)), {}, r"y has no finite value in row \d+ \(from 0\)"),
        ((X[:2], np.array(["a", None], dtype=object)), {}, "y mixes types"),
        ((X[:1], np.array([None])), {}, "y has type object, give text or numbers"),
        ((X[:1], np.array([np.nan], object)), {}, r"y has no finite value in row \d+ \(from 0\)"),
        ((X[:1], np.array([date(2024, 1, 1)])), {}, "y has type object, give text or numbers"),
        ((X, Y), {"task": Y.astype("M8[D]")}, r"task has type datetime64\[D\]"),
        ((X[:, 0], Y), {}, r"X is float64 \(20,\)"),
        ((X.astype(str), Y), {}, "give numbers"),
        ((X[:0], Y[:0]), {}, "at least one row"),
        ((X,), {}, "data has no labels"),
        (([],), {}, "empty list"),
        (([[1.0], [1.0, 2.0]], [0, 1]), {}, "data is not an array"),
        (([("a", X[:0], Y[:0])],), {}, "task 'a' is empty"),
        (([("a", X, Y), ("a", X, Y)],), {}, "two tasks are named 'a'"),
        (([("a", X, Y), ("b", X[:, :1], Y)],), {}, r"shapes \[\(1,\), \(2,\)\]"),
        (([("a", X, Y)], Y), {}, "y cannot be combined with a list of"),
        (([("a", X, Y)],), {"ignore": ["b"]}, "ignore cannot be combined with a list of"),
        (([("a", X, Y)],), {"text": ["b"]}, "text cannot be combined with a list of"),
        ((X[:2], [0, 1]), {}, "task '0' has one row per class"),
        ((X, Y), {"test_size": 0}, "test_size is 0"),
        ((X, Y), {"test_size": 1.0}, "test_size is 1.0"),
        ((X, Y), {"seed": -1}, "seed is -1"),
        ((X, Y), {"task": "column"}, "task='column' names a column"),
        ((X, Y), {"label": "column"}, "label='column' names a column"),
        ((X, Y), {"test": (X,)}, "test has 1 parts"),
        (
            (X, Y),
            {"test": (X[:10], Y[:10])},
            "classes '0' are in only one of .* give the data tasks",
        ),
        (
            (X, Y),
            {"task": TASK, "test": (X, Y, np.tile(["b", "c"], 10))},
            "tasks 'a', 'c' are in only one of data and test: give both all tasks, or give test none",
        ),
        (
            (X, Y),
            {"task": TASK, "test": (X, Y + 2)},
            "test has no label of the data: it has 3, 2, not",
        ),
        ((X, Y), {"test": (X[:, :1], Y)}, "data and test have samples of shapes"),
        (([Task("a", Rows(X, Y), Rows(X, Y), Rows(X, Y))],), {}, "a task has validation rows"),
    ],
)
def test_invalid_arguments_are_refused_in_one_line(args, options, message):
    with pytest.raises(UsageError, match=message) as error:
        from_arrays(*args, **options)
    assert "\n" not in str(error.value)


def test_labels_and_tasks_of_a_frame_may_be_dates_and_months():
    pandas = pytest.importorskip("pandas")
    days = pandas.to_datetime(["2024-01-01", "2024-01-02"] * 6)
    frame = pandas.DataFrame({"a": np.arange(12.0), "day": days, "month": days.to_period("M")})
    assert from_frame(frame, label="day", task="month").task_names == ("2024-01",)
    by_day = from_frame(frame, label="month", task="day")
    assert by_day.task_names == ("2024-01-01", "2024-01-02")


def test_two_label_columns_of_a_frame_are_refused():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": np.arange(6.0), "y": [0, 1] * 3, "label": [0, 1] * 3})
    with pytest.raises(UsageError, match="two label columns, 'y' and 'label'"):
        from_frame(frame, label="y")


def test_a_stream_warns_about_a_column_of_names(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("a,id,label\n" + "".join(f"{n},name {n},{n % 2}\n" for n in range(200)))
    with pytest.warns(UserWarning, match="column 'id' has 200 different texts in 200 rows"):
        from_arrays(path)
