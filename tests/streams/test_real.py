"""Streams of real data: sizes, splits, orders and what is said about missing or forged files."""

import gzip
import hashlib
import io
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from dgdmn.config.registry import STREAMS
from dgdmn.core.errors import DataError, UsageError
from dgdmn.streams import fetch, load
from dgdmn.streams.real import is_unbounded

from .conftest import idx

SIZES = {  # tasks, classes, shape, training rows, test rows
    "fashion": (10, 10, (28, 28), 60_000, 10_000),
    "split-fashion": (5, 10, (28, 28), 60_000, 10_000),
    "clinc150": (10, 150, (256,), 14_969, 4_500),
    "hapt": (6, 6, (141,), 7_587, 2_824),
    "hapt-users": (22, 6, (141,), 7_587, 22 * 2_824),
    "kdd99": (5, 5, (119,), 138_269, 77_291),
    "cifar100-features": (10, 100, (256,), 19_996, 10_000),
    "devanagari": (46, 46, (32, 32), 78_195, 13_800),
    "wine": (3, 3, (13,), 142, 36),
    "breast-cancer": (2, 2, (30,), 456, 113),
}
DRAWN = [name for name in SIZES if name != "hapt-users"]
"""Streams whose order the seed draws."""
TEST_USERS = {1, 5, 9, 13, 17, 21, 25, 29}

all_streams = pytest.mark.parametrize("name", SIZES)


@pytest.fixture
def data(request, name):
    """The real files, for streams that need some."""
    if STREAMS[name].dataset:
        request.getfixturevalue("real")


def hashes(x):
    return {row.tobytes() for row in x}


def test_these_are_all_streams_of_the_module():
    of_module = {name for name, info in STREAMS.items() if "streams.real:" in info.target}
    assert of_module == set(SIZES)


@all_streams
def test_nothing_is_read_before_a_task_is_indexed(name):
    stream, (tasks, classes, shape, *_) = load(name), SIZES[name]
    assert (stream.name, len(stream), len(stream.classes), stream.shape) == (
        name,
        tasks,
        classes,
        shape,
    )
    assert len(set(stream.task_names)) == tasks
    assert set(stream.classes) == set(range(classes))
    assert pickle.loads(pickle.dumps(stream)).task_names == stream.task_names


@all_streams
@pytest.mark.usefixtures("data")
def test_sizes_values_and_labels(name):
    stream, n_train, n_test = load(name), 0, 0
    for task, labels in zip(stream, stream.labels, strict=True):
        assert task.train.x.shape[1:] == task.test.x.shape[1:] == stream.shape
        assert task.train.x.dtype == task.test.x.dtype == np.float32
        assert task.train.y.dtype == task.test.y.dtype == np.int64
        assert set(task.train.y) == set(task.test.y) == set(labels)
        assert task.validation is None
        assert np.isfinite(task.train.x).all()
        if len(stream.shape) == 2:
            assert (task.train.x.min(), task.train.x.max()) == (0, 1)
        n_train, n_test = n_train + len(task.train), n_test + len(task.test)
    assert (n_train, n_test) == SIZES[name][3:]


@all_streams
@pytest.mark.usefixtures("data")
def test_no_test_row_is_trained_on(name):
    stream = load(name)
    tests = set().union(
        *(hashes(task.test.x) for task in stream[: 1 if stream.common_test else None])
    )
    assert all(tests.isdisjoint(hashes(task.train.x)) for task in stream)


@pytest.mark.parametrize("name", DRAWN)
def test_the_seed_draws_the_order(name):
    orders = [load(name, seed=seed).labels for seed in (*range(8), 0)]
    assert orders[0] == orders[-1]
    assert len(set(orders)) > 1
    assert max(map(len, load(name).task_names)) < 40


def test_names_follow_the_classes():
    fashion = load("fashion", seed=3)
    assert dict(zip(fashion.classes, fashion.task_names, strict=True))[0] == "T-shirt/top"
    clinc150 = load("clinc150", seed=3)
    labels = dict(zip(clinc150.task_names, clinc150.labels, strict=True))
    assert labels["banking"] == tuple(range(15, 30))
    assert {"ka", "gya", "digit 0", "digit 9"} <= set(load("devanagari").task_names)
    assert load("split-fashion").task_names[0].count(" + ") == 1
    assert load("cifar100-features").task_names[0].endswith(" and 9 more")
    assert {"normal", "dos", "probe", "r2l", "u2r"} == set(load("kdd99").task_names)


@pytest.mark.parametrize("name", ["fashion", "clinc150", "kdd99", "cifar100-features", "wine"])
@pytest.mark.usefixtures("data")
def test_test_rows_are_the_same_for_every_seed(name):
    one, other = load(name, seed=1), load(name, seed=2)
    label = min(min(labels) for labels in one.labels)
    rows = []
    for stream in (one, other):
        test = next(t for t, ls in zip(stream, stream.labels, strict=True) if label in ls).test
        rows.append(test.x[test.y == label])
    np.testing.assert_array_equal(*rows)


