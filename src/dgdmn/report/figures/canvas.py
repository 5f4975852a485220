"""What all figures share: sizes, fonts, axes, the lines of an algorithm."""

import math
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import matplotlib as mpl
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from dgdmn.report.colours import CLASSES, VARIANTS, look
from dgdmn.report.entries import Entry

PAPER = "the paper's"
"""What the legend calls the paper's values."""
DOTS: dict[str, Any] = {"linestyle": "none", "marker": ".", "markersize": 6, "alpha": 0.35}
"""How they are drawn."""
WIDTH, HEIGHT = 2.3, 1.9
"""Size of a panel, inches: three beside each other fill a page of 7 inches."""
VARIED = (("o", 0.45), ("s", -0.5), ("D", 0.25), ("^", -0.3))
"""Marker of each variant of an algorithm, and how far its colour goes to white, or below 0 to black: dashes alone are
lost among markers."""
LINE = 0.15
"""Inches that a line of a legend needs."""

STYLE: dict[Any, Any] = {
    "font.family": "DejaVu Sans",  # comes with matplotlib, so that a figure is the same everywhere
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.labelsize": 8,
    "legend.fontsize": 7,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "lines.linewidth": 1.2,
    "lines.markersize": 3,
    "pdf.fonttype": 42,
    "svg.fonttype": "path",
    "svg.hashsalt": "dgdmn",
    "path.simplify": False,
    "axes.formatter.use_mathtext": False,
    "text.usetex": False,
    "text.parse_math": False,
}
"""Fonts are embedded as TrueType in a PDF and as outlines in an SVG; names of tasks are never read as formulas."""


@contextmanager
def style() -> Iterator[None]:
    """Draw and write under the figures' own settings, whatever the user's are."""
    with mpl.rc_context(), warnings.catch_warnings():
        mpl.rcdefaults()
        mpl.rcParams.update(STYLE)
        # a name in a script that the font lacks is drawn as boxes
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        yield


def panels(
    count: int, columns: int = 3, *, size: tuple[float, float] = (WIDTH, HEIGHT)
) -> tuple[Figure, list[Axes]]:
    """A figure with so many panels, at most so many beside each other."""
    across, down = min(count, columns), math.ceil(count / columns)
    figure = Figure(figsize=(across * size[0], down * size[1]), layout="constrained")
    grid = figure.subplots(down, across, squeeze=False)
    axes = [one for row in grid for one in row]
    for unused in axes[count:]:
        unused.remove()
    return figure, axes[:count]


def accuracy_axes(axes: Axes, title: str, tasks: int, *, y_label: str = "accuracy") -> None:
    """Accuracy from 0 to 1 against tasks seen."""
    axes.set_title(title)
    axes.set_xlabel("tasks seen")
    axes.set_ylabel(y_label)
    axes.set_ylim(-0.03, 1.03)
    axes.set_xlim(0.8, max(tasks, 2) + 0.2)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def draw(axes: Axes, entry: Entry, x: Sequence[float], y: Sequence[float]) -> None:
    """The line of an algorithm, with its colour, marker and dash."""
    best = entry.first.preset == "best"
    shown = styled(entry.algorithm, variant=entry.variant, best=best)
    axes.plot(x, y, label=entry.name, markevery=max(1, len(x) // 20), **shown)


def styled(algorithm: str, *, variant: int = 0, best: bool = False) -> dict[str, Any]:
    """How a line is drawn: a variant has a dash, a marker and a shade of its own, the preset `best` a wide line and
    hollow markers.
    """
    shown = look(algorithm)
    colour, marker, dashes = shown.light, shown.marker, shown.dash
    if variant:
        marker, share = VARIED[(variant - 1) % len(VARIED)]
        colour, dashes = _shaded(colour, share), VARIANTS[(variant - 1) % len(VARIANTS)]
    beyond = {"linewidth": 2.0, "markersize": 5, "markerfacecolor": "white"} if best else {}
    return {"color": colour, "marker": marker, "dashes": dashes or (None, None), **beyond}


def _shaded(colour: str, share: float) -> str:
    """A colour mixed with white, or below 0 with black.

    >>> _shaded("#804000", 0.5), _shaded("#804000", -0.5)
    ('#c0a080', '#402000')
    """
    other = 255 if share > 0 else 0
    channels = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return "#" + "".join(f"{round(channel + (other - channel) * abs(share)):02x}" for channel in channels)


def draw_published(axes: Axes, algorithm: str, x: Sequence[float], y: Sequence[float]) -> None:
    """The paper's values: faint points."""
    axes.plot(x, y, label=PAPER, color=look(algorithm).light, **DOTS)


def class_colour(number: int) -> str:
    """The colour of a task or class."""
    return CLASSES[number % len(CLASSES)][0]


def add_legend(figure: Figure, axes: Sequence[Axes], *, most: int = 40) -> None:
    """The lines of all panels, each name once, below them; none where they are too many to be told apart."""
    named: dict[str, Artist] = {}
    for one in axes:
        handles, labels = one.get_legend_handles_labels()
        named |= {label: handle for handle, label in zip(handles, labels, strict=True) if label not in named}
    if named.pop(PAPER, None):
        named[PAPER] = Line2D([], [], color="black", **DOTS)  # last, and in no algorithm's colour
    if 0 < len(named) <= most:
        widest = max(map(len, named))
        across = max(1, min(len(named), 7, int(figure.get_figwidth() * 14 / (widest + 11))))
        added = LINE * math.ceil(len(named) / across)  # else it would take its room from the panels
        figure.set_figheight(figure.get_figheight() + added)
        figure.legend(
            list(named.values()), list(named), loc="outside lower center", ncols=across, frameon=False,
            handlelength=4,
        )  # fmt: skip
