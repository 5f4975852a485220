"""NCM, SLDA and Ridge against their joint solutions; sums do not depend on order or batches."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import Ridge as JointRidge
from sklearn.neighbors import NearestCentroid
from sklearn.preprocessing import StandardScaler

from dgdmn import NCM, SLDA, Ridge
from dgdmn.memory.gaussian import Moments, moments_of, pack, shrink, solve, unpack


def blobs(k=4, n=50, d=70, seed=0):
    """Classes of equal size with one common covariance."""
    rng = np.random.default_rng(seed)
    mix = rng.normal(size=(d, d)) / np.sqrt(d)
    means = rng.normal(size=(k, d))
    X = np.concatenate([mean + rng.normal(size=(n, d)) @ mix for mean in means])
    return X, np.repeat(np.arange(k), n)


def learn_by_class(model, X, y, order):
    for label in order:
        model.partial_fit(X[y == label], y[y == label], task=str(label))
    return model


@pytest.mark.parametrize("shrinkage", [0.01, 0.3])
def test_slda_is_joint_lda_of_standardized_columns(shrinkage):
    X, y = blobs()
    unit = StandardScaler().fit_transform(X)
    joint = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=shrinkage, priors=[0.25] * 4)
    joint.fit(unit, y)
    model = learn_by_class(SLDA(shrinkage=shrinkage), X, y, [2, 0, 3, 1])
    np.testing.assert_allclose(model.predict_proba(X), joint.predict_proba(unit), atol=1e-6)


def test_ridge_is_the_joint_solution():
    X, y = blobs()
    model = learn_by_class(Ridge(shrinkage=1e-3, ridge_units=40), X, y, [1, 3, 0, 2])
    memory = model.fitted_.memory
    hidden = memory._hidden(X)
    penalty = 1e-3 * float((hidden**2).sum(axis=0).mean())
    joint = JointRidge(alpha=penalty, fit_intercept=False, solver="cholesky")
    joint.fit(hidden, np.eye(4)[y][:, model.fitted_.labels])
    weights, _ = memory.sums.sums.head(1e-3)
    np.testing.assert_allclose(weights, joint.coef_.T, atol=1e-8)


def test_ncm_is_the_nearest_centroid_of_standardized_columns():
    X, y = blobs()
    unit = StandardScaler().fit_transform(X)
    joint = NearestCentroid().fit(unit, y)
    model = learn_by_class(NCM(), X, y, [3, 2, 1, 0])
    assert np.array_equal(model.predict(X), joint.predict(unit))


@pytest.mark.parametrize("make", [NCM, SLDA, Ridge])
def test_the_order_of_tasks_does_not_matter(make):
    X, y = blobs()
    options = {"ridge_units": 40} if make is Ridge else {}
    options |= {} if make is NCM else {"shrinkage": 0.01}
    options |= {"scale": (0, 1)} if make is Ridge else {}  # the first call's otherwise
    one, two = (
        learn_by_class(make(**options), X, y, order) for order in ([0, 1, 2, 3], [3, 1, 0, 2])
    )
    np.testing.assert_allclose(one.predict_proba(X), two.predict_proba(X), atol=1e-8)


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_moments_do_not_depend_on_batches(data):
    n, d, k = data.draw(st.integers(1, 30)), data.draw(st.integers(1, 6)), 3
    rng = np.random.default_rng(data.draw(st.integers(0, 1000)))
    x = rng.normal(100, 10.0 ** rng.integers(-3, 4), size=(n, d))
    group = rng.integers(0, k, n)
    cuts = sorted(data.draw(st.lists(st.integers(0, n), max_size=6)))
    order = rng.permutation(n)
    whole, parts = moments_of(x, group, k), Moments.empty(k, d)
    for rows in np.split(order, cuts):
        parts = parts.add(x[rows], group[rows])
    assert np.array_equal(whole.counts, parts.counts)
    np.testing.assert_allclose(parts.means, whole.means, rtol=1e-12)
    largest = max(1.0, float(np.abs(whole.scatter).max()))
    np.testing.assert_allclose(parts.scatter, whole.scatter, rtol=1e-9, atol=1e-10 * largest)
    diagonal = moments_of(x, group, k, diagonal=True)
    np.testing.assert_allclose(
        diagonal.scatter, np.diag(whole.scatter), rtol=1e-9, atol=1e-12 * largest
    )


def test_moments_by_hand():
    moments = moments_of(np.array([[1.0], [3.0], [10.0]]), np.array([0, 0, 1]), 2)
    assert moments.counts.tolist() == [2, 1]
    assert moments.means.tolist() == [[2], [10]]
    assert moments.scatter.tolist() == [[2]]  # (1 - 2)² + (3 - 2)²
    more = moments.add(np.array([[14.0]]), np.array([1]))
    np.testing.assert_allclose(more.scatter, [[10]])


def test_a_constant_column_does_not_make_the_covariance_singular():
    covariance = np.diag([4.0, 0.0])
    shrunk = shrink(covariance, 0.01, np.array([8.0, 2.0]))
    np.testing.assert_allclose(shrunk, [[0.99 * 4 + 0.01 * 0.25 * 8, 0], [0, 0.01 * 0.25 * 2]])
    assert np.isfinite(solve(shrunk, np.ones((2, 1)))).all()
    assert shrink(np.zeros((1, 1)), 0.01, np.zeros(1)).item() == 1, "no row varies"
    assert np.array_equal(unpack(pack(covariance), 2), covariance)


def test_held_out_rows_choose_the_shrinkage():
    X, y = blobs(k=2, n=40, d=200)  # more columns than rows of a class: it must shrink
    model = learn_by_class(SLDA(), X, y, [0, 1])
    memory = model.fitted_.memory
    assert memory.right.sum() > 0
    assert memory.setting in memory.settings
    fixed = learn_by_class(SLDA(shrinkage=memory.setting), X, y, [0, 1])
    np.testing.assert_allclose(model.predict_proba(X), fixed.predict_proba(X), atol=1e-9)


@pytest.mark.parametrize("make", [NCM, SLDA, Ridge])
def test_units_of_the_columns_do_not_matter(make):
    X, y = blobs(d=10)
    options = {"ridge_units": 40} if make is Ridge else {}
    factors = 10.0 ** np.arange(-5, 5)
    plain = learn_by_class(make(**options), X, y, range(4)).predict_proba(X)
    scaled = X * factors + 3
    other = learn_by_class(make(**options), scaled, y, range(4)).predict_proba(scaled)
    np.testing.assert_allclose(plain, other, atol=1e-5)


def test_bytes_are_those_of_the_arrays():
    X, y = blobs()
    model = SLDA().fit(X, y)
    d, k = X.shape[1], 4
    arrays = 8 * (d * (d + 1) // 2 + k * d + k) + 8 * 5  # triangle, means, counts, right answers
    assert model.memory_bytes() - arrays == 8 * 2 * 8  # the front end's fingerprint
