"""Charts: plain arrays in, a matplotlib figure out; the same drawing becomes inline SVG on the page.

Nothing here uses pyplot's global state. The same input gives the same bytes.
"""

import io
import math
import re
import warnings
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element, fromstring, tostring

import matplotlib.style
import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path
from matplotlib.ticker import FuncFormatter, MaxNLocator
from numpy.typing import NDArray

from dgdmn.core.files import os_errors, write_atomic
from dgdmn.core.text import format_ratio, shorten
from dgdmn.report.images import tile
from dgdmn.report.style import ASSETS, CLASS_STYLES, OTHER, Style, class_style

Array = NDArray[Any]
Attributes = dict[str, str]
Size = tuple[float, float]
Block = tuple[str, Sequence[Array]]  # a title and rows of images

PANEL = (2.3, 1.9)  # inches; three panels side by side fill a page
LEGEND_LINE = 0.15  # height of one legend line in inches
CENTRAL = (0.02, 0.98)  # quantiles that a map of points shows for sure
MAX_NAMES = 40  # with more names there is no legend
NEAR = (0.005, 0.05, 0.1, 0.2)
"""Distances below which ends of lines without keys share a name, as shares of the axis: the first that fits."""
END = 14  # characters of a name at the end of a line
STARTS = (0.8, 0.6, 0.4)  # lower limits of an accuracy axis: the first below all values, else 0
NO_METADATA = dict.fromkeys(("Date", "Creator", "Format", "Type"))


@dataclass(frozen=True)
class Line:
    """One line of a chart."""

    name: str
    x: Sequence[float]
    y: Sequence[float]  # NaN leaves a gap
    style: Style = OTHER
    dots: bool = False  # faint points without a line, for values of another source
    key: str = ""  # on the page: the legend button that hides it
    alpha: float = 1.0


@dataclass(frozen=True)
class Panel:
    """One pair of axes and its lines."""

    title: str
    lines: Sequence[Line]
    x_label: str = "tasks seen"
    y_label: str = "accuracy"
    x_range: tuple[float, float] | None = None  # None: from the data
    y_range: tuple[float, float] | None = (0.0, 1.0)  # None: from the data
    ends: bool = False  # names at the ends of the lines instead of a legend; equal ends share one
    marks: Sequence[float] = ()  # dotted vertical lines, such as for sleeps
    level: tuple[float, str] | None = None  # a horizontal line to compare with, and its name
    log: bool = False

    @property
    def has_ratios(self) -> bool:
        """Whether its values are accuracies or other shares."""
        return self.y_range is not None and self.y_range[1] == 1.0


def zoom(panels: Sequence[Panel]) -> list[Panel]:
    """The panels with an axis from one of STARTS to 1 if all of their values lie there; the label says so."""
    values = [y for panel in panels for line in panel.lines for y in line.y if math.isfinite(y)]
    start = next((start for start in STARTS if start <= min(values, default=0.0)), 0.0)
    if not start or any(panel.y_range != (0.0, 1.0) for panel in panels):
        return list(panels)
    return [
        replace(p, y_range=(start, 1), y_label=f"{p.y_label} (from {format_ratio(start, 2)})")
        for p in panels
    ]


@contextmanager
def theme(screen: bool = False) -> Iterator[None]:
    """Use the charts' own matplotlib settings inside this block, whatever the user's are."""
    files = [ASSETS / f"{name}.mplstyle" for name in ("files", "screen")]
    settings = matplotlib.style.context(files if screen else files[:1], after_reset=True)
    with settings, warnings.catch_warnings():
        # A script that the font lacks is drawn as boxes.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        yield


@theme()
def line_chart(panels: Sequence[Panel], *, columns: int = 3, size: Size = PANEL) -> Figure:
    """Lines in one or more panels, with one legend below all of them."""
    figure, axes = _subplots(len(panels), columns, size)
    for panel, one in zip(panels, axes, strict=True):
        one.set_title(shorten(panel.title, 48))
        _draw_panel(one, panel)
    _add_legend(figure, [one for one, panel in zip(axes, panels, strict=True) if not panel.ends])
    return figure


