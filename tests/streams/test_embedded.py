"""Embedded digits: no download, the same test rows for every seed."""

import numpy as np

from dgdmn.streams import load
from dgdmn.streams.images import interpolation_matrix


def test_interpolation_matrix():
    # Two pixels to four: centers at -1/4 (clipped to 0), 1/4, 3/4, 5/4 (clipped to 1).
    assert interpolation_matrix(2, 4).tolist() == [[1, 0], [0.75, 0.25], [0.25, 0.75], [0, 1]]
    np.testing.assert_allclose(interpolation_matrix(8, 28).sum(axis=1), 1)


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
    assert "not comparable with MNIST" in stream.note


def test_embedded_test_part_is_the_same_for_every_seed():
    one, other = (
        load("embedded", seed=1, validation=0.2)[4],
        load("embedded", seed=2, validation=0.2)[4],
    )
    np.testing.assert_array_equal(one.test.x, other.test.x)
    assert (one.validation.x != other.validation.x).any()
