"""The verdict rule, and the paper's numbers as data."""

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from reproduction import paper
from reproduction.paper import compare, tolerance

accuracies = st.floats(0, 1)


@pytest.mark.parametrize(
    ("values", "published", "verdict"),
    [
        ([], 0.8, "not run yet"),
        ([0.8], None, ""),
        ([0.8], 0.82, "single run, matches"),
        ([0.8], 0.83, "single run, lower"),
        ([0.8], 0.77, "single run, higher"),
        ([0.80, 0.80, 0.80], 0.82, "matches"),  # .02 exactly
        ([0.80, 0.80, 0.80], 0.78, "matches"),
        ([0.80, 0.80, 0.80], 0.8201, "lower"),
        ([0.80, 0.80, 0.80], 0.7799, "higher"),
        ([0.75, 0.85], 0.97, "matches"),  # sd .0707, 2 · sd · √1.5 = .173
        ([0.75, 0.85], 0.98, "lower"),
        ([0.75, 0.85], 0.62, "higher"),
        ([-1.0, -1.0], -0.778, "lower"),
    ],
)
def test_the_rule_by_hand(values, published, verdict):
    assert compare(values, published) == verdict


@given(st.lists(accuracies, min_size=2, max_size=8), accuracies)
def test_the_rule_is_the_formula_and_has_two_sides(values, published):
    allowed = max(0.02, 2 * np.std(values, ddof=1) * math.sqrt(1 + 1 / len(values)))
    assert tolerance(values) == pytest.approx(allowed)
    difference = np.mean(values) - published
    assume(abs(abs(difference) - allowed) > 1e-6)
    expected = "matches" if abs(difference) < allowed else "higher" if difference > 0 else "lower"
    assert compare(values, published) == expected
    mirrored = {"matches": "matches", "higher": "lower", "lower": "higher"}[expected]
    assert compare([-value for value in values], -published) == mirrored


ACC = r"""
NN & 0.1 & 0.588 & 0.167 & 0.125 \\
DropNN & 0.1 & 0.59 & 0.167 & 0.125 \\
PPR & 0.1 & 0.574 & 0.167 & 0.134 \\
EWC & 0.1 & 0.758 & 0.167 & 0.125 \\
DGR & 0.596 & 0.861 & 0.661 & 0.731 \\
DGDMN & 0.818 & 0.831 & 0.722 & 0.658
"""
BWT = r"""
NN & -0.778 & -0.434 & -0.4 & -1.0 \\
DropNN & -1.0 & -0.43 & -0.8 & -1.0 \\
PPR & -0.444 & -0.452 & -0.2 & -0.989 \\
EWC & -1.0 & -0.05 & -1.0 & -1.0 \\
DGR & -0.425 & -0.068 & -0.288 & -0.270 \\
DGDMN & -0.15 & -0.075 & -0.261 & -0.335
"""


@pytest.mark.parametrize(("metric", "latex"), [("acc", ACC), ("bwt", BWT)])
def test_the_tables_are_those_of_the_paper(metric, latex):
    for line in latex.replace("\\", "").strip().splitlines():
        name, *values = line.split("&")
        for stream, value in zip(("digits", "permnist", "shapes", "hindi"), values, strict=True):
            assert paper.published(metric, name.strip().lower(), stream) == float(value)


def test_curves_have_a_value_for_each_x():
    names = ("tdigits_seconds", "tdigits_average", "tdigits_last10", "digits_average", "noise")
    for name in (*names, "permnist_average", "occlusion"):
        curve = paper.curve(name)
        assert len(curve) > 1
        assert {len(values) for values in curve.values()} == {len(curve["x"])}
    assert paper.curve("unknown") == {}
    assert paper.published("last10", "dgdmn", "tdigits") == 0.833
    assert paper.published("acc", "joint", "digits") is None
