"""How each algorithm is drawn: color, marker and dash, safe for color-blind readers.

The colors began as those of Okabe and Ito and of Paul Tol, and were moved apart in lightness until red-blind
and green-blind readers can tell them apart; a test checks that. No two algorithms share a marker, so color is
never the only difference. Every color has a counterpart for dark pages.
"""

from dataclasses import dataclass, replace

from dgdmn.config.registry import stream_info
from dgdmn.core.errors import UsageError


@dataclass(frozen=True)
class Style:
    """How a line is drawn."""

    color: str  # on a white page and in files
    dark: str  # on a dark page
    marker: str = ""  # matplotlib's name; empty: no markers
    dash: tuple[float, ...] = ()  # lengths of strokes and gaps; empty: a solid line


STYLES = {
    "nn": Style("#4a4a4a", "#bababa", "o"),
    "dropnn": Style("#ce5687", "#cb4890", "s"),
    "ppr": Style("#7a5200", "#e6a817", "^"),
    "ewc": Style("#007c40", "#21a673", "D"),
    "dgr": Style("#005da7", "#4a90df", "v"),
    "dgdmn": Style("#d66800", "#dd6c32", "P"),
    "dgdmn-recog": Style("#a82b66", "#dc729a", "X", (5, 2)),
    "si": Style("#5d4d18", "#d0cb86", "<", (5, 2)),
    "lwf": Style("#2187c6", "#88ccee", ">", (5, 2)),
    "gem": Style("#379b9d", "#55e7aa", "p", (5, 2)),
    "icarl": Style("#6d2562", "#ca7bc3", "h", (5, 2)),
    "er": Style("#0a4d29", "#4aa25b", "*", (5, 2)),
    "joint": Style("#111111", "#f2f2f2", "d", (2, 2)),
}
"""By algorithm, in the order in which they are listed."""

OTHER = Style("#4b5fa8", "#9db0f5", "8", (1, 2))  # for every other algorithm

VARIANTS = (
    ("o", 0.45, (4.0, 2.0)),
    ("s", -0.5, (1.0, 1.5)),
    ("D", 0.25, (7.0, 2.0, 1.0, 2.0)),
    ("^", -0.3, (7.0, 2.0, 1.0, 2.0, 1.0, 2.0)),
)
"""Marker, shade and dash of an algorithm's variants; further ones repeat. Positive shades are lighter."""

_CLASSES = ("dgr", "dgdmn", "ewc", "dropnn", "ppr", "nn", "dgdmn-recog", "lwf", "icarl", "gem")
CLASS_STYLES = tuple(replace(STYLES[name], marker="", dash=()) for name in _CLASSES)
"""Colors of tasks and classes in their order; further ones repeat."""

HEAT_STEPS = 20  # shades of the accuracy matrix: h0 for 0 up to h20 for 1


def style_of(algorithm: str, variant: int = 0) -> Style:
    """The style of an algorithm, or of one of its variants, counted from 1.

    >>> style_of("dgdmn").marker, style_of("dgdmn", 1).marker, style_of("unknown") == OTHER
    ('P', 'o', True)
    """
    style = STYLES.get(algorithm, OTHER)
    if not variant:
        return style
    marker, share, dash = VARIANTS[(variant - 1) % len(VARIANTS)]
    color, dark = _shade(style.color, share), _shade(style.dark, -share / 2)
    return Style(color, dark, marker, dash)


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
    rules = [
        f".{css_class(name)}{{--c:{(one.color, one.dark)[dark]}}}" for name, one in styles.items()
    ]
    for step in range(HEAT_STEPS + 1):
        background, text = heat_colors(step, dark=dark)
        rules.append(f".h{step}{{background:{background};color:{text}}}")
    if dark:  # charts have light colors as attributes, which any CSS rule overrides
        for style in {style_of(name, n) for name in styles for n in range(len(VARIANTS) + 1)}:
            rules.append(f'.chart [stroke="{style.color}"]{{stroke:{style.dark}}}')
            rules.append(f'.chart [fill="{style.color}"]{{fill:{style.dark}}}')
    return "\n".join(sorted(rules))


def _shade(color: str, share: float) -> str:
    """Mix a color with white, or with black if the share is negative.

    >>> _shade("#804000", 0.5), _shade("#804000", -0.5)
    ('#c0a080', '#402000')
    """
    other = 255 if share > 0 else 0
    channels = (int(color[i : i + 2], 16) for i in (1, 3, 5))
    return "#" + "".join(f"{round(c + (other - c) * abs(share)):02x}" for c in channels)
