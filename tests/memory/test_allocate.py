"""Algorithm 1, lines 3-16, by hand and by its properties."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dgdmn.memory.replay import allocate


@pytest.mark.parametrize(
    ("n_new", "age", "n_max", "kappa", "expected"),
    [
        pytest.param(6_000, 0, 60_000, 0.0, (6_000, 0), id="first task"),
        pytest.param(6_000, 12_000, 60_000, 0.0, (6_000, 12_000), id="unsaturated: everything"),
        pytest.param(6_000, 12_000, 60_000, 1.0, (6_000, 12_000), id="unsaturated: kappa has no say"),
        pytest.param(30_000, 30_000, 60_000, 0.9, (30_000, 30_000), id="exactly full is not over"),
        pytest.param(100, 300, 200, 0.0, (50, 150), id="saturated: the new ones' share of all"),
        pytest.param(60, 540, 100, 0.2, (20, 80), id="kappa 0.2 beats a share of 0.1"),
        pytest.param(100, 300, 200, 0.2, (50, 150), id="kappa below the share has no say"),
        pytest.param(10, 990, 100, 0.5, (10, 90), id="kappa grants 50, ten came: the rest is dreams"),
        pytest.param(10, 990, 100, 0.11, (10, 90), id="one more granted than came"),
        pytest.param(500, 0, 200, 0.1, (200, 0), id="more than N_max at age 0"),
        pytest.param(40, 1_000, 60, 1.0, (40, 20), id="kappa 1, fewer than N_max"),
        pytest.param(80, 1_000, 60, 1.0, (60, 0), id="kappa 1, more than N_max"),
        pytest.param(1, 10_000, 10, 0.0, (0, 10), id="kappa 0: a share that rounds to nothing"),
        pytest.param(30_000, 210_000, 120_000, 0.05, (15_000, 105_000), id="TDigits, eighth sleep"),
        pytest.param(
            30_000, 210_000, 120_000, 0.25, (30_000, 90_000), id="the same, kappa a floor for each of five"
        ),
    ],
)
def test_by_hand(n_new, age, n_max, kappa, expected):
    assert allocate(n_new, age, n_max, kappa) == expected


@given(
    n_new=st.integers(1, 10**6),
    age=st.integers(0, 10**7),
    n_max=st.integers(1, 10**6),
    kappa=st.floats(0, 1, allow_nan=False),
)
def test_properties(n_new, age, n_max, kappa):
    n_tasks, n_gen = allocate(n_new, age, n_max, kappa)
    assert n_tasks >= 0
    assert n_gen >= 0
    assert n_tasks <= n_new
    assert n_tasks + n_gen == min(n_new + age, n_max)
    if n_new + age > n_max:
        assert n_tasks >= min(n_new, math.ceil(kappa * n_max - 1e-9))
        assert n_tasks >= min(n_new, int(n_new / (n_new + age) * n_max))
