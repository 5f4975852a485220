"""Missing values by conditional means: the formula by hand, properties, accuracy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dgdmn.memory.gaussian import MIN_SHRINKAGE, column_means, fill_from_rows, fill_missing, shrink

RNG = np.random.default_rng(0)
MIX = RNG.normal(size=(5, 5))
COVARIANCE, MEAN = MIX @ MIX.T, np.arange(5.0)
MANY = 1e12  # rows: no more than the least shrinkage


@pytest.mark.parametrize("pattern", [[0], [1, 3], [0, 2, 4], [0, 1, 2, 3]])
def test_the_formula_by_hand(pattern):
    """Few and many missing values take different paths to the same numbers."""
    x = RNG.normal(size=(3, 5)) @ MIX.T + MEAN
    sigma = shrink(COVARIANCE, MIN_SHRINKAGE, np.diag(COVARIANCE))
    m, o = np.array(pattern), np.setdiff1d(np.arange(5), pattern)
    inverse = np.linalg.inv(sigma[np.ix_(o, o)])
    expected = MEAN[m] + (x[:, o] - MEAN[o]) @ inverse @ sigma[np.ix_(o, m)]
    gaps = x.copy()
    gaps[:, m] = np.nan
    filled = fill_missing(gaps, MEAN, COVARIANCE, MANY)
    np.testing.assert_allclose(filled[:, m], expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(filled[:, o], x[:, o])


def test_rows_without_values_and_diagonals_get_the_mean():
    empty = np.full((2, 5), np.nan)
    np.testing.assert_array_equal(fill_missing(empty, MEAN, COVARIANCE, MANY), [MEAN, MEAN])
    row = np.array([[7.0, np.nan, 7, 7, 7]])
    assert fill_missing(row, MEAN, np.ones(5), MANY)[0, 1] == MEAN[1]
    assert fill_missing(row, MEAN, np.zeros((5, 5)), MANY)[0, 1] == MEAN[1], "no covariance yet"


def test_a_column_without_any_value_is_zero():
    X = np.array([[1.0, np.nan], [3.0, np.nan], [np.nan, np.nan]])
    np.testing.assert_array_equal(column_means(X), [2, 0])
    np.testing.assert_allclose(fill_from_rows(X), [[1, 0], [3, 0], [2, 0]])


numbers = st.floats(-1e6, 1e6, width=32)
rows = arrays(np.float64, (6, 4), elements=numbers)
gaps = arrays(bool, (6, 4))


@given(rows)
def test_rows_without_gaps_are_the_same_object(X):
    assert fill_missing(X, np.zeros(4), np.eye(4), 10) is X
    assert fill_from_rows(X) is X


@given(rows, gaps)
def test_known_values_stay_to_the_bit_and_nothing_is_missing(X, missing):
    given = np.where(missing, np.nan, X)
    for filled in (fill_from_rows(given), fill_missing(given, np.ones(4), np.eye(4), 10)):
        assert np.isfinite(filled).all()
        np.testing.assert_array_equal(filled[~missing], X[~missing])


def test_units_do_not_matter():
    X = RNG.normal(size=(50, 5)) @ MIX.T
    X[RNG.random(X.shape) < 0.3] = np.nan
    unit, shift = np.array([1, 1e3, 1e-3, 5, 1e6]), np.array([0, 7, -3, 1e4, 5])
    one = fill_from_rows(X) * unit + shift
    np.testing.assert_allclose(fill_from_rows(X * unit + shift), one, rtol=1e-6)
