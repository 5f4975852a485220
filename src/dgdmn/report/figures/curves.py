"""One panel an algorithm, one line a task: the paper's accuracy curves, and those of revision."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dgdmn.report import series
from dgdmn.report.entries import Entry, datasets
from dgdmn.report.figures.canvas import accuracy_axes, add_legend, class_colour, panels
from dgdmn.report.runs import Run
from dgdmn.report.words import short


def accuracy_curves(runs: Sequence[Run], *, ltm: bool = False) -> Figure | None:
    """Accuracy of each task after each task, a panel for each algorithm; the runs are of one dataset."""
    entries = _sequential([run for run in runs if not run.revise])
    if ltm:
        entries = [entry for entry in entries if series.has_ltm_curves(entry)]
    return _panels(entries, ltm=ltm) if entries else None


def revision_curves(runs: Sequence[Run]) -> Figure | None:
    """The same for runs that revise tasks at their end (appendix A)."""
    entries = _sequential([run for run in runs if run.revise])
    return _panels(entries) if entries else None


def _sequential(runs: Sequence[Run]) -> list[Entry]:
    return [entry for dataset in datasets(runs) for entry in dataset.sequential]


def _panels(entries: Sequence[Entry], *, ltm: bool = False) -> Figure:
    figure, axes = panels(len(entries))
    for entry, one in zip(entries, axes, strict=True):
        _panel(one, entry, ltm)
    add_legend(figure, axes, most=12)
    return figure


def _panel(axes: Axes, entry: Entry, ltm: bool) -> None:
    curves = series.task_curves(entry, ltm=ltm)
    for curve in curves:
        marker = "o" if len(curve.steps) == 1 else ""  # the last task's line is a point
        name, colour = short(curve.task, 20), class_colour(curve.number)
        axes.plot(curve.steps, curve.values, color=colour, marker=marker, label=name)
    for step in series.sleeps(entry):
        axes.axvline(step, color="0.6", linewidth=0.6, linestyle=":", zorder=0)
    title = f"{entry.name}, LTM alone" if ltm else entry.name
    longest = max((curve.steps[-1] for curve in curves), default=1)
    accuracy_axes(axes, short(title, 48), max(longest, len(entry.first.tasks)), y_label="accuracy on task")
