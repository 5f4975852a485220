"""Files of users: npz, npy, csv, image folders and idx, valid and invalid."""

import gzip

import numpy as np
import pytest
from PIL import Image

from dgdmn.core.errors import DataError, UsageError
from dgdmn.streams import from_arrays, read_arrays
from dgdmn.streams.readers import read_idx

X = np.arange(40, dtype=np.float64).reshape(20, 2)
Y = np.repeat([1, 0], 10)
TASK = np.tile(["b", "a"], 10)


@pytest.mark.parametrize(
    "keys", [("X", "y", "task"), ("x", "labels", "tasks"), ("images", "label", "task")]
)
def test_npz_with_usual_names(tmp_path, keys):
    np.savez(tmp_path / "own.npz", **dict(zip(keys, (X, Y, TASK), strict=True)))
    found = read_arrays(tmp_path / "own.npz")
    np.testing.assert_array_equal(found.X, X)
    np.testing.assert_array_equal(found.y, Y)
    np.testing.assert_array_equal(found.task, TASK)
    assert from_arrays(tmp_path / "own.npz").task_names == ("b", "a")


def test_npz_with_given_names(tmp_path):
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


def test_npy_holds_samples_only(tmp_path):
    np.save(tmp_path / "own.npy", X)
    found = read_arrays(tmp_path / "own.npy")
    np.testing.assert_array_equal(found.X, X)
    assert (found.y, found.task) == (None, None)
    with pytest.raises(UsageError, match="has no labels"):
        from_arrays(tmp_path / "own.npy")


def test_pickled_objects_are_refused(tmp_path):
    np.save(tmp_path / "own.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    np.savez(tmp_path / "own.npz", X=np.array([{"a": 1}], dtype=object))
    for name in ("own.npy", "own.npz"):
        with pytest.raises(DataError, match="Python objects"):
            read_arrays(tmp_path / name)


def write(path, text):
    path.write_text(text, encoding="utf-8")
    return path


def test_csv(tmp_path):
    path = write(tmp_path / "own.csv", "\ufeffa,label,task,b\n1,cat,0,2.5\n3,dog,1,4e1\n")
    found = read_arrays(path)
    assert found.X.tolist() == [[1, 2.5], [3, 40]]
    assert found.y.tolist() == ["cat", "dog"]
    assert found.task.tolist() == [0, 1]
    assert found.names == ("a", "b")


def test_csv_with_named_columns(tmp_path):
    path = write(tmp_path / "own.csv", "kind,day,a\n" + "1,mon,0.5\n0,tue,1.5\n" * 4)
    stream = from_arrays(path, label="kind", task="day")
    assert (stream.task_names, stream.classes, stream.shape) == (("mon", "tue"), (1, 0), (1,))
    with pytest.raises(UsageError, match="no column 'dy': it has kind, day, a"):
        from_arrays(path, label="kind", task="dy")
    by_array = from_arrays(write(tmp_path / "b.csv", "label,a\n" + "1,2\n" * 4), task=[0, 0, 1, 1])
    assert by_array.task_names == ("0", "1")


def test_labels_are_integers_only_if_all_are(tmp_path):
    assert read_arrays(write(tmp_path / "a.csv", "label,a\n7,1\n-2,1\n")).y.tolist() == [7, -2]
    assert read_arrays(write(tmp_path / "b.csv", "label,a\n07,1\n8,1\n")).y.tolist() == ["07", "8"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("label,a\n", "no rows"),
        ("", "no rows"),
        ("label,a\n1,2\n1\n", "has 1 values in row 3, not 2"),
        ("label,a\n1,1\n1,x\n", "'x' in row 3, column 'a', which has numbers above"),
        ("label,a\n1,x\n1,\n1,1\n", "'1' in row 4, column 'a', which has text above"),
        ("label,a\n1,inf\n", "infinite value in row 2, column 'a'"),
        (
            "label,a\n1,5\n1,-1e16\n",
            r"-1e\+16 in row 3, column 'a': values may have a size of at most 1e\+15",
        ),
        ("label;a\n1;1.534,94\n", "'1.534,94' in row 2, column 'a': write numbers as 1234,5"),
        ("label,state,a\n1,2,3\n", "two label columns, 'state' and 'label'"),
        ("label\n1\n", "no feature columns"),
        ("a,b,a\n1,2,3\n", "2 columns named 'a'"),
        ("1,2.5\n3,4\n", "no header: its first line is numbers"),
        ("label,a\nx,1\n ,1\n", "no label in row 3, column 'label'"),
        ("day,task,a\n1,,1\n", "no task in row 2, column 'task'"),
    ],
)
def test_an_invalid_csv_is_refused(tmp_path, text, message):
    label = "state" if "state" in text else None
    with pytest.raises(DataError, match=message) as error:
        read_arrays(write(tmp_path / "own.csv", text), label=label)
    assert "own.csv" in str(error.value)