@theme()
def image_grid(blocks: Sequence[Block], labels: Sequence[str] = (), *, columns: int = 4) -> Figure:
    """Blocks of images side by side: each has a title and one row of images (n, h, w[, 3]) per label."""
    n_rows = len(blocks[0][1])
    size = (0.28 * columns + 0.05 + 0.5 / len(blocks), 0.28 * n_rows + 0.4)
    figure, axes = _subplots(len(blocks), len(blocks), size)
    for one, (title, rows) in zip(axes, blocks, strict=True):
        canvas, empty = tile(rows, columns)
        canvas[empty] = 255
        one.imshow(canvas.squeeze(), cmap="gray", vmin=0, vmax=255, interpolation="nearest")
        one.set(title=title, xticks=[], yticks=[])
    if labels:
        places = [len(canvas) / n_rows * (i + 0.5) for i in range(n_rows)]
        axes[0].set_yticks(places, [shorten(name, 16) for name in labels])
        axes[0].tick_params(length=0)
    return figure


@theme()
def scatter_chart(maps: Sequence[tuple[str, Array, Sequence[str]]], *, columns: int = 2) -> Figure:
    """Labeled points (n, 2) in the plane, one map for each (title, points, labels)."""
    figure, axes = _subplots(len(maps), columns, (3.0, 3.0))
    for one, (title, points, labels) in zip(axes, maps, strict=True):
        one.set_title(shorten(title, 48))
        _draw_points(one, points, labels)
    _add_legend(figure, axes)
    return figure


def save_figure(figure: Figure, path: Path, formats: Sequence[str] = ("svg", "pdf")) -> list[Path]:
    """Write a figure as <path>.svg and <path>.pdf; the same figure gives the same bytes."""
    with os_errors("write", path):
        path.parent.mkdir(parents=True, exist_ok=True)
    written = []
    with theme():
        figure.draw_without_rendering()
        figure.set_layout_engine("none")  # the layout is the same for all formats
        for kind in formats:
            content = io.BytesIO()
            date = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind)
            figure.savefig(content, format=kind, metadata=date)
            written.append(path.with_name(f"{path.name}.{kind}"))
            write_atomic(written[-1], content.getvalue())
    return written


def line_svg(panel: Panel, label: str, *, wide: bool = False) -> Markup:
    """A panel as inline SVG; attributes hold the values that the page's script reads out."""
    with theme(screen=True):
        # On a phone the text of a wide chart is larger, so the names need more space.
        width, height, left, size = (600, 330, 64, 17) if wide else (320, 210, 46, 11)
        figure = Figure(figsize=(width / 72, height / 72))
        # Fixed margins: a layout engine would take longer than everything else.
        box = (left / width, 36 / height, 1 - (left + 10) / width, 1 - 46 / height)
        axes = figure.add_axes(box)
        _draw_panel(axes, panel)
        if names := [text.get_text() for text in axes.texts if text.get_gid()]:
            free = width - left - 8 - max(text_width(name, size) for name in names)
            axes.set_position((*box[:2], free / 1.03 / width, box[3]))  # names start at 1.03
        # At a fixed place: beside long numbers it would leave the figure, on a phone first.
        middle = box[1] + box[3] / 2
        axes.yaxis.set_label_coords((18 if wide else 11) / width, middle, figure.transFigure)
        places = sorted({float(x) for line in panel.lines for x in line.x})
        pixels = [axes.transData.transform((x, 0))[0] * 72 / figure.dpi for x in places]
        groups = {}
        for number, line in enumerate(panel.lines):
            known = dict(zip(line.x, line.y, strict=True))
            values = " ".join(f"{known.get(x, math.nan):.4g}" for x in places)
            own = {"class": "s", "data-n": line.name, "data-v": values}
            groups[f"line-{number}"] = own | ({"data-key": line.key} if line.key else {})
            groups[f"end-{number}"] = {"data-key": line.key} if line.key else {}
        shown = {"data-x": " ".join(f"{pixel:.1f}" for pixel in pixels), "data-l": panel.x_label}
        shown |= {"data-t": " ".join(f"{place:g}" for place in places)}
        shown |= {"data-r": ""} if panel.has_ratios else {}
        return _inline(figure, label, {"class": "chart", "tabindex": "0", **shown}, groups)


