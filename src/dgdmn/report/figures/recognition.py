"""Recognition without descriptors: the loss of each task in the memory that knows it best (appendix A)."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from dgdmn.report.colours import display_name
from dgdmn.report.figures.canvas import add_legend, class_colour, panels
from dgdmn.report.runs import Run
from dgdmn.report.words import short


def recognition_losses(runs: Sequence[Run]) -> Figure | None:
    """Lowest recognition loss of each task after each task, against γ, a panel for each run."""
    shown = [(run, events) for run in runs if (events := _recognised(run))]
    if not shown:
        return None
    figure, axes = panels(len(shown), 2, size=(3.4, 2.4))
    for (run, events), one in zip(shown, axes, strict=True):
        lowest = {task: [_lowest(event, task) for event in events] for task in run.tasks}
        for number, (task, values) in enumerate(lowest.items()):
            one.plot(range(1, len(values) + 1), values, color=class_colour(number), label=short(task, 16))
        gamma = run.options.get("gamma")
        if isinstance(gamma, int | float):
            one.axhline(gamma, color="0.3", linestyle="--", linewidth=0.8)
        one.set(title=short(display_name(run.algorithm), 48), xlabel="tasks seen", ylabel="recognition loss")
        # by density a loss may be negative: where latents lie thick, log p(z) is above 0
        if not any(value <= 0 for values in lowest.values() for value in values):
            one.set_yscale("log")
        for axis in (one.yaxis.set_major_formatter, one.yaxis.set_minor_formatter):
            axis(FuncFormatter(lambda value, _: f"{value:g}"))
        one.xaxis.set_major_locator(MaxNLocator(integer=True))
    add_legend(figure, axes, most=12)
    return figure


def _recognised(run: Run) -> list[Mapping[str, Any]]:
    return [event for event in run.record.events if event.get("kind") == "recognised"]


def _lowest(event: Mapping[str, Any], task: str) -> float:
    losses = event.get("losses")
    known = losses.get(task) if isinstance(losses, Mapping) else None
    values = (
        [value for value in known or () if isinstance(value, int | float)] if isinstance(known, list) else []
    )
    return min(values, default=math.nan)
