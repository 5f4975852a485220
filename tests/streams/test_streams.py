"""Each dataset: transformations by hand on tiny data, counts on the real data."""

import numpy as np
import pytest

from dgdmn.errors import UsageError
from dgdmn.streams import embedded, known, load, permnist, pixels, tdigits

TINY = np.array([[[1, 2], [3, 4]]])


@pytest.mark.usefixtures("tiny_mnist")
def test_digits_are_all_images_of_one_digit_in_order():
    mnist = pixels.mnist()
    learnt = load("digits")[3]
    assert learnt.name == "3"
    np.testing.assert_array_equal(learnt.train.x, mnist.train_x[3::10].astype(np.float32) / 255)
    assert learnt.train.x.dtype == np.float32
    assert learnt.train.y.tolist() == [3] * 4
    np.testing.assert_array_equal(learnt.test.x, mnist.test_x[3::10].astype(np.float32) / 255)


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
def test_tdigits_transformations_by_hand(kind, expected):
    assert tdigits.transform(TINY, kind).tolist() == [expected]


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
def test_tdigits_can_have_ten_classes():
    stream = load("tdigits", labels="ten")
    assert stream.classes == tuple(range(10))
    assert set(stream[33].train.y) == {3}
    with pytest.raises(UsageError, match="labels is 'twenty'"):
        load("tdigits", labels="twenty")


@pytest.mark.usefixtures("tiny_mnist")
def test_tdigits_can_come_digit_by_digit():
    stream, usual = load("tdigits", order="digit"), load("tdigits")
    assert stream.task_names[:5] == ("0", "0 mirrored", "0 upside down", "0 transposed", "1")
    assert sorted(stream.task_names) == sorted(usual.task_names)
    for name in ("1", "7 transposed"):
        here, there = (which[which.task_names.index(name)] for which in (stream, usual))
        np.testing.assert_array_equal(here.train.x, there.train.x)
        np.testing.assert_array_equal(here.test.y, there.test.y)
    assert stream.labels[:6] == ((0,), (10,), (20,), (30,), (1,), (11,))
    with pytest.raises(UsageError, match="order is 'size'"):
        load("tdigits", order="size")


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
    original = pixels.mnist().test_x
    changed = permnist.transform(original, number, seed=0)
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
        order = [int(np.flatnonzero((before == column[:, None]).all(axis=0))[0]) for column in patch.T]
        assert sorted(order) == list(range(side * side))
        assert order != list(range(side * side))


@pytest.mark.usefixtures("tiny_mnist")
def test_permnist_mirrors_last_and_leaves_the_source_alone():
    x = np.arange(28 * 28, dtype=np.int64).reshape(1, 28, 28).astype(np.uint8)
    before = x.copy()
    assert permnist.transform(x, 5, 0)[0, 0, 0] == x[0, 0, 27]
    for number in range(6):
        permnist.transform(x, number, 0)
    np.testing.assert_array_equal(x, before)


@pytest.mark.usefixtures("tiny_mnist")
def test_permnist_permutation_is_the_streams_own():
    x = pixels.mnist().test_x
    np.testing.assert_array_equal(permnist.transform(x, 3, 7), permnist.transform(x, 3, 7))
    assert (permnist.transform(x, 3, 7) != permnist.transform(x, 3, 8)).any()


@pytest.mark.usefixtures("tiny_mnist")
def test_permnist_draws_anew_for_each_task():
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


def test_bilinear_by_hand():
    # Two pixels to four: centres at -1/4 (clipped to 0), 1/4, 3/4, 5/4 (clipped to 1).
    assert embedded.bilinear(2, 4).tolist() == [[1, 0], [0.75, 0.25], [0.25, 0.75], [0, 1]]
    np.testing.assert_allclose(embedded.bilinear(8, 28).sum(axis=1), 1)


def test_embedded_digits_need_no_file():
    stream = load("embedded", seed=1)
    tasks = list(stream)
    assert stream.task_names == tuple("0123456789")
    assert sum(len(t.train) + len(t.test) for t in tasks) == 1797
    for t in tasks:
        assert abs(len(t.test) - (len(t.train) + len(t.test)) / 5) <= 0.5
        assert t.train.x.shape[1:] == (28, 28)
        assert t.train.x.dtype == np.float32
        assert 0 <= t.train.x.min() < 0.01
        assert 0.99 < t.train.x.max() <= 1
    assert "not MNIST" in stream.note


def test_embedded_test_part_is_the_same_for_every_seed():
    one, other = load("embedded", seed=1, validation=0.2)[4], load("embedded", seed=2, validation=0.2)[4]
    np.testing.assert_array_equal(one.test.x, other.test.x)
    assert (one.validation.x != other.validation.x).any()


def test_hindi_has_eight_consonants():
    stream = load("hindi")
    assert stream.task_names == ("ka", "kha", "ga", "gha", "kna", "cha", "chha", "ja")
    assert (stream.classes, stream.shape) == (tuple(range(8)), (32, 32))


@pytest.mark.usefixtures("real")
def test_real_digits_are_counted():
    tasks = list(load("digits", validation=0.1))
    assert sum(len(t.train) + len(t.validation) for t in tasks) == 60_000
    assert [len(t.test) for t in tasks] == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]


@pytest.mark.usefixtures("real")
def test_real_permnist_is_counted():
    learnt = load("permnist")[2]
    assert (len(learnt.train), len(learnt.test)) == (30_000, 10_000)
    assert (learnt.train.x[:, 10:18, 10:18] == 1).all()
    assert learnt.train.x[:, 9, 10:18].min() == 0


@pytest.mark.usefixtures("real")
def test_real_hindi_is_counted():
    tasks = list(load("hindi"))
    assert {(len(t.train), len(t.test)) for t in tasks} == {(1700, 300)}
    assert tasks[7].train.y[0] == 7
    assert tasks[0].train.x.max() == 1
    assert (tasks[0].train.x[:, :2] == 0).all()  # the two black border rows of every image


@pytest.mark.usefixtures("real")
def test_real_files_are_all_whole():
    from dgdmn.streams import sources

    verdicts = [v for name in known.DATASETS for v in sources.verify(name)]
    assert len(verdicts) == 4 + 6 + 1
    assert [v.file for v in verdicts if not v.ok] == []
