"""Algorithm 1, lines 3-16: worked by hand, by its properties, and against the lines as printed."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dgdmn.memory.replay import allocate


@pytest.mark.parametrize(
    ("n_new", "age", "n_max", "kappa", "expected"),
    [
        pytest.param(6_000, 0, 60_000, 0.0, (6_000, 0), id="first task"),
        pytest.param(6_000, 12_000, 60_000, 0.0, (6_000, 12_000), id="below N_max: everything"),
        pytest.param(
            6_000, 12_000, 60_000, 1.0, (6_000, 12_000), id="below N_max: kappa is unused"
        ),
        pytest.param(30_000, 30_000, 60_000, 0.9, (30_000, 30_000), id="exactly N_max"),
        pytest.param(100, 300, 200, 0.0, (50, 150), id="above N_max: the share of the new samples"),
        pytest.param(60, 540, 100, 0.2, (20, 80), id="kappa 0.2 is more than a share of 0.1"),
        pytest.param(100, 300, 200, 0.2, (50, 150), id="kappa below the share is unused"),
        pytest.param(
            10, 990, 100, 0.5, (10, 90), id="kappa allows 50, ten are new: dreams fill up"
        ),
        pytest.param(10, 990, 100, 0.11, (10, 90), id="kappa allows one more than are new"),
        pytest.param(500, 0, 200, 0.1, (200, 0), id="more than N_max at age 0"),
        pytest.param(40, 1_000, 60, 1.0, (40, 20), id="kappa 1, fewer than N_max"),
        pytest.param(80, 1_000, 60, 1.0, (60, 0), id="kappa 1, more than N_max"),
        pytest.param(1, 10_000, 10, 0.0, (0, 10), id="kappa 0: a share that rounds to 0"),
        pytest.param(30_000, 210_000, 120_000, 0.05, (15_000, 105_000), id="TDigits, eighth sleep"),
        pytest.param(
            30_000, 210_000, 120_000, 0.25, (30_000, 90_000), id="the same, kappa per task"
        ),
    ],
)
def test_by_hand(n_new, age, n_max, kappa, expected):
    assert allocate(n_new, age, n_max, kappa) == expected


numbers = {
    "n_new": st.integers(1, 10**6),
    "age": st.integers(0, 10**7),
    "n_max": st.integers(1, 10**6),
    "kappa": st.floats(0, 1, allow_nan=False),
}


@given(**numbers)
def test_properties(n_new, age, n_max, kappa):
    n_tasks, n_gen = allocate(n_new, age, n_max, kappa)
    assert 0 <= n_tasks <= n_new
    assert n_gen >= 0
    assert n_tasks + n_gen == min(n_new + age, n_max)
    if n_new + age > n_max:
        assert n_tasks >= min(n_new, math.ceil(kappa * n_max - 1e-9))
        assert n_tasks >= min(n_new, int(n_new / (n_new + age) * n_max))


@given(**numbers)
def test_the_lines_as_printed(n_new, age, n_max, kappa):
    """The paper's text with its own variables; counts are real numbers there, whole ones here."""
    N_tasks, N_gen = float(n_new), float(age)  # lines 3-4
    if n_new + age > n_max:  # 5
        eta = max(kappa, n_new / (n_new + age))  # 6
        N_tasks = eta * n_max  # 7
        N_gen = n_max - N_tasks  # 8
    N_total = N_tasks + N_gen  # 10
    if N_tasks >= n_new:  # 13
        N_tasks, N_gen = n_new, N_total - n_new  # 14
    assert allocate(n_new, age, n_max, kappa) == pytest.approx((N_tasks, N_gen), abs=1)
