"""Charts of the page as small SVG: classes carry the colours, so that one chart is right by day and by night.

The page draws its own SVG instead of inlining matplotlib's: a chart is a few kilobytes instead of a hundred, text
and colours follow the page, a series can be hidden, and a page is built in milliseconds. Files for a paper are
matplotlib's (`dgdmn.report.figures`).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

MARKERS = {
    "o": "M5 2a3 3 0 1 0 .01 0z",
    "s": "M2 2h6v6h-6z",
    "^": "M5 1.5l3.6 6.5h-7.2z",
    "v": "M5 8.5l3.6-6.5h-7.2z",
    "<": "M1.5 5l6.5-3.6v7.2z",
    ">": "M8.5 5l-6.5-3.6v7.2z",
    "D": "M5 1.2l3.8 3.8-3.8 3.8-3.8-3.8z",
    "d": "M5 1l2.6 4-2.6 4-2.6-4z",
    "P": "M4 1.5h2v2.5h2.5v2h-2.5v2.5h-2v-2.5h-2.5v-2h2.5z",
    "X": "M2.8 1.6L5 3.8 7.2 1.6 8.4 2.8 6.2 5 8.4 7.2 7.2 8.4 5 6.2 2.8 8.4 1.6 7.2 3.8 5 1.6 2.8z",
    "p": "M5 1.3l3.6 2.6-1.4 4.3h-4.4l-1.4-4.3z",
    "h": "M5 1.2l3.3 1.9v3.8l-3.3 1.9-3.3-1.9v-3.8z",
    "*": "M5 1l1.1 2.8 3 .2-2.3 1.9.8 2.9-2.6-1.6-2.6 1.6.8-2.9-2.3-1.9 3-.2z",
    "8": "M3.6 1.6h2.8l2 2v2.8l-2 2h-2.8l-2-2v-2.8z",
}
"""Outlines of matplotlib's markers in a box of 10 by 10."""


@dataclass(frozen=True)
class Series:
    """A line or a row of points."""

    name: str
    """What the reader is told it is."""
    css: str
    """The class that gives it its colour, marker and dash."""
    x: Sequence[float]
    y: Sequence[float]
    """NaN leaves a gap."""
    key: str = ""
    """The button of the legend that shows and hides it; empty: always shown."""
    points: bool = False
    """Faint points without a line: the paper's values."""
    marker: str = ""
    """The id of a marker on the page; empty: a line without markers."""


@dataclass(frozen=True)
class Axes:
    """What lies around the series."""

    title: str
    """What the chart shows, for those who cannot see it."""
    x_label: str
    y_label: str
    x_range: tuple[float, float]
    y_range: tuple[float, float] = (0.0, 1.0)
    wide: bool = False
    """Across the page, instead of a panel beside others."""
    sleeps: Sequence[float] = ()
    """Places on the x axis where the memory slept."""
    line: tuple[float, str] | None = None
    """A level to compare with, and what it is called."""


@dataclass(frozen=True)
class _Frame:
    """Where values lie in the picture."""

    axes: Axes
    width: float
    height: float
    left: float = 46
    right: float = 10
    top: float = 10
    bottom: float = 36

    def x(self, value: float) -> float:
        low, high = self.axes.x_range
        share = (value - low) / (high - low) if high > low else 0.5
        return round(self.left + share * (self.width - self.left - self.right), 1)

    def y(self, value: float) -> float:
        low, high = self.axes.y_range
        share = (value - low) / (high - low) if high > low else 0.5
        return round(self.height - self.bottom - share * (self.height - self.top - self.bottom), 1)


def line_chart(series: Sequence[Series], axes: Axes) -> Markup:
    """A chart; the values under the pointer, or at the arrow keys, are told by the page's script."""
    frame = _Frame(axes, 900, 320) if axes.wide else _Frame(axes, 320, 210)
    places = sorted({x for one in series for x in one.x})
    return Markup(
        '<svg class="chart{wide}" viewBox="0 0 {w:g} {h:g}" role="img" tabindex="0" aria-label="{title}"'
        ' data-x="{x}" data-t="{t}" data-l="{label}">{inside}</svg>'
    ).format(
        wide=" wide" if axes.wide else "",
        w=frame.width,
        h=frame.height,
        title=axes.title,
        x=" ".join(f"{frame.x(place):g}" for place in places),
        t=" ".join(f"{place:g}" for place in places),
        label=axes.x_label,
        inside=_grid(frame) + Markup("").join(_series(one, frame, places) for one in series),
    )


