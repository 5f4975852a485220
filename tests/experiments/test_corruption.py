"""Noise and occlusion by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dgdmn import paper
from dgdmn.experiments.corruption import noisy, occluded


def test_noise_is_what_is_drawn_times_its_sd_and_is_not_clipped():
    x = np.full((3, 4, 4), 0.9, np.float32)
    drawn = np.random.default_rng(5).standard_normal(x.shape, dtype=np.float32)
    spoilt = noisy(x, 0.5, np.random.default_rng(5))
    assert spoilt.dtype == np.float32
    np.testing.assert_allclose(spoilt, 0.9 + 0.5 * drawn, rtol=1e-6)
    assert spoilt.max() > 1
    assert (x == np.float32(0.9)).all(), "the rows themselves stay"


def test_the_noise_of_many_pixels_has_its_sd():
    spread = noisy(np.zeros((100, 28, 28), np.float32), 0.25, np.random.default_rng(0)).std()
    assert spread == pytest.approx(0.25, rel=0.02)


def test_the_squares_of_the_paper_have_three_sizes():
    """Its plateaus: half-widths of int(14 · factor) = 1, 1, 2, 2, 3, 3, 3 pixels, around pixel 14."""
    x = np.ones((2, 28, 28), np.float32)
    for factor, half in zip(paper.curve("occlusion").x, [1, 1, 2, 2, 3, 3, 3], strict=True):
        expected = np.ones((28, 28))
        expected[14 - half : 15 + half, 14 - half : 15 + half] = 0
        assert (occluded(x, factor) == expected).all()
    assert (x == 1).all(), "the rows themselves stay"


@given(st.integers(1, 40), st.integers(1, 40), st.floats(0, 0.9), st.booleans())
def test_any_picture_loses_a_square_in_its_middle_and_nothing_else(height, width, factor, coloured):
    shape = (1, height, width, 3) if coloured else (1, height, width)
    black = occluded(np.ones(shape, np.float32), factor) == 0
    rows, columns = np.nonzero(black.reshape(height, width, -1)[:, :, 0])
    tall, wide = int(factor * height / 2), int(factor * width / 2)
    assert black.sum() == (2 * tall + 1) * (2 * wide + 1) * (tall > 0 < wide) * (3 if coloured else 1)
    if len(rows):
        assert (rows.min(), rows.max()) == (height // 2 - tall, height // 2 + tall)
        assert (columns.min(), columns.max()) == (width // 2 - wide, width // 2 + wide)