@pytest.mark.parametrize("name", ["split-fashion", "clinc150", "cifar100-features", "wine"])
@pytest.mark.usefixtures("data")
def test_validation_rows_are_cut_from_training_rows(name):
    whole, cut = load(name, seed=1)[0], load(name, seed=1, validation=0.2)[0]
    assert len(cut.validation) == round(0.2 * len(whole.train))
    assert len(cut.train) + len(cut.validation) == len(whole.train)
    assert hashes(cut.train.x) | hashes(cut.validation.x) == hashes(whole.train.x)
    np.testing.assert_array_equal(cut.test.x, whole.test.x)


@pytest.mark.usefixtures("real")
def test_rows_of_cifar100_are_shuffled():
    y = load("cifar100-features")[0].train.y
    assert np.count_nonzero(np.diff(y)) > 1_000  # sorted rows would change class nine times


@pytest.mark.usefixtures("real")
def test_clinc150_has_unknown_questions():
    stream = load("clinc150")
    test, validation = stream.unknown_rows(), stream.unknown_rows("validation")
    assert (test.shape, validation.shape) == ((1000, 256), (100, 256))
    assert test.dtype == np.float32
    known = set().union(*(hashes(task.train.x) | hashes(task.test.x) for task in stream))
    assert known.isdisjoint(hashes(test) | hashes(validation))
    assert hashes(test).isdisjoint(hashes(validation))


