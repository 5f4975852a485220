"""Charts: right places, gaps, and nothing that a name could break out of."""

import math
import xml.etree.ElementTree as ET

from hypothesis import given
from hypothesis import strategies as st

from dgdmn.report.charts import MARKERS, Axes, Series, line_chart, swatch, ticks
from dgdmn.report.colours import LOOKS, OTHER

AXES = Axes("title", "tasks", "accuracy", (1, 3))


def series_of(chart):
    return [one for one in ET.fromstring(str(chart)).iter("g") if one.get("class", "").startswith("s ")]


def test_a_line_with_a_gap():
    chart = line_chart([Series("a", "t0", (1, 2, 3), (0.0, math.nan, 1.0))], AXES)
    (one,) = series_of(chart)
    assert one.get("data-v") == "0 - 1"
    assert one[0].get("d") == "M46 174M310 10", (
        "the bottom left and the top right corner, and no line between"
    )


def test_series_of_other_places_are_aligned():
    chart = line_chart([Series("a", "t0", (1, 3), (0.1, 0.3)), Series("b", "t1", (2,), (0.2,))], AXES)
    assert [one.get("data-v") for one in series_of(chart)] == ["0.1 - 0.3", "- 0.2 -"]
    assert ET.fromstring(str(chart)).get("data-t") == "1 2 3"


@given(
    st.text(
        st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"], exclude_characters="\ufffe\uffff"),
        max_size=20,
    )
)
def test_any_name_is_text(name):
    axes = Axes(name, name, name, (0, 1), sleeps=(0.5,), line=(0.5, name))
    chart = line_chart([Series(name, "t0", (0, 1), (0, 1), name, marker="m")], axes)
    (one,) = series_of(chart)
    assert (one.get("data-n"), one.get("data-key", "")) == (name, name)
    assert ET.fromstring(str(chart)).get("aria-label") == name
    assert {node.tag for node in ET.fromstring(str(chart)).iter()} <= {"svg", "g", "path", "text"}


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6), st.integers(2, 12))
def test_ticks_are_few_and_inside(low, span, most):
    found = ticks(low, low + span, most)
    assert len(found) <= most
    assert all(low - span * 1e-6 <= tick <= low + span * (1 + 1e-6) for tick in found)


def test_every_look_has_its_marker():
    assert {look.marker for look in (*LOOKS.values(), OTHER)} <= set(MARKERS)
    assert 'marker-mid="url(#m)"' in swatch("t0", "m")
