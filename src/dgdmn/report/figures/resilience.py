"""Accuracy under noise and occlusion."""

from collections.abc import Sequence

from matplotlib.figure import Figure

from dgdmn.report import artefacts, series
from dgdmn.report.entries import Entry, datasets, mean_curve
from dgdmn.report.figures.canvas import add_legend, draw, draw_published, panels
from dgdmn.report.runs import Run

KINDS = {"noise": "standard deviation of noise, not clipped", "occlusion": "occlusion factor"}


def resilience_curves(runs: Sequence[Run]) -> Figure | None:
    """Two panels: Gaussian noise and occlusion; the runs are of one dataset."""
    entries = [entry for dataset in datasets(runs) for entry in dataset.entries]
    curves = {kind: _curves(entries, kind) for kind in KINDS}
    shown = [kind for kind in KINDS if curves[kind]]
    if not shown:
        return None
    figure, axes = panels(len(shown), 2, size=(3.4, 2.4))
    for kind, one in zip(shown, axes, strict=True):
        for entry, x, y in curves[kind]:
            draw(one, entry, x, y)
        for entry, name, curve in series.published_resilience([entry for entry, *_ in curves[kind]], kind):
            draw_published(one, entry.algorithm, curve.x, curve.series[name])
        one.set(xlabel=KINDS[kind], ylabel="accuracy", ylim=(-0.03, 1.03))
    add_legend(figure, axes)
    return figure


def _curves(entries: Sequence[Entry], kind: str) -> list[tuple[Entry, tuple[float, ...], tuple[float, ...]]]:
    found = []
    for entry in entries:
        known = [one for run in entry.runs if (one := artefacts.resilience(run)[0]) and getattr(one, kind)]
        if known:
            x = getattr(known[0], kind)
            same = [getattr(one, f"{kind}_accuracy") for one in known if getattr(one, kind) == x]
            found.append((entry, x, mean_curve(same)))
    return found