def scatter_svg(points: Array, labels: Sequence[str], label: str) -> Markup:
    """A map of labeled points as inline SVG."""
    with theme(screen=True):
        figure = Figure(figsize=(320 / 72, 320 / 72))
        axes = figure.add_axes((0.02, 0.02, 0.96, 0.96))
        _draw_points(axes, points, labels)
        axes.set_axis_off()
        return _inline(figure, label, {"class": "chart map"}, {})


def _subplots(count: int, columns: int, size: Size) -> tuple[Figure, list[Axes]]:
    across, down = min(count, columns), math.ceil(count / columns)
    figure = Figure(figsize=(across * size[0], down * size[1]), layout="constrained")
    axes = figure.subplots(down, across, squeeze=False).ravel().tolist()
    for unused in axes[count:]:
        unused.remove()
    return figure, axes[:count]


def _draw_panel(axes: Axes, panel: Panel) -> None:
    for number, line in enumerate(panel.lines):
        _draw_line(axes, line, f"line-{number}")
    for place in panel.marks:
        axes.axvline(place, color="#999999", linewidth=0.8, linestyle=":", zorder=0)
    if panel.level is not None:
        value, name = panel.level
        axes.axhline(value, color="#777777", linestyle="--", linewidth=0.9)
        axes.annotate(name, (1, value), xycoords=("axes fraction", "data"), ha="right", va="bottom")
    axes.set(xlabel=panel.x_label, ylabel=panel.y_label)
    axes.grid(axis="y")
    axes.set_axisbelow(True)
    known = [float(x) for line in panel.lines for x in line.x]
    low, high = panel.x_range or (min(known, default=1), max(known, default=1))
    low, high = (low, high) if low < high else (low - 0.5, low + 0.5)
    axes.set_xlim(low - 0.02 * (high - low), high + 0.02 * (high - low))
    steps = high - low > 2 or all(x.is_integer() for x in known)  # no task 1.5
    ticks = MaxNLocator("auto" if high - low > 2 else 5, integer=steps, min_n_ticks=2 - steps)
    axes.xaxis.set_major_locator(ticks)
    if panel.y_range is not None:
        bottom, top = panel.y_range
        axes.set_ylim(bottom - 0.03 * (top - bottom), top + 0.03 * (top - bottom))
        axes.yaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))  # 0.975 is too long
    if panel.log:
        axes.set_yscale("log")
    if panel.ends:
        _name_ends(axes, panel)
    for formatter in (axes.yaxis.set_major_formatter, axes.yaxis.set_minor_formatter):
        formatter(FuncFormatter(lambda y, _: _tick(y, panel)))


def _tick(y: float, panel: Panel) -> str:
    if panel.has_ratios:
        return format_ratio(y, 2)
    return (f"{y / 1000:g}k" if abs(y) >= 10_000 else f"{y:g}").replace("-", "−")


