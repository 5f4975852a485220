"""Section 4: what the long-term memory dreams after every sleep."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dgdmn.report import artefacts
from dgdmn.report.artefacts import Dreams
from dgdmn.report.charts import Axes, Series, line_chart
from dgdmn.report.entries import Dataset, Entry, mean_and_error
from dgdmn.report.pictures import Picture, grid
from dgdmn.report.runs import Run
from dgdmn.report.sections.curves import Compared, legend, line_class, marker
from dgdmn.report.words import percent, short

MOST_SLEEPS = 8
"""Sleeps shown; of more, as many, evenly chosen, the first and last among them."""
ROOM = 36
"""Samples beside each other that a page has room for."""
MOST_TILES = 4_000
"""Samples in all pictures of a page: it keeps a report of many runs small."""


@dataclass(frozen=True)
class Sleep:
    """A column of dreams."""

    title: str
    picture: Picture


@dataclass(frozen=True)
class DreamBook:
    """The dreams of one run."""

    name: str
    labels: tuple[str, ...]
    """Names of the rows."""
    by_task: bool
    sleeps: tuple[Sleep, ...]
    reconstructions: Picture | None
    quality: tuple[tuple[str, str, str, str], ...]
    """After, label purity, balance, and the rarest class, of each sleep."""
    notes: tuple[str, ...]


def fair_share(parts: Sequence[Dataset]) -> int:
    """How many samples each run may show, so that all of them fit on the page."""
    names = [entry.first.record.artefacts for part in parts for entry in part.entries]
    dreaming = sum(any(name.startswith("dreams-") for name in found) for found in names)
    return max(100, min(600, MOST_TILES // max(1, dreaming)))


def books(dataset: Dataset, tiles: int) -> tuple[DreamBook, ...]:
    """The dreams of the lowest seed of each algorithm that has any, about so many samples each."""
    found = [_book(entry, tiles) for entry in dataset.entries]
    return tuple(book for book in found if book.sleeps or book.reconstructions or book.quality or book.notes)


def _book(entry: Entry, tiles: int) -> DreamBook:
    run = entry.first
    seen, notes = artefacts.dreams(run)
    shown, more = artefacts.reconstructions(run)
    labels, sleeps = _columns(run, [one for one in seen if len(one.x)], tiles)
    picture = None
    if shown is not None:
        chosen = np.linspace(0, len(shown.x) - 1, min(20, len(shown.x))).round().astype(int)
        rows = [shown.x[chosen], shown.reconstructed[chosen]]
        picture = grid(rows, len(chosen), f"Test samples above, their reconstructions below, {run.name}")
    by_task = bool(seen) and seen[-1].by_task
    return DreamBook(run.name, labels, by_task, sleeps, picture, _quality(run, seen), (*notes, *more))


def _columns(run: Run, seen: Sequence[Dreams], tiles: int) -> tuple[tuple[str, ...], tuple[Sleep, ...]]:
    if not seen:
        return (), ()
    kind = seen[-1].by_task
    seen = [one for one in seen if one.by_task == kind]
    names = [*(run.tasks if kind else run.classes), "other"]
    rows = sorted({min(int(row), len(names) - 1) for one in seen for row in one.rows})
    chosen = [seen[i] for i in _even(len(seen), max(2, min(MOST_SLEEPS, tiles // (2 * len(rows)))))]
    each = max(1, min(8, ROOM // len(chosen), tiles // (len(rows) * len(chosen))))
    sleeps = [
        Sleep(
            f"after task {one.step}", _picture(one, rows, each, f"Dreams after task {one.step}, {run.name}")
        )
        for one in chosen
    ]
    return tuple(short(names[row], 18) for row in rows), tuple(sleeps)


def _even(n: int, most: int) -> list[int]:
    return sorted({int(i) for i in np.linspace(0, n - 1, min(n, most)).round()})


def _picture(dreams: Dreams, rows: Sequence[int], each: int, alt: str) -> Picture:
    return grid([dreams.x[dreams.rows == row][:each] for row in rows], each, alt)


def _quality(run: Run, seen: Sequence[Dreams]) -> tuple[tuple[str, str, str, str], ...]:
    purity = {one.step: one.purity for one in seen}
    replays = {replay.step: replay.dreamt for replay in run.timeline.replays if sum(replay.dreamt)}
    lines = []
    for step in sorted({*purity, *replays}):
        counts = replays.get(step, ())
        if not counts and math.isnan(purity.get(step, math.nan)):
            continue
        rarest = _rarest(run, counts)
        lines.append((f"task {step}", percent(purity.get(step, math.nan)), percent(balance(counts)), rarest))
    return tuple(lines)


def balance(counts: Sequence[int]) -> float:
    """How evenly the classes are dreamt of: entropy over its greatest value; 1 even, 0 all one class.

    >>> balance([5, 5]), balance([1, 0])
    (1.0, 0.0)
    """
    total = sum(counts)
    if len(counts) < 2 or not total:
        return math.nan
    shares = [count / total for count in counts if count]
    return max(0.0, -sum(share * math.log(share) for share in shares)) / math.log(len(counts))


def _rarest(run: Run, counts: Sequence[int]) -> str:
    if not counts:
        return "–"
    place = int(np.argmin(counts))
    name = run.classes[place] if place < len(run.classes) else str(place)
    return f"{short(name, 18)}: {percent(counts[place] / sum(counts))}"


def quality_charts(dataset: Dataset) -> Compared:
    """Label purity and class balance by sleep, all algorithms in the same axes, the mean over seeds."""
    entries = [entry for entry in dataset.entries if not entry.first.together]
    tasks = max((len(entry.first.tasks) for entry in entries), default=1)
    pure = [_measured(entry, _purities(entry)) for entry in entries]
    even = [_measured(entry, _balances(entry)) for entry in entries]
    charts = (("Label purity of replay", "purity", pure), ("Class balance of replay", "balance", even))
    measured = zip(entries, pure, even, strict=True)
    shown = [entry for entry, *lines in measured if any(len(line.x) for line in lines)]
    across = (1, max(tasks, 2))
    return Compared(
        legend(shown),
        tuple(
            (title, line_chart(lines, Axes(f"{title}, {dataset.name}", "tasks seen", label, across)))
            for title, label, lines in charts
            if any(len(line.x) for line in lines)
        ),
    )


def _purities(entry: Entry) -> list[dict[int, float]]:
    seen = [artefacts.dreams(run)[0] for run in entry.runs]
    return [{one.step: one.purity for one in dreams if not math.isnan(one.purity)} for dreams in seen]


def _balances(entry: Entry) -> list[dict[int, float]]:
    return [
        {replay.step: balance(replay.dreamt) for replay in run.timeline.replays if len(replay.dreamt) > 1}
        for run in entry.runs
    ]


def _measured(entry: Entry, by_step: list[dict[int, float]]) -> Series:
    steps = sorted({step for one in by_step for step in one})
    values = [mean_and_error([one[step] for one in by_step if step in one])[0] for step in steps]
    return Series(entry.name, line_class(entry), steps, values, entry.name, marker=marker(entry.algorithm))
