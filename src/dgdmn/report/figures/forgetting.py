"""Average accuracy on the tasks seen, all algorithms in the same axes; and the figure on a long stream."""

from collections.abc import Callable, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dgdmn import paper
from dgdmn.report import series
from dgdmn.report.colours import look
from dgdmn.report.entries import Dataset, Entry, datasets
from dgdmn.report.figures.canvas import WIDTH, accuracy_axes, add_legend, draw, draw_published, panels
from dgdmn.report.runs import Run
from dgdmn.report.words import dataset_name, short

LONG = 20
"""Tasks from which on a stream is a long one."""


def forgetting_curves(runs: Sequence[Run]) -> Figure | None:
    """A panel for each dataset; runs that revise tasks have a figure of their own."""
    parts = [dataset for dataset in datasets([run for run in runs if not run.revise]) if dataset.sequential]
    if not parts:
        return None
    figure, axes = panels(len(parts), 2, size=(3.4, 2.4))
    for dataset, one in zip(parts, axes, strict=True):
        _compare(one, dataset, series.published(dataset.name, "average"), series.forgetting)
        _long_term_alone(one, dataset)
        accuracy_axes(one, _title(dataset), _steps(dataset), y_label="average accuracy")
    add_legend(figure, axes)
    return figure


def long_stream(runs: Sequence[Run]) -> Figure | None:
    """Accuracy on all tasks seen, on the last ten, and training time, for one dataset of many tasks."""
    parts = [dataset for dataset in datasets(runs) if dataset.sequential]
    if not parts or len(parts[0].sequential[0].first.tasks) < LONG:
        return None
    dataset = parts[0]
    figure, axes = panels(3, size=(WIDTH, 2.3))
    average, last, time = (
        series.published(dataset.name, "average"),
        series.published(dataset.name, "last10"),
        series.published_time(dataset.name, dataset.sequential),
    )
    _compare(axes[0], dataset, average, series.forgetting)
    _compare(axes[1], dataset, last, lambda entry: series.forgetting(entry, last=10))
    _compare(axes[2], dataset, time, series.training_time)
    _long_term_alone(axes[0], dataset)
    _long_term_alone(axes[1], dataset, last=10)
    accuracy_axes(axes[0], "tasks seen so far", _steps(dataset))
    accuracy_axes(axes[1], "last 10 tasks seen", _steps(dataset))
    scaled = "\n(dots scaled to our DGR's last)" if time else ""
    axes[2].set(title=f"training time{scaled}", xlabel="tasks seen", ylabel="seconds, wall clock")
    add_legend(figure, axes)
    return figure


def _long_term_alone(axes: Axes, dataset: Dataset, last: int = 0) -> None:
    """Between sleeps an average is flattered: a memory that holds one class is right about it whatever it sees."""
    for entry in dataset.sequential:
        if not entry.variant and series.has_ltm_curves(entry):  # variants would crowd it
            y, colour = series.forgetting(entry, last=last, ltm=True), look(entry.algorithm).light
            name = f"{entry.name}, LTM alone"
            axes.plot(range(1, len(y) + 1), y, label=name, color=colour, linestyle=":", linewidth=0.9)


def _title(dataset: Dataset) -> str:
    """Its name, and what all its lines have that is not the paper's way."""
    shared = ", ".join(sorted(dataset.entries[0].shared))
    return short(f"{dataset_name(dataset.name)}, {shared}" if shared else dataset_name(dataset.name), 40)


def _steps(dataset: Dataset) -> int:
    return max(len(run.accuracy) for entry in dataset.sequential for run in entry.runs)


def _compare(
    axes: Axes, dataset: Dataset, curve: paper.Curve | None, values: Callable[[Entry], tuple[float, ...]]
) -> None:
    for entry in dataset.sequential:
        y = values(entry)
        draw(axes, entry, range(1, len(y) + 1), y)
    if curve is None:
        return
    plain = {entry.algorithm for entry in dataset.sequential if not entry.setting}
    for name, y in curve.series.items():
        if name in plain:
            draw_published(axes, name, curve.x, y)
