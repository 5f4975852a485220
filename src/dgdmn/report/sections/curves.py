"""Section 2: the paper's figures, for any dataset."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from markupsafe import Markup

from dgdmn import paper
from dgdmn.report import series
from dgdmn.report.charts import Axes, Series, line_chart, swatch
from dgdmn.report.colours import CLASSES, VARIANTS, css_class, display_name
from dgdmn.report.entries import Dataset, Entry
from dgdmn.report.words import short
from dgdmn.wording import counted

LONG = 20
"""Tasks of a stream from which on the last ten are shown by themselves."""


@dataclass(frozen=True)
class Button:
    """A line of the legend that can be toggled."""

    key: str
    name: str
    swatch: Markup


@dataclass(frozen=True)
class Panel:
    """A chart and what is written above it."""

    title: str
    chart: Markup
    key: str = ""
    note: str = ""
    """What must be said of it."""


@dataclass(frozen=True)
class Compared:
    """Small charts that compare algorithms, and their legend."""

    legend: tuple[Button, ...] = ()
    charts: tuple[tuple[str, Markup], ...] = ()


@dataclass(frozen=True)
class Curves:
    """All that the section shows."""

    legend: tuple[Button, ...]
    wide: tuple[Panel, ...]
    """Charts that compare the algorithms."""
    panels: tuple[Panel, ...]
    """One an algorithm, one line a task."""
    tasks: tuple[tuple[str, Markup], ...]
    """Names and swatches of the tasks; empty where they are too many."""
    sleeps: bool
    """Whether any panel marks sleeps."""
    ltm: bool
    """Whether any panel shows the long-term memory alone."""
    published: bool
    """Whether points of the paper are shown."""


def curves(dataset: Dataset) -> Curves:
    """The curves of a dataset."""
    entries = dataset.sequential
    panels = [panel for entry in entries for panel in _task_panels(entry)]
    tasks = entries[0].first.tasks if entries else ()
    return Curves(
        legend(entries),
        tuple(_compared(dataset)) if entries else (),
        tuple(panels),
        tuple((short(name, 24), swatch(task_class(i))) for i, name in enumerate(tasks))
        if len(tasks) <= 12
        else (),
        any(series.sleeps(entry) for entry in entries),
        any(series.has_ltm_curves(entry) for entry in entries),
        bool(_published(dataset, series.published(dataset.name, "average"))),
    )


def legend(entries: Iterable[Entry]) -> tuple[Button, ...]:
    """A button for each entry."""
    return tuple(
        Button(entry.name, entry.name, swatch(line_class(entry), marker(entry.algorithm)))
        for entry in entries
    )


def line_class(entry: Entry) -> str:
    """Colour, dash and width of an entry's line."""
    variant = f" v{(entry.variant - 1) % len(VARIANTS)}" if entry.variant else ""
    best = " best" if entry.first.preset == "best" else ""
    return css_class(entry.algorithm) + variant + best


def marker(algorithm: str) -> str:
    """The id of an algorithm's marker on the page."""
    return f"m-{css_class(algorithm)}"


def task_class(number: int) -> str:
    """The class that gives a task or class its colour."""
    return f"t{number % len(CLASSES)}"


def _compared(dataset: Dataset) -> list[Panel]:
    tasks = max(len(entry.first.tasks) for entry in dataset.sequential)
    panels = [_comparison(dataset, "Average accuracy on the tasks seen", "average", series.forgetting)]
    if tasks >= LONG:
        panels.append(
            _comparison(
                dataset,
                "Accuracy on the last 10 tasks seen",
                "last10",
                lambda entry: series.forgetting(entry, last=10),
            )
        )
    return panels


def _comparison(
    dataset: Dataset, title: str, what: str, values: Callable[[Entry], tuple[float, ...]]
) -> Panel:
    lines = [_line(entry, values(entry)) for entry in dataset.sequential]
    curve = series.published(dataset.name, what)
    lines += [replace(line, y=[min(value, 1.0) for value in line.y]) for line in _published(dataset, curve)]
    axes = Axes(f"{title}, {dataset.name}", "tasks seen", "accuracy", (1, _most(lines)), wide=True)
    return Panel(title, line_chart(lines, axes))


def _line(entry: Entry, values: tuple[float, ...]) -> Series:
    steps = range(1, len(values) + 1)
    return Series(entry.name, line_class(entry), steps, values, entry.name, marker=marker(entry.algorithm))


def _published(dataset: Dataset, curve: paper.Curve | None) -> list[Series]:
    shown = {entry.algorithm: entry.name for entry in dataset.sequential if not entry.setting}
    if curve is None:
        return []
    return [
        Series(
            f"{display_name(name)}, the paper's",
            css_class(name),
            curve.x,
            values,
            shown[name],
            points=True,
        )
        for name, values in curve.series.items()
        if name in shown
    ]


def time_panel(dataset: Dataset) -> Panel | None:
    """Cumulative training time by task."""
    lines = [_line(entry, series.training_time(entry)) for entry in dataset.sequential]
    theirs = _published(dataset, series.published_time(dataset.name, dataset.sequential))
    lines += [replace(line, name=f"{line.name}, scaled") for line in theirs]
    known = [value for line in lines for value in line.y if math.isfinite(value)]
    if not known or not max(known) > 0:
        return None
    unit, name = next(((s, name) for s, name in _UNITS if max(known) > 3 * s), (1, "seconds"))
    lines = [replace(line, y=[value / unit for value in line.y]) for line in lines]
    top = max(known) / unit
    axes = Axes(f"Training time, {dataset.name}", "tasks seen", name, (1, _most(lines)), (0, top), wide=True)
    return Panel("Cumulative training time by task", line_chart(lines, axes), note=_SCALED if theirs else "")


_SCALED = "Faint dots: the paper's times, of another machine, scaled so that DGR's after its last task here is ours."


_UNITS = ((3600, "hours"), (60, "minutes"))


def _task_panels(entry: Entry) -> list[Panel]:
    shown = [(entry.name, False)] + (
        [(f"{entry.name}, LTM alone", True)] if series.has_ltm_curves(entry) else []
    )
    return [_task_panel(entry, title, ltm) for title, ltm in shown]


def _task_panel(entry: Entry, title: str, ltm: bool) -> Panel:
    lines = [
        Series(short(curve.task, 24), task_class(curve.number), curve.steps, curve.values)
        for curve in series.task_curves(entry, ltm=ltm)
    ]
    axes = Axes(
        f"{title}: accuracy of each task, {entry.first.dataset}",
        "tasks seen",
        "accuracy on task",
        (1, max(_most(lines), len(entry.first.tasks))),
        sleeps=series.sleeps(entry),
    )
    seeds = f", mean of {counted(len(entry.runs), 'seed')}" if len(entry.runs) > 1 else ""
    return Panel(title + seeds, line_chart(lines, axes), entry.name)


def _most(lines: list[Series]) -> float:
    return max((max(line.x) for line in lines if len(line.x)), default=1)
