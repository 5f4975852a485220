"""The dreams of a run after its sleeps: a row a task, a block a sleep."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from dgdmn.report import artefacts
from dgdmn.report.artefacts import Dreams
from dgdmn.report.runs import Run
from dgdmn.report.words import short

EACH, SLEEPS = 4, 6
"""Dreams of a task, and sleeps, that a page has room for."""


def dream_sheet(runs: Sequence[Run]) -> Figure | None:
    """The dreams of the first of the runs that has any."""
    for run in runs:
        seen = [one for one in artefacts.dreams(run)[0] if len(one.x)]
        if seen:
            return _sheet(run, [one for one in seen if one.by_task == seen[-1].by_task])
    return None


def _sheet(run: Run, seen: Sequence[Dreams]) -> Figure:
    chosen = [seen[i] for i in sorted({int(i) for i in np.linspace(0, len(seen) - 1, SLEEPS).round()})]
    names = [*(run.tasks if seen[-1].by_task else run.classes), "other"]
    rows = sorted({min(int(row), len(names) - 1) for one in chosen for row in one.rows})
    figure = Figure(figsize=(1.15 * len(chosen) + 0.6, 0.28 * len(rows) + 0.4), layout="constrained")
    axes = figure.subplots(1, len(chosen), squeeze=False)[0]
    for one, dreams in zip(axes, chosen, strict=True):
        one.imshow(_block(dreams, rows), cmap="gray", vmin=0, vmax=255, interpolation="nearest")
        one.set(title=f"after task {dreams.step}", xticks=[], yticks=[])
    height = chosen[0].x.shape[1]
    middles = [height * (number + 0.5) for number in range(len(rows))]
    axes[0].set_yticks(middles, [short(names[row], 16) for row in rows])
    axes[0].tick_params(length=0)
    return figure


def _block(dreams: Dreams, rows: Sequence[int]) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    height, width = dreams.x.shape[1:3]
    block = np.full((len(rows) * height, EACH * width, *dreams.x.shape[3:]), 255, np.uint8)
    for number, row in enumerate(rows):
        for place, x in enumerate(dreams.x[dreams.rows == row][:EACH]):
            block[number * height : (number + 1) * height, place * width : (place + 1) * width] = x
    return block.squeeze()