def test_labels_of_some_rows_may_be_missing_where_they_are_not_needed(tmp_path):
    path = write(tmp_path / "own.csv", "label,task,a\n7,x,1\n,,2\n8,x,3\n")
    read = read_arrays(path, needs_labels=False)
    assert (read.y.tolist(), read.task.tolist()) == ([7, None, 8], ["x", None, "x"])
    assert (
        read_arrays(write(path, "label,a\n,1\n,2\n"), needs_labels=False).y.tolist() == [None] * 2
    )


def test_other_encodings_are_named(tmp_path):
    (tmp_path / "own.csv").write_bytes("label,a\nGrün,1\n".encode("cp1252"))
    with pytest.raises(DataError, match=r"own.csv is not UTF-8 text: save it as UTF-8"):
        read_arrays(tmp_path / "own.csv")


def test_an_order_of_text_names_the_cell(tmp_path):
    path = write(tmp_path / "own.csv", "label,day,a\n1,01.02.2025,1\n")
    with pytest.raises(
        DataError, match=r"'01.02.2025' in row 2, column 'day': order rows by numbers"
    ):
        read_arrays(path, order_by="day")


def test_columns_may_be_numbered(tmp_path):
    """As pandas does."""
    assert read_arrays(write(tmp_path / "own.csv", "0,1\n5,6\n")).X.tolist() == [[5, 6]]


@pytest.mark.parametrize("name", ["own.npz", "own.npy", "own.csv"])
def test_an_unreadable_file_is_named(tmp_path, name):
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


def test_an_unknown_type_is_refused(tmp_path):
    with pytest.raises(UsageError, match=r"own\.txt has an unknown type"):
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


def test_color_makes_all_images_rgb(tmp_path):
    picture(tmp_path / "a.png", 7)
    picture(tmp_path / "b.png", (1, 2, 3), mode="RGB")
    found = read_arrays(tmp_path)
    assert found.X.shape == (2, 3, 4, 3)
    assert found.X[:, 0, 0].tolist() == [[7, 7, 7], [1, 2, 3]]
    assert found.y is None


def test_images_of_several_sizes_are_resized(tmp_path):
    """To the size of most of them, else to the median; file names come along."""
    for name, size in (("x/a", (4, 3)), ("x/b", (8, 6)), ("y/c", (4, 3))):
        picture(tmp_path / f"{name}.png", (7, 8, 9), size, "RGB")
    with pytest.warns(UserWarning, match=r"1 of 3 images are resized to 4 x 3 pixels$"):
        found = read_arrays(tmp_path)
    assert found.X.shape == (3, 3, 4, 3)
    assert (found.X == [7, 8, 9]).all()
    assert found.files == ("x/a.png", "x/b.png", "y/c.png")
    picture(tmp_path / "y" / "d.png", 5, (6, 5))
    with pytest.warns(UserWarning, match=r"4 of 4 images are resized to 5 x 4 pixels$"):
        found = read_arrays(tmp_path)
    assert found.X[3, 0, 0].tolist() == [5, 5, 5]
    with pytest.warns(UserWarning, match=r"4 of 4 images are resized to 3 x 2 pixels$"):
        assert read_arrays(tmp_path, shape=(2, 3, 3)).X.shape == (4, 2, 3, 3), (
            "as a memory has them"
        )


