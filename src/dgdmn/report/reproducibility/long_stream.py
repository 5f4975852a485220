"""TDigits in numbers: at its end, and read in two ways beside the paper's curves."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dgdmn import metrics, paper
from dgdmn.report.colours import display_name
from dgdmn.report.reproducibility.collected import Result
from dgdmn.report.reproducibility.goals import last_ten
from dgdmn.report.reproducibility.not_learnt import listed
from dgdmn.report.reproducibility.numbers import (
    Shelf,
    acc,
    explained,
    mean,
    said,
    short,
    table,
    training_times,
    values,
)
from dgdmn.report.reproducibility.reasons import below
from dgdmn.report.reproducibility.verdicts import judge

SMALLER = "sttm_generator_layers 128 64, sttm_latent 16"
"""The setting of task memories as Digits has them."""
READINGS = {
    "": "forty classes, by transformation",
    SMALLER: "forty, smaller task memories",
    f"kappa_per replay, {SMALLER}": "forty, smaller, κ for each replay",
    f"n_classes 10, {SMALLER}, tdigits ten": "ten classes, by digit, smaller task memories",
    f"kappa_per replay, n_classes 10, {SMALLER}, tdigits ten": "ten, smaller, κ for each replay",
}
"""Settings of the runs of `ablation-tdigits`, and what is different in them."""
MEASURES = (
    ("all tasks seen", "tdigits_avg_acc", 40),
    ("the last 10", "tdigits_last10", 10),
)
"""What is averaged over, the paper's curve of it, and how many tasks that are."""
_COST = "; the likely reason why DGR is so far below the paper's curve around task 20"
ASLEEP = tuple(range(5, 41, 5))
"""Tasks after which DGDMN has just slept: no task is held by a short-term memory, which flatters the rest."""


def at_the_end(shelf: Shelf) -> str:
    """Accuracy and training time at task 40, beside the paper's."""
    rows, compared = [], []
    groups = {name: shelf.find("tdigits", name) for name in ("dgr", "dgdmn")}
    times = training_times(*groups.values())
    for (name, found), taken in zip(groups.items(), times.groups, strict=True):
        who = display_name(name)
        for (over, curve, _), value, key in zip(MEASURES, (acc, last_ten), ("acc", "last10"), strict=True):
            what, ours = f"accuracy on {over}", values(found, value)
            theirs = paper.curve(curve).series[name][-1]
            compared.append((f"{who}, {what}", ours, theirs, (key, "tdigits", name)))
            rows.append([who, what, said(ours), short(theirs), str(judge(ours, theirs))])
        seconds = f"{mean(taken):,.0f} s" if taken else "–"
        published = f"{paper.tdigits_seconds()[name]:,.0f} s"
        rows.append([who, f"training time, {times.clock}", seconds, published, "another machine"])
    numbers = table(["", "at task 40", "ours", "the paper's", "verdict"], rows)
    return explained(numbers, below(compared), listed(shelf, ("tdigits",), tuple(groups), _COST))


def read_in_two_ways(shelf: Shelf) -> str:
    """Accuracy after each sleep for each reading that was run, and how far its whole curve is from the paper's."""
    rows = []
    for name in ("dgdmn", "dgr"):
        for what, curve, last in MEASURES:
            theirs = paper.curve(curve).series[name]
            label = f"{display_name(name)}, {what}"
            rows.append([label, "the paper", *(short(theirs[task - 1]) for task in ASLEEP), ""])
            for how, reading in READINGS.items():
                if found := shelf.find("tdigits", name, how):
                    ours = _curve(found, last)
                    distance = float(np.sqrt(np.nanmean(np.subtract(ours, theirs[: len(ours)]) ** 2)))
                    slept = [short(ours[task - 1]) if task <= len(ours) else "–" for task in ASLEEP]
                    rows.append([label, f"{reading} ({len(found)})", *slept, short(distance)])
    after = [f"after {task}" for task in ASLEEP]
    return table(["average over", "classes and order (seeds)", *after, "rms from the paper's"], rows)


def _curve(found: Sequence[Result], last: int) -> list[float]:
    """The mean over seeds after each task."""
    each = [metrics.last_k(one.run.accuracy, last, one.run.columns) for one in found]
    return [float(value) for value in np.mean(each, axis=0)]