def _series(series: Series, frame: _Frame, places: Sequence[float]) -> Markup:
    known = dict(zip(series.x, series.y, strict=True))
    values = " ".join(_short(known.get(place, math.nan)) for place in places)
    marker = f"url(#{series.marker})" if series.marker else ""
    return Markup(
        '<g class="s {css}{points}"{key} data-n="{name}" data-v="{values}"><path d="{d}"{m}/></g>'
    ).format(
        css=series.css,
        points=" points" if series.points else "",
        key=Markup(' data-key="{}"').format(series.key) if series.key else "",
        name=series.name,
        values=values,
        d=_path(series, frame),
        m=Markup(' marker-start="{0}" marker-mid="{0}" marker-end="{0}"').format(marker) if marker else "",
    )


def _path(series: Series, frame: _Frame) -> str:
    steps, pen = [], "M"
    for x, y in zip(series.x, series.y, strict=True):
        if not math.isfinite(y):
            pen = "M"
            continue
        steps.append(
            f"{pen}{frame.x(x):g} {frame.y(y):g}" + ("h0" if series.points and not series.marker else "")
        )
        pen = "M" if series.points else "L"
    return "".join(steps)


def _short(value: float) -> str:
    return f"{value:.4g}" if math.isfinite(value) else "-"


def _grid(frame: _Frame) -> Markup:
    axes = frame.axes
    lines, labels = [], []
    for tick in ticks(*axes.y_range, 5):
        lines.append(f"M{frame.left:g} {frame.y(tick):g}H{frame.width - frame.right:g}")
        labels.append(_text(frame.left - 6, frame.y(tick) + 4, _label(tick), "end"))
    base = frame.height - frame.bottom
    across = ticks(*axes.x_range, 10 if axes.wide else 6, whole=axes.x_range[1] - axes.x_range[0] > 2)
    labels += [_text(frame.x(tick), base + 15, _label(tick), "middle") for tick in across]
    labels.append(_text((frame.left + frame.width) / 2, frame.height - 5, axes.x_label, "middle"))
    labels.append(
        Markup(
            '<text transform="translate(11 {y:g}) rotate(-90)" text-anchor="middle">{label}</text>'
        ).format(y=(frame.top + base) / 2, label=axes.y_label)
    )
    slept = "".join(f"M{frame.x(place):g} {frame.top:g}V{base:g}" for place in axes.sleeps)
    return (
        Markup('<path class="grid" d="{}"/>').format("".join(lines))
        + (Markup('<path class="slept" d="{}"/>').format(slept) if slept else Markup(""))
        + _level(frame)
        + Markup("").join(labels)
    )


def _level(frame: _Frame) -> Markup:
    if frame.axes.line is None:
        return Markup("")
    value, name = frame.axes.line
    return Markup('<path class="level" d="M{l:g} {y:g}H{r:g}"/>').format(
        l=frame.left, y=frame.y(value), r=frame.width - frame.right
    ) + _text(frame.width - frame.right - 2, frame.y(value) - 4, name, "end")


def _text(x: float, y: float, text: str, anchor: str) -> Markup:
    return Markup('<text x="{x:g}" y="{y:g}" text-anchor="{anchor}">{text}</text>').format(
        x=x, y=y, anchor=anchor, text=text
    )


def ticks(low: float, high: float, most: int, *, whole: bool = False) -> list[float]:
    """At most so many round numbers from low to high.

    >>> ticks(0, 1, 5), ticks(1, 10, 6, whole=True)
    ([0.0, 0.25, 0.5, 0.75, 1.0], [2.0, 4.0, 6.0, 8.0, 10.0])
    """
    span = high - low
    if not span > 0:
        return [low]
    exponent = 10 ** math.floor(math.log10(span))
    sizes = [step * exponent * scale for scale in (0.01, 0.1, 1) for step in (1, 2, 2.5, 5)]
    for size in (size for size in sizes if not whole or size == int(size)):
        first, last = math.ceil(low / size - 1e-9), math.floor(high / size + 1e-9)
        if last - first + 1 <= most:
            return [float(round(number * size, 10)) for number in range(first, last + 1)]
    return [low, high]


def _label(value: float) -> str:
    if abs(value) >= 10_000:
        return f"{value / 1000:g}k"
    return f"{value:g}".replace("-", "−")


def marker_definitions(markers: Sequence[tuple[str, str, str]]) -> Markup:
    """The page's markers: id, class and matplotlib's name of each."""
    return Markup("").join(
        Markup(
            '<marker id="{id}" viewBox="0 0 10 10" refX="5" refY="5" markerWidth="8" markerHeight="8"'
            ' markerUnits="userSpaceOnUse"><path class="m {css}" d="{d}"/></marker>'
        ).format(id=identity, css=css, d=MARKERS[name])
        for identity, css, name in markers
    )


def swatch(css: str, marker: str = "") -> Markup:
    """A piece of line for a legend."""
    m = Markup(' marker-mid="url(#{})"').format(escape(marker)) if marker else ""
    return Markup(
        '<svg class="swatch" viewBox="0 0 28 10" aria-hidden="true"><g class="s {css}">'
        '<path d="M1 5L14 5L27 5"{m}/></g></svg>'
    ).format(css=css, m=m)
