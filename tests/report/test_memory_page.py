"""The page of a memory, from plain values: every kind of fact has its place, and names are text."""

import numpy as np

from dgdmn.report.memory_page import render_memory

SCRIPT = "<script>alert(1)</script>"


def facts(**changed):
    task = {"name": SCRIPT, "learned": "2026-01-02T03:04:05+00:00", "in": "long-term", "times": 2}
    known = {
        "name": "mine",
        "classes": {"a": 20.0, SCRIPT: 30.0},
        "tasks": [task | {"rows": 50, "classes": ["a", SCRIPT]}],
        "parts": {},
        "bytes": 2000,
        "rows_kept": 0,
        "budget": 0,
        "settings": {"algorithm": "DGDMN"},
        "slept": None,
        "evaluations": [],
        "dreams": {"why": ""},
        "test": None,
    }
    return known | changed


def test_names_are_text_and_control_characters_are_replaced():
    html = render_memory(facts(name="\x1b[31m"))
    assert html.count("<script>") == 1, "its own"
    assert "alert(1)" in html
    assert "\x1b" not in html


def test_images_and_evaluations():
    rows = np.full((3, 4, 4), 9, np.uint8)
    one = {"time": "2026-02-03T04:05:06+00:00", "data": SCRIPT, "rows": 7, "accuracy": 0.5}
    one |= {"macro": 0.25, "by_class": {}, "by_task": {}, "ece": 0.125, "unknown": None}
    html = render_memory(facts(dreams={"why": "", "images": {"a": rows}}, evaluations=[one]))
    assert 'alt="Dreams, one row for each label"' in html
    assert "2026-02-03 04:05:06" in html, "two evaluations of a minute differ"
    assert "`" not in html.partition("<main")[2].partition("</main>")[0]
    assert "2026-01-02 03:04" in html
    assert ".250</td><td>.125</td><td>–" in html


def test_tasks_show_their_first_and_latest_accuracy():
    one = {"time": "2026-02-03T04:05:06+00:00", "data": "a.csv", "rows": 8, "accuracy": 0.5}
    one |= {"macro": 0.25, "by_class": {}, "ece": 0.125, "unknown": None}
    history = [one | {"by_task": {SCRIPT: [right, 8]}} for right in (8, 7, 6)]
    assert "<td>1.000</td><td>.750</td></tr>" in render_memory(facts(evaluations=history))
    assert "<td>–</td><td>–</td></tr>" in render_memory(facts(evaluations=[one | {"by_task": {}}]))


def test_typical_values_of_named_columns_and_few_classes():
    def page(classes, named):
        rows = [(f"c{n}", [[155.2, 148.7], [0.963, 0.67]]) for n in range(classes)]
        typical = {"columns": ["width", "height"], "rows": rows, "of": 9, "named": named}
        return render_memory(facts(dreams={"why": "", "typical": typical}))

    html = page(20, True)
    assert html.count("<td>155 ± 149</td><td>0.96 ± 0.67</td>") == 20
    assert "in the 2 of 9 columns where the labels differ most" in html
    for hidden in (page(21, True), page(2, False)):
        assert "±" not in hidden
        assert "shown for tables with named columns and at most 20 classes" in hidden


def test_many_classes_have_a_list_of_mistakes():
    names = [f"c{n}" for n in range(60)]
    counts = {name: [int(n == m) for m in range(60)] for n, name in enumerate(names)}
    counts["c7"][8] = 5
    test = {
        "data": "d.csv",
        "rows": 65,
        "accuracy": 60 / 65,
        "macro": 0.9,
        "by_class": {name: (1, sum(row)) for name, row in counts.items()},
        "by_task": {},
        "answers": names,
        "confusion": counts,
        "bins": [(0.9, 0.5, 65)],
        "ece": 0.4,
        "unknown": 0.1,
    }
    html = render_memory(facts(test=test))
    assert 'class="heat"' not in html
    mistakes = html.partition("Most frequent mistakes")[2]
    assert '<td class="text">c8</td><td>5</td>' in mistakes
    assert "These are 50 of 60 classes." in html
    assert html.index(">c9 <") < html.index(">c10 <"), "as people count"
    assert "never learned" not in html
    test |= {"answers": names[:59], "confusion": {name: row[:59] for name, row in counts.items()}}
    test["by_class"]["c59"] = (0, 1)
    assert "1 row, never learned" in render_memory(facts(test=test))
    assert "Its accuracy on the 65 rows of d.csv is .923." in html
    assert ">.900 <small>65 rows" in html
