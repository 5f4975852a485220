"""The page of a memory on disk. The command line gathers the facts; this module only arranges them."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from dgdmn.core.text import count_noun, format_bytes, format_percent, format_ratio, sort_by_accuracy
from dgdmn.report.images import picture
from dgdmn.report.load import printable_texts
from dgdmn.report.page import render_page
from dgdmn.report.sections import Data
from dgdmn.report.sections.curves import heat_cell

MAX_ROWS = 50  # tasks, classes and evaluations that are listed; the last ones, or the worst
MAX_CLASSES = 20  # classes whose confusion and typical values fit on a page


def render_memory(facts: Mapping[str, Any]) -> str:
    """The page of a memory: what it knows, what it keeps, and how it did in tests."""
    facts = printable_texts(facts)
    test, dreams = facts["test"], facts["dreams"]
    part_of = facts["budget"] or facts["bytes"] or 1
    data: Data = {**facts, "title": f"Memory {facts['name']}", "text": _summary(facts)}
    data |= {"sheet": None, "typical": None, "most": MAX_ROWS, "few": MAX_CLASSES}
    tests = [*facts["evaluations"], *([test] if test else [])]
    data["accuracies"] = {
        task["name"]: _first_and_last(task["name"], tests) for task in facts["tasks"]
    }
    if images := dreams.get("images"):
        columns = max(map(len, images.values()))
        data["sheet"] = picture(list(images.values()), columns, "Dreams, one row for each label")
    if typical := dreams.get("typical"):
        few = typical["named"] and len(typical["rows"]) <= MAX_CLASSES
        cells = [(label, [format_spread(*one) for one in row]) for label, row in typical["rows"]]
        data["typical"] = typical | {"rows": cells if few else []}
    parts = facts["parts"] or {"everything": facts["bytes"]}
    data["part_bars"] = [(k, "", n / part_of, format_bytes(n), None, "") for k, n in parts.items()]
    return render_page("memory.html", data | (_test(test) if test else {}))


def format_spread(mean: float, spread: float) -> str:
    """A mean and a standard deviation with the same decimals.

    >>> format_spread(155.2, 148.7), format_spread(-0.963, 0.6712), format_spread(-0.01, 1.0)
    ('155 ± 149', '−0.96 ± 0.67', '0.0 ± 1.0')
    """
    decimals = min(6, max(0, 1 - math.floor(math.log10(spread or 1.0))))
    return f"{mean:z,.{decimals}f} ± {spread:,.{decimals}f}".replace("-", "−")


def _first_and_last(task: str, tests: Sequence[Mapping[str, Any]]) -> tuple[str, str]:
    """Accuracy on a task in the first and in the last test that had rows of it."""
    counts = [test["by_task"][task] for test in tests if task in test["by_task"]]
    shares = [right / n for right, n in counts]
    return (format_ratio(shares[0]), format_ratio(shares[-1])) if shares else ("–", "–")


def _summary(facts: Mapping[str, Any]) -> str:
    classes, tasks = len(facts["classes"]), len(facts["tasks"])
    rows = sum(task.get("rows") or 0 for task in facts["tasks"])
    learned = f" from {count_noun(rows, 'row')}" if rows else ""
    known = f"{count_noun(classes, 'class', 'classes')} of {count_noun(tasks, 'task')}"
    size = format_bytes(facts["bytes"])
    size += f" of a budget of {format_bytes(facts['budget'])}" if facts["budget"] else ""
    keeps = "and some training rows" if facts["rows_kept"] else "and no training row"
    text = [f"This memory knows {known}, learned{learned}. It keeps {size} {keeps}."]
    if test := facts["test"]:
        share, rows = format_ratio(test["accuracy"]), count_noun(test["rows"], "row")
        text.append(f"Its accuracy on the {rows} of {test['data']} is {share}.")
        if why := test.get("why"):
            text.append(f"{why[0].upper()}{why[1:]}.")
    return " ".join(text)


def _test(test: Mapping[str, Any]) -> Data:
    bars, learned = [], {*test["answers"]}
    for name, (hits, n) in sort_by_accuracy(test["by_class"])[:MAX_ROWS]:
        remark = count_noun(n, "row") + ("" if name in learned else ", never learned")
        bars.append((name, remark, hits / n, format_ratio(hits / n), None, ""))
    mistakes = sorted(
        (-count, name, answer)
        for name, counts in test["confusion"].items()
        for answer, count in zip(test["answers"], counts, strict=True)
        if count and answer != name
    )
    small = len(test["answers"]) <= MAX_CLASSES and len(test["confusion"]) <= MAX_CLASSES
    cells = {
        name: [(heat_cell(n / sum(counts))[0] if n else "", n or "") for n in counts]
        for name, counts in test["confusion"].items()
    }
    reliability = []
    for sure, right, n in test["bins"]:
        name, text = format_ratio(sure), format_ratio(right)
        reliability.append((name, count_noun(n, "row"), right, text, sure, ""))
    unknown = test["unknown"]
    return {
        "class_bars": bars,
        "mistakes": [(name, answer, -count) for count, name, answer in mistakes[:MAX_CLASSES]],
        "cells": cells if small else {},
        "reliability": reliability,
        "numbers": [
            ("accuracy", format_ratio(test["accuracy"])),
            ("macro", format_ratio(test["macro"])),
            ("ECE", format_ratio(test["ece"])),
            ("unknown", "–" if unknown is None else format_percent(unknown)),
        ],
    }
