"""GEM's projection: no task is harmed, and two other solvers agree."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import minimize

from dgdmn.algorithms.gem import projected

NUMBERS = st.floats(-100, 100, width=32).map(lambda value: 0.0 if abs(value) < 1e-3 else value)


def bent(g, G, margin=0.0):
    return projected(torch.as_tensor(g), torch.as_tensor(G), margin).numpy()


def check_harmless(g, G, margin):
    x = bent(g, G, margin)
    scale = np.linalg.norm(G, axis=1) * max(np.linalg.norm(g), np.linalg.norm(x)) + 1e-30
    assert (G @ x / scale).min() > -1e-5


@given(st.data(), st.integers(1, 6), st.integers(1, 8), st.sampled_from([0.0, 0.5, 2.0]))
def test_a_bent_gradient_harms_no_task(data, t, p, margin):
    draw = lambda shape: data.draw(arrays(np.float64, shape, elements=NUMBERS))  # noqa: E731
    check_harmless(draw(p), draw((t, p)), margin)


@pytest.mark.parametrize("seed", [378, 2418, 2795, 7764])
@pytest.mark.parametrize("margin", [0.0, 0.5])
def test_nor_where_gradients_depend_on_each_other(seed, margin):
    rng = np.random.default_rng(seed)  # nnls alone stops early on these
    G = rng.normal(size=(8, 2)) @ rng.normal(size=(2, 9))
    check_harmless(rng.normal(size=9), G, margin)


@pytest.mark.parametrize("seed", range(8))
def test_it_is_the_nearest_such_gradient_and_with_a_margin_the_duals(seed):
    rng = np.random.default_rng(seed)
    G, g = rng.normal(size=(3, 5)), rng.normal(size=5)
    g -= G[0] * max(0, 1.1 * (G[0] @ g) / (G[0] @ G[0]))  # harms at least one
    primal = minimize(
        lambda x: 0.5 * ((x - g) ** 2).sum(), g, jac=lambda x: x - g, method="SLSQP", options={"ftol": 1e-14},
        constraints={"type": "ineq", "fun": lambda x: G @ x, "jac": lambda x: G},
    )  # fmt: skip
    np.testing.assert_allclose(bent(g, G), primal.x, atol=1e-5)
    dual = minimize(
        lambda v: 0.5 * v @ G @ G.T @ v + g @ G.T @ v, np.ones(3), jac=lambda v: G @ (G.T @ v + g),
        bounds=[(0.5, None)] * 3, options={"ftol": 1e-15, "gtol": 1e-10},
    )  # fmt: skip
    np.testing.assert_allclose(bent(g, G, 0.5), G.T @ dual.x + g, atol=1e-4)


def test_by_hand():
    assert bent([1.0, -1.0], [[0.0, 2.0]]).tolist() == pytest.approx([1, 0], abs=1e-9)
    assert bent([1.0, -0.1], [[0.0, 1.0]], 0.5).tolist() == pytest.approx([1, 0.4]), "v is γ at least"
    assert bent([-1.0, 3.0], [[1.0, 0.0], [0.0, 0.0]]).tolist() == pytest.approx([0, 3], abs=1e-9), (
        "nothing to harm"
    )


def test_a_gradient_that_harms_nobody_is_left_alone():
    g, G = torch.tensor([1.0, 0.1]), torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, -8.0]])
    assert projected(g, G, 0.5) is g
    assert projected(g * torch.nan, G, 0.5).isnan().all(), "the loss will tell"
