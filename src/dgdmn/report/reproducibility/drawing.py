"""The figures of each target as SVG: from results and, where pictures are needed, from run directories."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dgdmn import paper
from dgdmn.disk import os_errors, replace
from dgdmn.report.colours import display_name, look
from dgdmn.report.entries import TOGETHER, Entry, datasets
from dgdmn.report.reproducibility.collected import Result
from dgdmn.report.reproducibility.goals import DATASETS, at_strength
from dgdmn.report.reproducibility.numbers import BEST, Shelf, mean
from dgdmn.report.runs import Run
from dgdmn.report.series import JOINTLY

if TYPE_CHECKING:  # matplotlib waits until a figure is asked for
    from matplotlib.figure import Figure

Drawn = Iterator[tuple[str, "Figure | None"]]


def draw(target: str, results: Sequence[Result], runs: Sequence[Run], directory: Path) -> list[Path]:
    """Write the figures of a target as <directory>/<target>….svg and return those that could be drawn.

    `results` are its runs as collected; `runs` are those that are still there with their artefacts.
    """
    from dgdmn.report.figures.canvas import style

    written = []
    with style():
        for name, figure in _figures(target, results, runs):
            if figure is None:
                continue
            with os_errors("write", directory):
                directory.mkdir(parents=True, exist_ok=True)
            content = io.BytesIO()
            figure.savefig(content, format="svg", metadata={"Date": None})
            written.append(directory / f"{name}.svg")
            replace(written[-1], content.getvalue())
    return written


def _figures(target: str, results: Sequence[Result], runs: Sequence[Run]) -> Drawn:
    """Names and figures of a target, None where what it takes is not there."""
    from dgdmn.report import figures

    collected = [one.run for one in results]
    special: dict[str, Callable[[], Drawn]] = {
        "figure-tdigits": lambda: iter([(target, figures.long_stream(collected))]),
        "ablation-tdigits": lambda: iter([(target, figures.long_stream(collected))]),
        "ablation-clipping": lambda: iter([(target, figures.accuracy_curves(_clipped_digits(collected)))]),
        "figure-revision": lambda: iter([(target, figures.revision_curves(collected))]),
        "figure-forgetting": lambda: iter(
            [(target, figures.forgetting_curves(_in_the_papers_order(collected)))]
        ),
        "figure-tsne": lambda: iter([(target, _maps(runs))]),
        "figure-dreams": lambda: _dreams(target, runs),
        "figure-recog": lambda: _recognition(target, collected),
        "figure-resilience": lambda: _resilience(target, results, runs),
        "beyond-resilience": lambda: iter([(target, _resilience_beyond(results))]),
    }
    if target in special:
        yield from special[target]()
    elif target.startswith("figure-"):
        yield target, figures.accuracy_curves(collected)
        yield f"{target}-ltm", figures.accuracy_curves(collected, ltm=True)
    elif target.startswith("ablation-") and any(len(part.sequential) > 1 for part in datasets(collected)):
        yield target, figures.forgetting_curves(collected)


def _clipped_digits(runs: Sequence[Run]) -> list[Run]:
    """Averages are 1/t whatever was learnt: single tasks show what was not."""
    return [run for run in runs if run.dataset == "digits" and run.changes]


def _in_the_papers_order(runs: Sequence[Run]) -> list[Run]:
    return sorted(runs, key=lambda run: DATASETS.index(run.dataset))


def _maps(runs: Sequence[Run]) -> Figure | None:
    """Both memories, or none: the figure compares them."""
    from dgdmn.report import artefacts, figures

    def called(entry: Entry) -> str:
        return (
            f"LTM of {display_name(entry.algorithm)}, {'jointly' if entry.first.together else 'in sequence'}"
        )

    placed = [run for run in runs if artefacts.latents(run)[0]]
    both = {run.together for run in placed} == {True, False}
    return figures.latent_maps(placed, called) if both else None


def _dreams(target: str, runs: Sequence[Run]) -> Drawn:
    from dgdmn.report import figures

    for name, together in (("in-sequence", False), ("jointly", True)):
        found = sorted((run for run in runs if run.together == together), key=lambda run: run.seed)
        if found:
            yield f"{target}-{name}", figures.dream_sheet(found[:1])


def _recognition(target: str, runs: Sequence[Run]) -> Drawn:
    from dgdmn.report import figures

    without = [run for run in runs if run.algorithm == "dgdmn-recog"]
    yield target, figures.accuracy_curves(without)
    yield f"{target}-average", figures.forgetting_curves(runs)
    yield f"{target}-losses", figures.recognition_losses(without[:1])


def _resilience(target: str, results: Sequence[Result], runs: Sequence[Run]) -> Drawn:
    yield target, resilience_figure(Shelf(tuple(results)))
    yield f"{target}-pictures", _restored([run for run in runs if run.algorithm == "dgr"])


KINDS = (
    ("noise", "noise_accuracy_unclipped", "standard deviation of noise, not clipped"),
    ("occlusion", "occlusion_accuracy", "occlusion factor"),
)


def _resilience_beyond(results: Sequence[Result]) -> Figure | None:
    """The same with a line more; without that line, there is nothing new to draw."""
    shelf = Shelf(tuple(results))
    return resilience_figure(shelf, beyond=True) if shelf.find("digits", "dgr", _BEYOND) else None


_BEYOND = f"{BEST}, {TOGETHER}"


def resilience_figure(shelf: Shelf, *, beyond: bool = False) -> Figure | None:
    """Accuracy under noise, as the paper added it, and occlusion; the paper's values are faint points.

    Going `beyond` the paper, also that of the long-term memory of the preset `best`.
    """
    from dgdmn.report.figures.canvas import add_legend, draw_published, panels, styled

    if not any(one.extra.get("resilience") for one in shelf.results):
        return None
    figure, axes = panels(len(KINDS), 2, size=(3.4, 2.4))
    for (curve_name, field, label), one in zip(KINDS, axes, strict=True):
        curve = paper.curve(curve_name)
        for name, algorithm in JOINTLY.items():
            y = _under(shelf.find("digits", algorithm, TOGETHER), field, curve.x)
            one.plot(
                curve.x, y, label=name.upper(), color=look(algorithm).light, marker=look(algorithm).marker
            )
            draw_published(one, algorithm, curve.x, curve.series[name])
        if beyond:
            y = _under(shelf.find("digits", "dgr", _BEYOND), field, curve.x)
            one.plot(curve.x, y, label="LTM (preset best)", **styled("dgr", variant=1, best=True))
        one.set(xlabel=label, ylabel="accuracy", ylim=(0.4, 1.0))
    add_legend(figure, axes)
    return figure


def _under(found: Sequence[Result], field: str, strengths: Sequence[float]) -> list[float]:
    return [mean(at_strength(found, field, strength)) for strength in strengths]


def _restored(runs: Sequence[Run]) -> Figure | None:
    """Corrupted digits above what the long-term memory makes of them, of the first run that kept them."""
    from matplotlib.figure import Figure

    from dgdmn.report import artefacts

    for run in [run for dataset in datasets(runs) for run in dataset.runs]:
        kept = artefacts.resilience(run)[0]
        if kept is None or not len(kept.corrupted):
            continue
        figure = Figure(figsize=(0.45 * len(kept.corrupted), 1.1), layout="constrained")
        grid = figure.subplots(2, len(kept.corrupted))
        for row, pictures in zip(grid, (kept.corrupted, kept.restored), strict=True):
            for axes, picture in zip(row, pictures, strict=True):
                axes.imshow(picture.squeeze(), cmap="gray", vmin=0, vmax=255, interpolation="nearest")
                axes.set_axis_off()
        return figure
    return None