@pytest.mark.usefixtures("real")
def test_clinc150_numbers_intents_by_domain(real):
    with np.load(real / "clinc150" / "clinc150_wordllama256.npz") as file:
        domain, x = file["d_test"], file["X_test"]
    stream = load("clinc150", seed=5)
    for task, labels in zip(stream, stream.labels, strict=True):
        np.testing.assert_array_equal(task.test.x, x[domain == labels[0] // 15])
        assert np.bincount(task.test.y)[list(labels)].tolist() == [30] * 15


def test_only_clinc150_has_unknown_rows():
    assert [name for name in STREAMS if load(name).has_unknown] == ["clinc150"]
    with pytest.raises(UsageError, match="'wine' has no unknown rows"):
        load("wine").unknown_rows()
    with pytest.raises(UsageError, match="part is 'train': choose test or validation"):
        load("clinc150").unknown_rows("train")


def users_of(real, x):
    """The users of rows of HAPT."""
    with np.load(real / "hapt" / "hapt_features.npz") as file:
        user = {
            row.astype(np.float32).tobytes(): int(u)
            for row, u in zip(file["X"], file["user"], strict=True)
        }
    return {user[row.tobytes()] for row in x}


@pytest.mark.parametrize(("validation", "n"), [(0.0, 0), (0.01, 1), (0.1, 2), (0.2, 4), (0.95, 21)])
def test_hapt_holds_out_whole_users(real, validation, n):
    tasks = list(load("hapt", validation=validation))
    train, test = (
        users_of(real, np.concatenate([getattr(task, part).x for task in tasks]))
        for part in ("train", "test")
    )
    parts = [task.validation.x for task in tasks if task.validation is not None]
    held_out = users_of(real, np.concatenate(parts)) if parts else set()
    assert test == TEST_USERS
    assert len(held_out) == n
    assert train | held_out == set(range(1, 31)) - TEST_USERS
    assert train.isdisjoint(held_out)


def test_hapt_users_are_tasks_with_one_test_set(real):
    stream = load("hapt-users", validation=0.2, seed=1)
    assert stream.common_test
    assert stream.task_names[:3] == ("user 2", "user 3", "user 6")  # user 4 is held out
    assert stream.task_names == load("hapt-users", validation=0.2).task_names
    assert len(stream) == 18
    tasks = list(stream)
    assert [users_of(real, task.train.x) for task in tasks[:2]] == [{2}, {3}]
    for part in ("validation", "test"):
        rows = [getattr(task, part) for task in (tasks[0], tasks[-1])]
        np.testing.assert_array_equal(rows[0].x, rows[1].x)
    assert users_of(real, tasks[0].test.x) == TEST_USERS
    assert users_of(real, tasks[0].validation.x) == {4, 12, 19, 27}


def test_kdd99_numbers_without_a_bound_are_logarithms(real):
    with np.load(real / "kdd99" / "kddcup99_10pct.npz") as file:
        names, largest = file["num_names"].tolist(), file["num_train"].max(axis=0)
    logs = [name for name in names if is_unbounded(name)]
    assert logs[:4] == ["duration", "src_bytes", "dst_bytes", "hot"]
    assert len(logs) == 11
    assert max(n for name, n in zip(names, largest, strict=True) if name not in logs) == 511
    rows = np.concatenate([task.train.x for task in load("kdd99")])
    assert rows[:, names.index("src_bytes")].max() == pytest.approx(np.log1p(693_375_640))
    for first, last in ((38, 41), (41, 108), (108, 119)):
        assert (rows[:, first:last].sum(axis=1) == 1).all()
        assert set(np.unique(rows[:, first:last])) == {0, 1}


def test_devanagari_has_the_consonants_of_hindi(real):
    stream, hindi = load("devanagari"), load("hindi")
    task = stream[stream.task_names.index("ja")]
    np.testing.assert_array_equal(task.train.x, hindi[7].train.x)
    np.testing.assert_array_equal(task.test.x, hindi[7].test.x)


def png(value):
    file = io.BytesIO()
    Image.fromarray(np.full((32, 32), value, dtype=np.uint8)).save(file, "png")
    return file.getvalue()


def archive_of(folders):
    """One training and one test image of each class."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for number, folder in enumerate(folders):
            for split, shade in (("Train", number), ("Test", number + 100)):
                archive.writestr(f"Root/{split}/{folder}/1.png", png(shade))
    return content.getvalue()


def test_the_official_archive_has_the_same_classes(place, monkeypatch):
    monkeypatch.setattr(fetch, "IMAGES_PER_CONSONANT", {"Train": 1, "Test": 1})
    place("devanagari", {fetch.DHCD_ZIP: archive_of(fetch.CLASSES["devanagari"])})
    stream = load("devanagari")
    for task, (label,) in zip(stream, stream.labels, strict=True):
        assert round(float(task.train.x[0, 0, 0]) * 255) == label
        assert task.test.y.tolist() == [label]


def test_an_archive_with_consonants_only_is_refused(place, monkeypatch):
    monkeypatch.setattr(fetch, "IMAGES_PER_CONSONANT", {"Train": 1, "Test": 1})
    place("devanagari", {fetch.DHCD_ZIP: archive_of(fetch.CONSONANTS)})
    with pytest.raises(DataError, match="has no images in Train/character_9_jha"):
        load("devanagari")[0]


def test_a_training_row_that_is_also_a_test_row_is_left_out(place, monkeypatch):
    """Twelve training images of three classes; the first two are also test images."""
    images = np.arange(12, dtype=np.uint8)[:, None, None] * np.ones((28, 28), np.uint8)
    arrays = (images, np.repeat([0, 1, 2], 4).astype(np.uint8))
    names = [group[0] for group in fetch.DATASETS["fashion"]]
    contents = [arrays[0], arrays[1], arrays[0][:2], arrays[1][:2]]
    files = {name: gzip.compress(idx(a)) for name, a in zip(names, contents, strict=True)}
    for name, content in files.items():
        monkeypatch.setitem(fetch.HASHES, f"fashion/{name}", hashlib.sha256(content).hexdigest())
    place("fashion", files)
    stream = load("fashion")
    task = stream[stream.classes.index(0)]
    assert np.round(task.train.x[:, 0, 0] * 255).tolist() == [2, 3]
    assert len(task.test) == 2


@pytest.mark.parametrize("name", [name for name in SIZES if STREAMS[name].dataset])
def test_a_forged_file_is_refused(name, place):
    dataset = STREAMS[name].dataset
    place(dataset, {group[0]: b"forged" for group in fetch.DATASETS[dataset]})
    with pytest.raises(DataError, match=r"has sha256 [0-9a-f]+, expected [0-9a-f]+: delete it"):
        load(name)[0]


def test_files_of_mnist_are_not_those_of_fashion(real, tmp_path, monkeypatch):
    (tmp_path / "mixed").mkdir()
    (tmp_path / "mixed" / "fashion").symlink_to(real / "mnist")
    monkeypatch.setenv("DGDMN_DATA", str(tmp_path / "mixed"))
    with pytest.raises(DataError, match=r"fashion/.* has sha256"):
        load("fashion")[0]


@pytest.mark.parametrize("name", [name for name in SIZES if STREAMS[name].dataset])
def test_a_missing_file_is_named_with_the_places_and_a_way_to_get_it(name, cache):
    dataset = STREAMS[name].dataset
    with pytest.raises(DataError) as caught:
        load(name)[0]
    message = str(caught.value)
    assert message.startswith(f"cannot get {dataset}/{fetch.DATASETS[dataset][0][0]}")
    assert f"into {cache} or into a directory that DGDMN_DATA names" in message
    has_address = dataset in ("fashion", "devanagari")
    assert (
        "it has no public address, docs/streams.md says how it is made" in message
    ) != has_address
    assert "\n" not in message


def test_every_dataset_states_its_license_and_source():
    text = (Path(fetch.__file__).parent / "sources.toml").read_text("utf-8")
    for key in ("license", "source"):
        assert text.count(f"\n{key} = ") == len(fetch.DATASETS)
