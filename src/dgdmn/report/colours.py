"""One look for each algorithm, everywhere: order, name, colour, marker and dash, safe for colour-blind eyes.

The colours began as Okabe and Ito's and Paul Tol's, and were then moved apart in lightness until red-blind and
green-blind eyes tell the paper's six algorithms and the ceiling well apart, and all others still; a test holds
them to it. No two algorithms share a marker, so that nothing is told by colour alone. Every colour has a twin
for dark pages.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Look:
    """How an algorithm is drawn."""

    name: str
    """What people call it."""
    light: str
    """Its colour on a white page, and in files."""
    dark: str
    """Its colour on a dark page."""
    marker: str
    """matplotlib's marker, and the name of the page's."""
    dash: tuple[float, ...] = ()
    """Lengths of strokes and gaps; empty: an unbroken line."""


LOOKS = {
    "nn": Look("NN", "#4A4A4A", "#BABABA", "o"),
    "dropnn": Look("DropNN", "#CE5687", "#CB4890", "s"),
    "ppr": Look("PPR", "#7A5200", "#E6A817", "^"),
    "ewc": Look("EWC", "#007C40", "#21A673", "D"),
    "dgr": Look("DGR", "#005DA7", "#4A90DF", "v"),
    "dgdmn": Look("DGDMN", "#D66800", "#DD6C32", "P"),
    "dgdmn-recog": Look("DGDMN-recog", "#A82B66", "#DC729A", "X", (5, 2)),
    "si": Look("SI", "#5D4D18", "#D0CB86", "<", (5, 2)),
    "lwf": Look("LwF", "#2187C6", "#88CCEE", ">", (5, 2)),
    "gem": Look("GEM", "#379B9D", "#55E7AA", "p", (5, 2)),
    "icarl": Look("iCaRL", "#6D2562", "#CA7BC3", "h", (5, 2)),
    "er": Look("ER", "#0A4D29", "#4AA25B", "*", (5, 2)),
    "joint": Look("Joint", "#111111", "#F2F2F2", "d", (2, 2)),
}
"""By the name in run directories, in the order of the paper's figures, then ours, then the ceiling."""

OTHER = Look("", "#4B5FA8", "#9DB0F5", "8", (1, 2))
"""For a name that is not ours."""

VARIANTS = ((4.0, 2.0), (1.0, 1.5), (7.0, 2.0, 1.0, 2.0), (7.0, 2.0, 1.0, 2.0, 1.0, 2.0))
"""Dashes of an algorithm's variants, in the order they come; more begin anew."""

CLASSES = (
    ("#005DA7", "#4A90DF"),
    ("#D66800", "#DD6C32"),
    ("#007C40", "#21A673"),
    ("#CE5687", "#CB4890"),
    ("#7A5200", "#E6A817"),
    ("#4A4A4A", "#BABABA"),
    ("#A82B66", "#DC729A"),
    ("#2187C6", "#88CCEE"),
    ("#6D2562", "#CA7BC3"),
    ("#379B9D", "#55E7AA"),
)
"""Colours, light and dark, of tasks and classes in the order they come; more begin anew."""


def look(algorithm: str) -> Look:
    """How an algorithm is drawn.

    >>> look("dgdmn").name
    'DGDMN'
    """
    return LOOKS.get(algorithm, OTHER)


def rank(algorithm: str) -> tuple[int, str]:
    """A sort key: the paper's order, then ours, then strangers by name.

    >>> sorted(["joint", "dgdmn", "nn"], key=rank)
    ['nn', 'dgdmn', 'joint']
    """
    names = list(LOOKS)
    return (names.index(algorithm) if algorithm in LOOKS else len(names), algorithm)


def display_name(algorithm: str) -> str:
    """What people call it; a stranger keeps its name."""
    return look(algorithm).name or algorithm


def css_class(algorithm: str) -> str:
    """The class that gives an element the algorithm's colour.

    >>> css_class("dgdmn-recog"), css_class("<mine>")
    ('a-dgdmn-recog', 'a-other')
    """
    return f"a-{algorithm}" if algorithm in LOOKS else "a-other"


HEAT_STEPS = 20
"""Classes of the heat map: h0 for accuracy 0 up to h20 for 1."""


@dataclass(frozen=True)
class Shade:
    """A background and the text upon it."""

    background: str
    text: str


def heat(step: int, *, dark: bool) -> Shade:
    """The colours of a heat-map class: from the page's own to a full blue, with text that stands out.

    >>> heat(0, dark=False).text, heat(20, dark=False).text
    ('#000000', '#ffffff')
    """
    low, high = ((24, 27, 33), (140, 200, 255)) if dark else ((250, 251, 253), (8, 69, 140))
    share = step / HEAT_STEPS
    rgb = tuple(round(a + (b - a) * share) for a, b in zip(low, high, strict=True))
    background = "#{:02x}{:02x}{:02x}".format(*rgb)
    return Shade(background, max(("#000000", "#ffffff"), key=lambda text: contrast(text, background)))


def contrast(one: str, other: str) -> float:
    """The contrast ratio of two colours as WCAG 2 has it, from 1 to 21.

    >>> contrast("#000000", "#ffffff")
    21.0
    """
    low, high = sorted((_luminance(one), _luminance(other)))
    return round((high + 0.05) / (low + 0.05), 2)


def _luminance(colour: str) -> float:
    channels = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    r, g, b = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b
