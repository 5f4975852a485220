"""Anyone's own data: arrays, npz, npy, csv and folders of images, right and wrong."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from dgdmn.errors import DataError, UsageError
from dgdmn.streams import Rows, Task, from_arrays, read_arrays

X = np.arange(40, dtype=np.float64).reshape(20, 2)
Y = np.repeat([1, 0], 10)
TASK = np.tile(["b", "a"], 10)


def rows_of(task):
    return sorted(np.concatenate([task.train.x, task.test.x])[:, 0].tolist())


def test_without_tasks_every_class_is_one_in_sorted_order():
    stream = from_arrays(X, Y)
    assert (stream.task_names, stream.classes, stream.shape) == (("0", "1"), (0, 1), (2,))
    assert rows_of(stream[0]) == X[10:, 0].tolist()
    assert (len(stream[0].train), len(stream[0].test)) == (8, 2)


def test_a_task_array_decides_in_order_of_appearance():
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


def test_a_list_of_tasks_is_taken_as_it_is():
    tasks = [Task("one", Rows(X, Y), None, Rows(X[:3], Y[:3]))]
    stream = from_arrays(tasks, validation=0.5)
    assert (len(stream[0].train), len(stream[0].validation), len(stream[0].test)) == (10, 10, 3)


def test_a_given_test_part_is_used_whole():
    stream = from_arrays(X, Y, test=(X + 100, Y))
    assert (len(stream[0].train), len(stream[0].test)) == (10, 10)
    assert stream[0].test.x.min() == 120
    tasked = from_arrays(X, Y, task=TASK, test=(X[:2], Y[:2], TASK[:2]))
    assert [len(t.test) for t in tasked] == [1, 1]
    named = from_arrays([("one", X, Y)], test=[("one", X[:4], Y[:4])])
    assert (len(named[0].train), len(named[0].test)) == (20, 4)


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
    for dtype, kept in [("u1", "u1"), ("f8", "f8"), ("f4", "f4"), ("i2", "f4"), ("i8", "f8"), ("?", "f4")]:
        assert from_arrays(X.astype(dtype), Y)[0].train.x.dtype == np.dtype(kept)
    assert from_arrays(X.reshape(20, 2, 1, 1), Y).shape == (2, 1, 1)


def test_labels_may_be_texts_and_data_may_be_lists():
    stream = from_arrays([[0.0, 1.0]] * 4, ["cat", "cat", "dog", "dog"])
    assert stream.classes == ("cat", "dog")
    objects = np.array(["cat", "cat", "dog", "dog"], dtype=object)
    assert from_arrays(X[:4], objects).task_names == ("cat", "dog")


def spoilt(value):
    x = X.copy()
    x[3, 1] = value
    return x


@pytest.mark.parametrize(
    ("args", "options", "message"),
    [
        ((spoilt(np.nan), Y), {}, r"NaN or infinite value in row 3"),
        ((spoilt(np.inf), Y), {}, r"NaN or infinite value in row 3"),
        ((X, Y[:-1]), {}, r"y has shape \(19,\), give one value for each of 20 rows"),
        ((X, Y), {"task": TASK[:-1]}, r"task has shape \(19,\)"),
        ((X, np.where(Y == 0, np.nan, 1.0)), {}, "y has a NaN"),
        ((X[:2], np.array(["a", None], dtype=object)), {}, "y mixes types"),
        ((X[:, 0], Y), {}, r"X is float64 \(20,\)"),
        ((X.astype(str), Y), {}, "give numbers"),
        ((X[:0], Y[:0]), {}, "at least one row"),
        ((X,), {}, "data has no labels"),
        (([],), {}, "empty list"),
        (([[1.0], [1.0, 2.0]], [0, 1]), {}, "data is no array"),
        (([("a", X[:0], Y[:0])],), {}, "task 'a' is empty"),
        (([("a", X, Y), ("a", X, Y)],), {}, "two tasks are named 'a'"),
        (([("a", X, Y), ("b", X[:, :1], Y)],), {}, r"shapes \[\(1,\), \(2,\)\]"),
        (([("a", X, Y)], Y), {}, "y is given beside a list"),
        ((X[:2], [0, 1]), {}, "task '0' has no class with two rows"),
        ((X, Y), {"test_size": 0}, "test_size is 0"),
        ((X, Y), {"test_size": 1.0}, "test_size is 1.0"),
        ((X, Y), {"seed": -1}, "seed is -1"),
        ((X, Y), {"task": "column"}, "task='column' names a column"),
        ((X, Y), {"label": "column"}, "label='column' names a column"),
        ((X, Y), {"test": (X,)}, "test has 1 parts"),
        ((X, Y), {"test": (X[:10], Y[:10])}, "tasks '0' are in one of data and test only"),
        ((X, Y), {"test": (X[:, :1], Y)}, "data and test have samples of shapes"),
        (([Task("a", Rows(X, Y), Rows(X, Y), Rows(X, Y))],), {}, "its own validation part"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(args, options, message):
    with pytest.raises(UsageError, match=message) as error:
        from_arrays(*args, **options)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("keys", [("X", "y", "task"), ("x", "labels", "tasks"), ("images", "label", "task")])
def test_npz_by_its_usual_names(tmp_path, keys):
    np.savez(tmp_path / "own.npz", **dict(zip(keys, (X, Y, TASK), strict=True)))
    found = read_arrays(tmp_path / "own.npz")
    np.testing.assert_array_equal(found.X, X)
    np.testing.assert_array_equal(found.y, Y)
    np.testing.assert_array_equal(found.task, TASK)
    assert from_arrays(tmp_path / "own.npz").task_names == ("b", "a")


def test_npz_by_given_names(tmp_path):
    np.savez(tmp_path / "own.npz", X=X, digit=Y, day=TASK)
    found = read_arrays(str(tmp_path / "own.npz"), label="digit", task="day")
    assert found.y.tolist() == Y.tolist()
    assert found.task.tolist() == TASK.tolist()
    assert read_arrays(tmp_path / "own.npz").y is None
    with pytest.raises(UsageError, match="no array 'hour': it has X, digit, day"):
        read_arrays(tmp_path / "own.npz", task="hour")
    np.savez(tmp_path / "none.npz", data=X)
    with pytest.raises(UsageError, match="no array 'X': it has data"):
        read_arrays(tmp_path / "none.npz")


def test_npy_is_samples_alone(tmp_path):
    np.save(tmp_path / "own.npy", X)
    found = read_arrays(tmp_path / "own.npy")
    np.testing.assert_array_equal(found.X, X)
    assert (found.y, found.task) == (None, None)
    with pytest.raises(UsageError, match="has no labels"):
        from_arrays(tmp_path / "own.npy")


def test_nothing_is_unpickled(tmp_path):
    np.save(tmp_path / "own.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    np.savez(tmp_path / "own.npz", X=np.array([{"a": 1}], dtype=object))
    for name in ("own.npy", "own.npz"):
        with pytest.raises(DataError, match="Python objects"):
            read_arrays(tmp_path / name)


def write(path, text):
    path.write_text(text, encoding="utf-8")
    return path


def test_csv_by_hand(tmp_path):
    path = write(tmp_path / "own.csv", "\ufeffa,label,task,b\n1,cat,0,2.5\n3,dog,1,4e1\n")
    found = read_arrays(path)
    assert found.X.tolist() == [[1, 2.5], [3, 40]]
    assert found.y.tolist() == ["cat", "dog"]
    assert found.task.tolist() == [0, 1]
    assert found.names == ("a", "b")


def test_csv_columns_by_name(tmp_path):
    path = write(tmp_path / "own.csv", "kind,day,a\n" + "1,mon,0.5\n0,tue,1.5\n" * 4)
    stream = from_arrays(path, label="kind", task="day")
    assert (stream.task_names, stream.classes, stream.shape) == (("mon", "tue"), (1, 0), (1,))
    with pytest.raises(UsageError, match="no column 'dy': it has kind, day, a"):
        from_arrays(path, label="kind", task="dy")
    by_array = from_arrays(write(tmp_path / "b.csv", "label,a\n" + "1,2\n" * 4), task=[0, 0, 1, 1])
    assert by_array.task_names == ("0", "1")


def test_labels_are_integers_only_if_all_read_so(tmp_path):
    assert read_arrays(write(tmp_path / "a.csv", "label,a\n7,1\n-2,1\n")).y.tolist() == [7, -2]
    assert read_arrays(write(tmp_path / "b.csv", "label,a\n07,1\n8,1\n")).y.tolist() == ["07", "8"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("label,a\n", "no rows"),
        ("", "no rows"),
        ("label,a\n1,2\n1\n", "has 1 values in row 3, its header has 2"),
        ("label,a\n1,x\n", "'x' in row 2, column 'a'"),
        ("label,a\n1,\n", "'' in row 2, column 'a'"),
        ("label,a\n1,nan\n", "NaN or infinite value in row 0"),
        ("label\n1\n", "no feature columns"),
        ("a,b,a\n1,2,3\n", "2 columns named 'a'"),
        ("1,2.5\n3,4\n", "no header: its first line is numbers"),
        ("label,a\nx,1\n ,1\n", "no label in row 3, column 'label'"),
        ("day,task,a\n1,,1\n", "no task in row 2, column 'task'"),
    ],
)
def test_a_wrong_csv_is_named(tmp_path, text, message):
    with pytest.raises(DataError, match=message) as error:
        read_arrays(write(tmp_path / "own.csv", text))
    assert "own.csv" in str(error.value)


def test_columns_may_be_counted(tmp_path):
    """As pandas names them where nobody did."""
    assert read_arrays(write(tmp_path / "own.csv", "0,1\n5,6\n")).X.tolist() == [[5, 6]]


@pytest.mark.parametrize("name", ["own.npz", "own.npy", "own.csv"])
def test_files_that_cannot_be_read_are_named(tmp_path, name):
    with pytest.raises(DataError, match=rf"{name} cannot be read: No such file"):
        read_arrays(tmp_path / name)
    (tmp_path / name).write_bytes(b"\xff\xfe\x00PK")
    with pytest.raises(DataError, match=name):
        read_arrays(tmp_path / name)


def test_a_truncated_npz_is_named(tmp_path):
    np.savez_compressed(tmp_path / "own.npz", X=X, y=Y)
    content = (tmp_path / "own.npz").read_bytes()
    (tmp_path / "own.npz").write_bytes(content[:-30])
    with pytest.raises(DataError, match=r"own\.npz cannot be read"):
        read_arrays(tmp_path / "own.npz")


def test_an_unknown_kind_is_refused(tmp_path):
    with pytest.raises(UsageError, match=r"own\.txt is of no known kind"):
        read_arrays(write(tmp_path / "own.txt", "1"))


def picture(path, value, size=(4, 3), mode="L"):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, size, value).save(path)


def test_a_folder_of_class_folders(tmp_path):
    for number, kind in enumerate(["cat", "dog"]):
        for i in range(3):
            picture(tmp_path / kind / f"{i}.png", number * 10 + i)
    (tmp_path / "cat" / "notes.txt").write_text("no image")
    (tmp_path / "cat" / ".hidden.png").write_text("no image")
    found = read_arrays(tmp_path)
    assert (found.X.dtype, found.X.shape) == (np.uint8, (6, 3, 4))
    assert found.X[:, 0, 0].tolist() == [0, 1, 2, 10, 11, 12]
    assert found.y.tolist() == ["cat"] * 3 + ["dog"] * 3
    assert found.task is None
    assert from_arrays(tmp_path).task_names == ("cat", "dog")


def test_a_folder_of_task_folders(tmp_path):
    for task in ("day 1", "day 2"):
        for kind in ("0", "1"):
            for i in range(2):
                picture(tmp_path / task / kind / f"{i}.png", 5)
    stream = from_arrays(tmp_path)
    assert (stream.task_names, stream.classes) == (("day 1", "day 2"), (0, 1))


def test_colour_makes_all_images_rgb(tmp_path):
    picture(tmp_path / "a.png", 7)
    picture(tmp_path / "b.png", (1, 2, 3), mode="RGB")
    found = read_arrays(tmp_path)
    assert found.X.shape == (2, 3, 4, 3)
    assert found.X[:, 0, 0].tolist() == [[7, 7, 7], [1, 2, 3]]
    assert found.y is None


def test_wrong_folders_and_images_are_named(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="empty holds no images"):
        read_arrays(tmp_path / "empty")
    picture(tmp_path / "sizes" / "a.png", 0)
    picture(tmp_path / "sizes" / "b.png", 0, size=(5, 3))
    with pytest.raises(DataError, match=r"b\.png is 5 x 3 pixels, a\.png is 4 x 3"):
        read_arrays(tmp_path / "sizes")
    picture(tmp_path / "broken" / "a.png", 0)
    (tmp_path / "broken" / "b.png").write_bytes((tmp_path / "broken" / "a.png").read_bytes()[:40])
    with pytest.raises(DataError, match=r"b\.png cannot be read as an image"):
        read_arrays(tmp_path / "broken")
    picture(tmp_path / "deep" / "a.png", 0)
    picture(tmp_path / "deep" / "cat" / "a.png", 0)
    with pytest.raises(DataError, match="different depths"):
        read_arrays(tmp_path / "deep")
    picture(tmp_path / "bits" / "a.png", 0, mode="I;16")
    with pytest.raises(DataError, match="more than 8 bits"):
        read_arrays(tmp_path / "bits")