def _draw_line(axes: Axes, line: Line, gid: str) -> None:
    style = line.style
    look: dict[str, Any] = {"linestyle": "none", "marker": ".", "markersize": 6, "alpha": 0.35}
    if not line.dots:
        # A line with one value is a point.
        marker = style.marker or ("o" if sum(map(math.isfinite, line.y)) == 1 else "")
        look = {"marker": marker, "dashes": style.dash or (None, None), "alpha": line.alpha}
        look["markevery"] = max(1, len(line.x) // 20)
    axes.plot(line.x, line.y, label=line.name, color=style.color, gid=gid, **look)


def _name_ends(axes: Axes, panel: Panel) -> None:
    """Write names beside the last points, moved apart where they are close, with a stroke in the line's color."""
    height = 72 * axes.bbox.height / axes.figure.dpi
    # Charts with keys are wide: on a phone their text is larger.
    step = (1.8 if any(line.key for line in panel.lines) else 1.3) / height
    step *= matplotlib.rcParams["font.size"]
    (bottom, top), (left, right) = axes.get_ylim(), axes.get_xlim()
    found = (_ends(panel, near * (top - bottom)) for near in NEAR)
    ends = next((ends for ends in found if len(ends) * step <= 1.1), [])  # else they do not fit
    ends.sort(key=lambda end: end[2][1])
    places: list[float] = []
    for _, _, (_, y) in ends:
        places.append(max((y - bottom) / (top - bottom), places[-1] + step if places else -1))
    for n in range(len(places) - 1, -1, -1):  # those pushed above the axes come back
        places[n] = min(places[n], places[n + 1] - step if n + 1 < len(places) else 1.0)
    for (name, number, (x, y)), place in zip(ends, places, strict=True):
        end = [(x - left) / (right - left), 1.02], [(y - bottom) / (top - bottom), place]
        look: dict[str, Any] = {"transform": axes.transAxes, "clip_on": False}
        look["gid"] = f"end-{number}"
        axes.plot(*end, color=panel.lines[number].style.color, linewidth=0.8, **look)
        axes.text(1.03, place, name, va="center", **look)


def _ends(panel: Panel, near: float) -> list[tuple[str, int, tuple[float, float]]]:
    """A name for the end of each line, its number and place. Without keys, ends nearer than `near` share one."""
    ends: list[tuple[list[int], tuple[float, float]]] = []
    short = [line.name.partition(" (")[0] for line in panel.lines]  # without the setting
    names = [s if short.count(s) == 1 else panel.lines[n].name for n, s in enumerate(short)]
    for number, line in enumerate(panel.lines if panel.ends else ()):
        known = [(x, y) for x, y in zip(line.x, line.y, strict=True) if math.isfinite(y)]
        if not known:
            continue
        x, y = known[-1]
        shared = [one for one in ends if abs(one[1][1] - y) < near and not line.key]
        if shared:
            shared[0][0].append(number)
        else:
            ends.append(([number], (x, y)))
    return [(_join(names, numbers), numbers[0], place) for numbers, place in ends]


def _join(names: Sequence[str], numbers: Sequence[int]) -> str:
    """Some of the names in a few letters: neighbors with numbers as names become a range.

    >>> _join("01234", [0, 1, 2, 4]), _join(["jan", "mar", "feb"], [0, 1]), _join(["a long name", "b", "cc"], [0, 2])
    ('0–2, 4', 'jan, mar', 'a long na… + 1')
    """
    if len(numbers) == len(names) > 1:
        return f"all {len(names)} tasks"
    runs: list[list[str]] = []
    for before, number in zip([-2, *numbers], numbers, strict=False):
        follows = number == before + 1 and names[number].isdecimal() and names[before].isdecimal()
        runs += [] if follows else [[]]
        runs[-1].append(names[number])
    text = ", ".join(f"{one[0]}–{one[-1]}" if len(one) > 2 else ", ".join(one) for one in runs)
    if len(text) <= END or len(numbers) == 1:
        return shorten(text, END)
    more = f" + {len(numbers) - 1}"
    return shorten(names[numbers[0]], END - len(more)) + more


def text_width(text: str, size: float) -> float:
    """The width of a text in the widest font that browsers use by default, DejaVu Sans."""
    font = FontProperties(size=size)
    return float(text_to_path.get_text_width_height_descent(text, font, ismath=False)[0])


def _draw_points(axes: Axes, points: Array, labels: Sequence[str]) -> None:
    names, middles = np.asarray(labels, dtype=object), list[tuple[str, Array]]()
    classes = sort_labels(labels)
    for number, label in enumerate(classes):
        chosen, color = points[names == label], class_style(number).color
        named = label if len(classes) <= len(CLASS_STYLES) else None  # else colors repeat
        axes.scatter(chosen[:, 0], chosen[:, 1], s=7, color=color, linewidths=0, label=named)
        # The point nearest to all others; a median of coordinates may lie among those of another class.
        distances = np.linalg.norm(chosen[:, None] - chosen[None], axis=2).sum(axis=1)
        middles.append((shorten(label, 12), chosen[distances.argmin()]))
    axes.set(xticks=[], yticks=[])
    low, high = np.quantile(
        points, CENTRAL, axis=0
    )  # one point far away must not squeeze the others
    margin = 0.25 * (high - low) + 1e-9
    low, high = (
        np.maximum(low - margin, points.min(axis=0)),
        np.minimum(high + margin, points.max(axis=0)),
    )
    margin = 0.04 * (high - low) + 1e-9
    (left, bottom), (right, top) = low - margin, high + margin
    axes.set(xlim=(left, right), ylim=(bottom, top))
    _name_points(axes, middles)


def _name_points(axes: Axes, middles: Sequence[tuple[str, Array]]) -> None:
    """Write names at points, inside the axes, without those that would cover another."""
    size, placed = 1.2 * matplotlib.rcParams["font.size"], list[tuple[float, float, float]]()
    across, down = (72 / axes.figure.dpi * side for side in axes.bbox.size)
    for name, point in middles:
        half, tall = 0.6 * text_width(name, size) / across, size / down  # bold
        place = (axes.transData - axes.transAxes).transform(point)
        x, y = np.clip(place, (half, tall / 2), (1 - half, 1 - tall / 2)).tolist()
        if all(abs(x - a) >= half + b or abs(y - c) >= tall for a, b, c in placed):
            placed.append((x, half, y))
            text = axes.text(x, y, name, transform=axes.transAxes, fontweight="bold")
            text.set(ha="center", va="center")


def sort_labels(labels: Iterable[str]) -> list[str]:
    """Each label once, short ones first, so that numbers come as people count."""
    return sorted(set(labels), key=lambda label: (len(label), label))


def _add_legend(figure: Figure, axes: Sequence[Axes]) -> None:
    """The names of all panels, each once, below them. The figure grows, the panels keep their size."""
    named: dict[str, Any] = {}
    for one in axes:
        for handle, label in zip(*one.get_legend_handles_labels(), strict=True):
            named.setdefault(shorten(label, 60), handle)
    if not 0 < len(named) <= MAX_NAMES:
        return
    fitting = int(figure.get_figwidth() * 14 / (max(map(len, named)) + 11))
    across = max(1, min(len(named), 7, fitting))
    figure.set_figheight(figure.get_figheight() + LEGEND_LINE * math.ceil(len(named) / across))
    figure.legend([*named.values()], [*named], loc="outside lower center", ncols=across)


def _inline(figure: Figure, label: str, own: Attributes, groups: dict[str, Attributes]) -> Markup:
    """A figure as an <svg> element for HTML without inline styles, which the page's policy forbids.

    Styles become attributes, so the page's CSS can replace colors. `groups` are attributes of elements by id.
    """
    file = io.BytesIO()
    figure.savefig(file, format="svg", transparent=True, metadata=NO_METADATA)
    content = file.getvalue()
    root, salt = fromstring(content), f"c{zlib.crc32(label.encode() + content):x}"
    used = sorted(set(re.findall(r"#([\w-]+)", content.decode())))
    ids = {name: f"{salt}-{number}" for number, name in enumerate(used)}  # unique on a page
    fixed = {"viewBox": root.get("viewBox", ""), "role": "img", "aria-label": label}
    for node in root.iter():
        node[:] = [child for child in node if not child.tag.endswith("}style")]
        node.tag, given = node.tag.rpartition("}")[2], node.attrib
        node.attrib = groups.get(given.get("id", ""), {}).copy()
        for name, value in given.items():
            _copy_attribute(node, name.rpartition("}")[2], value, ids)
        node.tail, node.text = None, node.text if node.tag == "text" else None
    root.attrib = fixed | {"stroke-linejoin": "round"} | own
    return Markup(tostring(root, encoding="unicode"))


def _copy_attribute(node: Element, name: str, value: str, ids: Attributes) -> None:
    if name == "style":
        pairs = (part.split(":", 1) for part in value.split(";") if ":" in part)
        styles = {key.strip(): text.strip() for key, text in pairs}
        node.attrib |= {key: text for key, text in styles.items() if not key.startswith("font")}
    elif name == "id":
        node.attrib |= {"id": ids[value]} if value in ids else {}
    elif name in ("href", "clip-path"):
        node.set(name, re.sub(r"#([\w-]+)", lambda match: f"#{ids[match[1]]}", value))
    elif name in ("d", "x", "y"):
        numbers = re.sub(r"-?\d+\.\d+", lambda match: f"{float(match[0]):.1f}", value)
        node.set(name, " ".join(numbers.split()))
    elif not value.startswith("rotate(-0 "):
        node.set(name, value)
