"""How each algorithm is drawn, from assets/styles.toml, and the CSS rules that follow from it."""

import tomllib
from dataclasses import dataclass, replace
from pathlib import Path

from dgdmn.config.registry import stream_info
from dgdmn.core.errors import UsageError

ASSETS = Path(__file__).with_name("assets")
HEAT_STEPS = 20  # shades of the accuracy matrix: h0 for 0 up to h20 for 1


@dataclass(frozen=True)
class Style:
    """How a line is drawn."""

    color: str  # on a white page and in files
    dark: str  # on a dark page
    marker: str = ""  # matplotlib's name; empty: no markers
    dash: tuple[float, ...] = ()  # lengths of strokes and gaps; empty: a solid line


_TABLE = tomllib.loads((ASSETS / "styles.toml").read_text(encoding="utf-8"))
VARIANTS = _TABLE["variants"]
STYLES = {
    name: Style(color, dark, marker, tuple(dash))
    for name, (color, dark, marker, *dash) in _TABLE["algorithms"].items()
}
OTHER = STYLES.pop("other")  # for every other algorithm
CLASS_COLORS = _TABLE["classes"]
CLASS_STYLES = [replace(STYLES[name], marker="", dash=()) for name in CLASS_COLORS]


def style_of(algorithm: str, variant: int = 0) -> Style:
    """The style of an algorithm, or of one of its variants, counted from 1.

    >>> style_of("dgdmn").marker, style_of("dgdmn", 1).marker, style_of("unknown") == OTHER
    ('P', 'o', True)
    """
    style = STYLES.get(algorithm, OTHER)
    if not variant:
        return style
    marker, share, *dash = VARIANTS[(variant - 1) % len(VARIANTS)]
    return Style(_shade(style.color, share), _shade(style.dark, -share / 2), marker, tuple(dash))


def class_style(number: int) -> Style:
    """The style of a task or class."""
    return CLASS_STYLES[number % len(CLASS_STYLES)]


def css_class(algorithm: str) -> str:
    """The CSS class with the algorithm's color."""
    return f"a-{algorithm}" if algorithm in STYLES else "a-other"


def stream_title(name: str) -> str:
    """The stream's title; an unknown one keeps its name."""
    try:
        return stream_info(name).title
    except UsageError:
        return name


def heat_colors(step: int, *, dark: bool) -> tuple[str, str]:
    """Background and text color of a heat-map step, from the page's own color to blue."""
    low, high = ((24, 27, 33), (140, 200, 255)) if dark else ((250, 251, 253), (8, 69, 140))
    rgb = [round(a + (b - a) * step / HEAT_STEPS) for a, b in zip(low, high, strict=True)]
    return "#{:02x}{:02x}{:02x}".format(*rgb), "#000000" if rgb[1] > 118 else "#ffffff"


def page_colors(*, dark: bool) -> str:
    """The CSS rules that come from this table: swatches, chart colors and heat-map shades."""
    styles = {**STYLES, "": OTHER}
    colors = {name: style.dark if dark else style.color for name, style in styles.items()}
    rules = [f".{css_class(name)}{{--c:{color}}}" for name, color in colors.items()]
    for step in range(HEAT_STEPS + 1):
        background, text = heat_colors(step, dark=dark)
        rules.append(f".h{step}{{background:{background};color:{text}}}")
    if dark:  # charts have light colors as attributes, which any CSS rule overrides
        for style in {style_of(name, n) for name in styles for n in range(len(VARIANTS) + 1)}:
            rules.append(f'.chart [stroke="{style.color}"]{{stroke:{style.dark}}}')
            rules.append(f'.chart [fill="{style.color}"]{{fill:{style.dark}}}')
    return "\n".join(sorted(rules))


def _shade(color: str, share: float) -> str:
    other = 255 if share > 0 else 0  # mix with white, or with black
    channels = (int(color[i : i + 2], 16) for i in (1, 3, 5))
    return "#" + "".join(f"{round(c + (other - c) * abs(share)):02x}" for c in channels)
