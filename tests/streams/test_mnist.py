"""Streams from MNIST: transformations on tiny data, counts on the real data."""

import gzip

import numpy as np
import pytest

from dgdmn.core.errors import UsageError
from dgdmn.streams import load
from dgdmn.streams.mnist import change_patch, read_mnist, reflect

TINY = np.array([[[1, 2], [3, 4]]])


@pytest.mark.usefixtures("tiny_mnist")
def test_digits_are_all_images_of_one_digit_in_order():
    train, test = read_mnist()
    learned = load("digits")[3]
    assert learned.name == "3"
    np.testing.assert_array_equal(learned.train.x, train.x[3::10].astype(np.float32) / 255)
    assert learned.train.x.dtype == np.float32
    assert learned.train.y.tolist() == [3] * 4
    np.testing.assert_array_equal(learned.test.x, test.x[3::10].astype(np.float32) / 255)


@pytest.mark.usefixtures("tiny_mnist")
def test_split_digits_are_pairs():
    stream = load("split-digits")
    assert stream.task_names == ("0/1", "2/3", "4/5", "6/7", "8/9")
    assert stream.classes == tuple(range(10))
    assert stream[1].train.y.tolist() == [2, 3] * 4
    assert stream[1].test.y.tolist() == [2, 3] * 2


@pytest.mark.parametrize(
    ("kind", "expected"),
    [(0, [[1, 2], [3, 4]]), (1, [[2, 1], [4, 3]]), (2, [[3, 4], [1, 2]]), (3, [[1, 3], [2, 4]])],
)
def test_tdigits_transformations(kind, expected):
    assert reflect(TINY, kind).tolist() == [expected]


@pytest.mark.usefixtures("tiny_mnist")
def test_tdigits_are_forty_tasks_of_forty_classes():
    stream = load("tdigits")
    assert len(stream) == 40
    assert stream.classes == tuple(range(40))
    assert [stream.task_names[i] for i in (3, 13, 23, 33)] == [
        "3",
        "3 mirrored",
        "3 upside down",
        "3 transposed",
    ]
    original = stream[3].train.x
    np.testing.assert_array_equal(stream[13].train.x, original[:, :, ::-1])
    np.testing.assert_array_equal(stream[33].test.x, stream[3].test.x.transpose(0, 2, 1))
    assert set(stream[33].train.y) == {33}


@pytest.mark.usefixtures("tiny_mnist")
def test_tdigits_with_ten_classes_come_digit_by_digit():
    stream, usual = load("tdigits", classes=10), load("tdigits")
    assert stream.classes == tuple(range(10))
    assert stream.labels[:6] == ((0,), (0,), (0,), (0,), (1,), (1,))
    assert stream.task_names[:5] == ("0", "0 mirrored", "0 upside down", "0 transposed", "1")
    assert sorted(stream.task_names) == sorted(usual.task_names)
    for name in ("1", "7 transposed"):
        here, there = (which[which.task_names.index(name)] for which in (stream, usual))
        np.testing.assert_array_equal(here.train.x, there.train.x)
        np.testing.assert_array_equal(here.test.y, there.test.y % 10)
    with pytest.raises(UsageError, match="classes is 20"):
        load("tdigits", classes=20)


@pytest.mark.usefixtures("tiny_mnist")
def test_permnist_is_in_the_papers_order():
    names = ("original", "8x8 black", "8x8 white", "8x8 permuted", "12x12 permuted", "mirrored")
    stream = load("permnist", train_size=30)
    assert stream.task_names == names
    assert stream.classes == tuple(range(10))
    assert [(len(t.train), len(t.test)) for t in stream] == [(30, 20)] * 6


@pytest.mark.parametrize(("number", "side"), [(1, 8), (2, 8), (3, 8), (4, 12)])
@pytest.mark.usefixtures("tiny_mnist")
def test_permnist_changes_the_central_patch_only(number, side):
    original = read_mnist()[1].x
    changed = change_patch(original, number, seed=0)
    start, stop = (28 - side) // 2, (28 + side) // 2
    outside = np.ones((28, 28), dtype=bool)
    outside[start:stop, start:stop] = False
    np.testing.assert_array_equal(changed[:, outside], original[:, outside])
    assert (changed[:, start, start:stop] != original[:, start, start:stop]).any()
    patch, before = changed[:, ~outside], original[:, ~outside]
    if number == 1:
        assert (patch == 0).all()
    elif number == 2:
        assert (patch == 255).all()
    else:
        order = [
            int(np.flatnonzero((before == column[:, None]).all(axis=0))[0]) for column in patch.T
        ]
        assert sorted(order) == list(range(side * side))
        assert order != list(range(side * side))


@pytest.mark.usefixtures("tiny_mnist")
def test_permnist_mirrors_the_last_task_and_copies_its_input():
    x = np.arange(28 * 28, dtype=np.int64).reshape(1, 28, 28).astype(np.uint8)
    before = x.copy()
    assert change_patch(x, 5, 0)[0, 0, 0] == x[0, 0, 27]
    for number in range(6):
        change_patch(x, number, 0)
    np.testing.assert_array_equal(x, before)


@pytest.mark.usefixtures("tiny_mnist")
def test_permnist_permutation_comes_from_the_seed():
    x = read_mnist()[1].x
    np.testing.assert_array_equal(change_patch(x, 3, 7), change_patch(x, 3, 7))
    assert (change_patch(x, 3, 7) != change_patch(x, 3, 8)).any()


@pytest.mark.usefixtures("tiny_mnist")
def test_permnist_draws_new_images_for_each_task():
    stream = load("permnist", train_size=20)
    mirrored_back = stream[5].train.x[:, :, ::-1]
    assert stream[0].train.x.shape == mirrored_back.shape
    assert (stream[0].train.x != mirrored_back).any()
    np.testing.assert_array_equal(stream[0].train.x, load("permnist", train_size=20)[0].train.x)
    assert (stream[0].train.x != load("permnist", train_size=20, seed=1)[0].train.x).any()
    assert len(np.unique(stream[0].train.x, axis=0)) == 20  # without repetition


@pytest.mark.usefixtures("tiny_mnist")
def test_permnist_cannot_draw_more_than_there_is():
    with pytest.raises(UsageError, match="train_size is 30000: the training set has 40"):
        load("permnist")[0]
    with pytest.raises(UsageError, match="train_size is 0"):
        load("permnist", train_size=0)


@pytest.mark.usefixtures("real")
def test_real_digits_are_counted():
    tasks = list(load("digits", validation=0.1))
    assert sum(len(t.train) + len(t.validation) for t in tasks) == 60_000
    assert [len(t.test) for t in tasks] == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]


@pytest.mark.usefixtures("real")
def test_real_permnist_is_counted():
    learned = load("permnist")[2]
    assert (len(learned.train), len(learned.test)) == (30_000, 10_000)
    assert (learned.train.x[:, 10:18, 10:18] == 1).all()
    assert learned.train.x[:, 9, 10:18].min() == 0


@pytest.mark.usefixtures("tiny_mnist")
def test_mnist_is_parsed_once_and_read_only(monkeypatch):
    first = read_mnist()
    monkeypatch.setattr(gzip, "decompress", lambda *_: pytest.fail("parsed twice"))
    assert read_mnist() is first
    with pytest.raises(ValueError, match="read-only"):
        first[0].x[0, 0, 0] = 1