@pytest.mark.parametrize(
    ("image", "folder", "named"),
    [
        ("cat/1.png", "owl", "owl"),
        ("day/cat/1.png", "day/owl", "day/owl"),
        ("day/cat/1.png", "night/owl", "night"),
    ],
)
@pytest.mark.parametrize("is_empty", [True, False])
def test_a_class_folder_without_images_is_named(tmp_path, image, folder, named, is_empty):
    picture(tmp_path / image, 0)
    (tmp_path / folder).mkdir(parents=True)
    if not is_empty:
        (tmp_path / folder / "1.heic").write_bytes(b"unknown")
    with pytest.raises(DataError) as refusal:
        read_arrays(tmp_path)
    assert str(refusal.value).startswith(f"{tmp_path / named} holds no images of a known format: ")


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        (np.array(["2024-01", "2024-02"], "M8[ns]"), "datetime64[ns]"),
        (np.array([1, 2], "m8[s]"), "timedelta64[s]"),
        (np.array([1 + 2j, 3]), "complex128"),
        (np.array([b"a", b"b"]), "|S1"),
    ],
)
def test_dates_complex_numbers_and_bytes_are_refused(tmp_path, values, shown):
    plain = {"X": np.zeros((2, 2)), "y": np.arange(2), "task": np.arange(2)}
    for part in plain:
        given = values[:, None] if part == "X" else values
        np.savez(tmp_path / "a.npz", **{**plain, part: given})
        with pytest.raises(DataError) as refusal:
            read_arrays(tmp_path / "a.npz")
        text = str(refusal.value)
        assert f"{part} {'is' if part == 'X' else 'has type'} {shown}" in text
        assert "\n" not in text


def test_a_task_without_a_name_is_refused(tmp_path):
    np.savez(tmp_path / "a.npz", X=np.zeros((2, 2)), y=np.arange(2), task=["", "b"])
    with pytest.raises(DataError, match="task has an empty name, give every row a task"):
        read_arrays(tmp_path / "a.npz")


def test_invalid_folders_and_images_are_refused(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="empty holds no images"):
        read_arrays(tmp_path / "empty")
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


def test_idx(tmp_path):
    path = tmp_path / "two"
    path.write_bytes(b"\0\0\x08\x02" + b"\0\0\0\x02" + b"\0\0\0\x03" + bytes([1, 2, 3, 4, 5, 6]))
    assert read_idx(path).tolist() == [[1, 2, 3], [4, 5, 6]]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "not an idx file"),
        (b"\0\0\x0d\x01\0\0\0\x01\0\0\0\0", "not an idx file"),
        (b"\0\0\x08\x01\0\0\0\x05abc", "has 11 bytes, expected 13"),
        (b"\0\0\x08\x03\0\0", "not an idx file"),
    ],
)
def test_an_invalid_idx_file_is_refused(tmp_path, content, reason):
    path = tmp_path / "damaged"
    path.write_bytes(content)
    with pytest.raises(DataError, match=f"damaged .*{reason}"):
        read_idx(path)


@pytest.mark.parametrize(
    "content",
    [b"no gzip", gzip.compress(b"\0\0\x08\x01\0\0\0\x01a", mtime=0)[:-9]],
    ids=["no gzip", "cut short"],
)
def test_an_invalid_gzip_file_is_refused(tmp_path, content):
    path = tmp_path / "damaged.gz"
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"damaged\.gz cannot be unpacked"):
        read_idx(path)


def test_photos_are_turned_as_their_camera_says(tmp_path):
    image = pytest.importorskip("PIL.Image")
    upright = np.zeros((8, 16), np.uint8)
    upright[:, :8] = 255
    for name, pixels, orientation in (("a", upright, 1), ("b", np.rot90(upright), 6)):
        folder = tmp_path / name
        folder.mkdir()
        exif = image.Exif()
        exif[0x0112] = orientation
        image.fromarray(np.ascontiguousarray(pixels)).save(folder / "0.png", exif=exif)
    np.testing.assert_array_equal(read_arrays(tmp_path).X, [upright, upright])
