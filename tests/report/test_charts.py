"""Charts: inline SVG that the page's policy allows, files that are the same each time, colors for all eyes."""

import itertools
import re
import subprocess
import sys
from xml.etree import ElementTree

import numpy as np
import pytest

from dgdmn.config.registry import ALGORITHMS, REFERENCES
from dgdmn.report.charts import (
    Line,
    Panel,
    image_grid,
    line_chart,
    line_svg,
    save_figure,
    scatter_chart,
    scatter_svg,
    text_width,
    zoom,
)
from dgdmn.report.style import (
    CLASS_STYLES,
    HEAT_STEPS,
    OTHER,
    STYLES,
    VARIANTS,
    heat_colors,
    page_colors,
    style_of,
)

NAN = float("nan")
PAGES = {"light": "#ffffff", "dark": "#14171b"}
MAIN = ("nn", "dropnn", "ppr", "ewc", "dgr", "dgdmn", "joint")
# Machado, Oliveira and Fernandes (2009), severity 1: linear RGB as color-blind readers see it
EYES = {
    "normal": np.eye(3),
    "protan": np.array(
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ]
    ),
    "deutan": np.array(
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.01182, 0.04294, 0.968881],
        ]
    ),
}


def panel(**options):
    lines = [
        Line("a", [1, 2, 3], [1, NAN, 0.25], STYLES["nn"], key="A"),
        Line("b", [2], [0.5], dots=True),
    ]
    return Panel("title", lines, **options)


def elements(svg, tag):
    return [node for node in ElementTree.fromstring(svg).iter() if node.tag == tag]


def test_inline_svg_has_values_and_no_styles():
    svg = line_svg(panel(marks=[2], level=(0.5, "N_max")), "a label")
    root = ElementTree.fromstring(svg)
    assert root.get("aria-label") == "a label"
    assert root.get("data-t") == "1 2 3"
    assert len(root.get("data-x").split()) == 3
    (first, second) = [node for node in elements(svg, "g") if node.get("class") == "s"]
    assert (first.get("data-n"), first.get("data-key"), first.get("data-v")) == (
        "a",
        "A",
        "1 nan 0.25",
    )
    assert second.get("data-key") is None
    assert not any("style" in node.attrib for node in root.iter())
    assert not elements(svg, "style")
    assert not elements(svg, "metadata")
    assert {node.text for node in elements(svg, "text")} >= {"tasks seen", "accuracy", "N_max"}


@pytest.mark.parametrize("tasks", [1, 2, 3, 4])
def test_tasks_are_counted_in_whole_numbers(tasks):
    line = Line("a", [*range(1, tasks + 1)], [0.5] * tasks)
    texts = [node.text for node in elements(line_svg(Panel("", [line]), "x"), "text")]
    assert texts[: texts.index("tasks seen")] == [str(n) for n in range(1, tasks + 1)]


@pytest.mark.parametrize("wide", [False, True])
def test_the_vertical_label_has_a_place_beside_long_numbers(wide):
    places = set()
    for y in (0.5, 12345.678):
        svg = line_svg(Panel("", [Line("a", [1, 2], [0, y])], y_range=None), "x", wide=wide)
        (label,) = [node for node in elements(svg, "text") if node.text == "accuracy"]
        places.add(float(label.get("x")))
    assert len(places) == 1
    assert min(places) >= (15 if wide else 8), "its letters are up to 17 units high on a phone"


def test_ends_of_lines_have_names():
    flat = [Line(name, [1, 2], [1, y]) for name, y in zip("abcd", (1, 1, 1, 0), strict=True)]
    names = [node.text for node in elements(line_svg(Panel("", flat, ends=True), "x"), "text")]
    assert {"a, b, c", "d"} <= set(names), "equal ends share a name"
    keyed = [Line(name, [1, 2], [1, 1], key=name) for name in "abc"]
    svg = line_svg(Panel("", keyed, ends=True), "x")
    places = {n.text: float(n.get("y")) for n in elements(svg, "text") if n.text in tuple("abc")}
    assert len(set(places.values())) == 3, "they are moved apart"
    assert sum(node.get("data-key") == "a" for node in elements(svg, "g")) == 3
    many = [Line(f"n{i}", [1], [i / 40], key="k") for i in range(40)]
    names = [node.text for node in elements(line_svg(Panel("", many, ends=True), "x"), "text")]
    assert "n7" not in names, "they do not fit"


def test_names_that_do_not_fit_beside_one_end_are_counted():
    names = [f"2024-{month:02d}" for month in range(1, 9)]
    lines = [Line(name, [1, 2], [1, 1 - (i == 0)]) for i, name in enumerate(names)]
    texts = {node.text for node in elements(line_svg(Panel("", lines, ends=True), "x"), "text")}
    assert {"2024-01", "2024-02 + 6"} <= texts
    svg = line_svg(Panel("", lines[1:], ends=True), "x")
    assert "all 7 tasks" in {node.text for node in elements(svg, "text")}


def test_ends_that_are_apart_have_names_of_their_own():
    ends = {"jan": [0.85, 0.86, 0.87], "mar": [NAN, 0.89, 0.89], "feb": [NAN, NAN, 0.83]}
    lines = [Line(name, [1, 2, 3], values) for name, values in ends.items()]
    svg = line_svg(Panel("", lines, y_range=(0.6, 1.0), ends=True), "x")
    places = {n.text: float(n.get("y")) for n in elements(svg, "text") if n.text in ends}
    assert sorted(places, key=places.get) == ["mar", "jan", "feb"], "from the highest"


def test_ticks_of_accuracies_have_the_format_of_all_accuracies():
    def ticks(y_range, *y):
        svg = line_svg(Panel("", [Line("a", [1, 2], y)], y_range=y_range), "x")
        return {node.text for node in elements(svg, "text")}

    assert {".00", ".80", "1.00"} <= ticks((0.0, 1.0), 0.5, 1)
    assert {"−20", "0"} <= ticks(None, -20, 20)


def test_a_point_far_away_does_not_squeeze_a_map():
    points = np.random.default_rng(0).normal(size=(200, 2))
    far = np.vstack([points, [[500.0, 0.0]]])

    def width(points):
        names = ["a"] * len(points)
        places = [float(n.get("x")) for n in elements(scatter_svg(points, names, ""), "use")]
        return np.ptp(np.sort(places)[2:-2])

    assert width(far) > 0.7 * width(points) > 0


@pytest.mark.parametrize("wide", [False, True])
def test_names_at_the_ends_are_never_cut(wide):
    lines = [Line("W" * 20, [1, 2], [1, 1], key="a"), Line("week 1", [1, 2], [1, 0.3])]
    svg = line_svg(Panel("", lines, ends=True), "x", wide=wide)
    width = float(ElementTree.fromstring(svg).get("viewBox").split()[2])
    (name,) = [node for node in elements(svg, "text") if node.text.startswith("W")]
    end = float(name.get("x")) + text_width(name.text, 17 if wide else 11)
    assert width - 20 < end <= width


@pytest.mark.parametrize(
    ("lowest", "start"), [(0.85, 0.8), (0.8, 0.8), (0.71, 0.6), (0.45, 0.4), (0.3, 0), (0, 0)]
)
def test_an_axis_starts_below_what_is_drawn(lowest, start):
    lines = [Line("a", [1, 2], [1, lowest]), Line("b", [1, 2], [NAN, 0.9])]
    floor = (0.1, "floor")  # a line to compare with may lie outside
    panels = zoom([Panel("", lines, level=floor), Panel("", [Line("c", [1], [1])])])
    assert {panel.y_range for panel in panels} == {(start, 1)}
    assert ("from" in panels[0].y_label) == (start > 0)
    assert zoom([Panel("", lines, y_range=(0, 60))])[0].y_range == (0, 60)


def test_a_line_with_one_value_is_a_point():
    svgs = [line_svg(Panel("", [Line("a", [1, 2], [NAN, y])]), "x") for y in (0.5, NAN)]
    point, nothing = (len(elements(svg, "use")) for svg in svgs)
    assert point > nothing


def test_names_on_a_map_cover_no_other():
    points = np.array([[0, 0], [0.01, 0], [1, 0.2], [0, 1]])
    labels = ["first", "other", "x" * 30, "third"]
    svg = scatter_svg(points, labels, "x")
    texts = {node.text: float(node.get("x")) for node in elements(svg, "text")}
    assert texts.keys() == {"first", "third", "x" * 11 + "…"}
    assert all(x - 0.6 * text_width(name, 13.2) > -1 for name, x in texts.items())
    assert all(x + 0.6 * text_width(name, 13.2) < 321 for name, x in texts.items())


def test_ids_are_used_and_unique_on_a_page():
    svgs = [line_svg(panel(), label) for label in ("one", "two")]
    ids = [
        node.get("id")
        for svg in svgs
        for node in ElementTree.fromstring(svg).iter()
        if node.get("id")
    ]
    assert len(set(ids)) == len(ids)
    used = re.findall(r"#(c[\w-]+)", "".join(svgs))
    assert set(used) == set(ids)


def test_names_are_escaped():
    nasty = "</svg><script>alert(1)</script>"
    lines = [Line(nasty, [1], [1], key=nasty)]
    svg = line_svg(Panel(nasty, lines, nasty, nasty), nasty)
    svg += scatter_svg(np.zeros((1, 2)), [nasty], nasty)
    assert "<script" not in svg


@pytest.mark.parametrize(
    "odd",
    [
        Panel("", []),
        Panel("", [Line("a", [], [])]),
        Panel("", [Line("a", [1], [NAN])], y_range=None),
        Panel("", [Line("a", [5, 6], [1e17, 2e17])], y_range=(0, 2e17)),
        Panel("", [Line("$x_{", [1, 2], [1, 2])], y_range=None, log=True),
        Panel("", [Line("漢字", [1, 2], [0, 1])], x_range=(1, 1)),
    ],
)
def test_odd_panels_are_drawn(odd, tmp_path):
    assert line_svg(odd, "odd").startswith("<svg")
    assert save_figure(line_chart([odd]), tmp_path / "odd", ("svg",))


def test_figures_are_the_same_bytes_each_time(tmp_path):
    images = np.arange(32, dtype=np.uint8).reshape(2, 4, 4)
    for name in ("one", "two"):
        save_figure(line_chart([panel()] * 4), tmp_path / name / "lines")
        save_figure(
            image_grid([("a", [images, images[:1]])], ["x", "y"]), tmp_path / name / "images"
        )
        save_figure(scatter_chart([("m", np.eye(2), ["a", "b"])]), tmp_path / name / "map")
    files = sorted(path.name for path in (tmp_path / "one").iterdir())
    assert files == ["images.pdf", "images.svg", "lines.pdf", "lines.svg", "map.pdf", "map.svg"]
    for name in files:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def test_a_panel_keeps_its_size_with_a_long_legend():
    few, many = (
        line_chart([Panel("", [Line(str(i), [1], [1]) for i in range(n)])]) for n in (1, 30)
    )
    for figure in (few, many):
        figure.draw_without_rendering()
    heights = [figure.axes[0].get_window_extent().height for figure in (few, many)]
    assert heights[1] > 0.8 * heights[0]


def test_the_users_settings_change_nothing(tmp_path):
    import matplotlib as mpl

    before = line_svg(panel(), "x")
    with mpl.rc_context({"font.size": 30, "lines.linewidth": 9, "svg.hashsalt": "other"}):
        assert line_svg(panel(), "x") == before
        assert mpl.rcParams["font.size"] == 30


def test_pyplot_is_not_imported():
    code = "import sys, dgdmn.report.page; print([m for m in ('torch', 'matplotlib.pyplot') if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == "[]\n"


def luminance(color):
    channels = np.array([int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return linear, float(linear @ [0.2126, 0.7152, 0.0722])


def contrast(one, other):
    low, high = sorted((luminance(one)[1], luminance(other)[1]))
    return (high + 0.05) / (low + 0.05)


def lab(color, eyes):
    seen = np.clip(EYES[eyes] @ luminance(color)[0], 0, 1)
    to_xyz = np.array(
        [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    )
    x, y, z = np.cbrt(to_xyz @ seen / np.array([0.9505, 1.0, 1.089]))
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def least(colors, eyes):
    """The smallest distance of two colors, and which they are."""
    seen = {name: lab(color, eyes) for name, color in colors.items()}
    return min(
        (np.linalg.norm(seen[a] - seen[b]), a, b) for a, b in itertools.combinations(seen, 2)
    )


@pytest.mark.parametrize("page", PAGES)
def test_every_line_stands_out_from_its_page(page):
    styles = [*STYLES.values(), OTHER, *CLASS_STYLES]
    shown = [style.dark if page == "dark" else style.color for style in styles]
    assert min(contrast(color, PAGES[page]) for color in shown) >= 3


@pytest.mark.parametrize("eyes", EYES)
@pytest.mark.parametrize("page", PAGES)
def test_algorithms_differ_for_all_readers(page, eyes):
    shown = {name: style.dark if page == "dark" else style.color for name, style in STYLES.items()}
    assert least({name: shown[name] for name in MAIN}, eyes) >= (15,)
    assert least(shown, eyes) >= (8,)


def test_every_algorithm_has_a_style_of_its_own():
    assert STYLES.keys() >= {*ALGORITHMS, *REFERENCES}
    looks = {(style.color, style.marker, style.dash) for style in STYLES.values()}
    assert len(looks) == len(STYLES)
    assert STYLES["dgdmn"].color == "#d66800"


def test_color_is_never_the_only_difference():
    styles = [*STYLES.values(), OTHER]
    assert len({style.marker for style in styles}) == len(styles)
    variants = {
        (style.marker, style.dash)
        for n in range(len(VARIANTS) + 1)
        for style in [style_of("dgdmn", n)]
    }
    assert len(variants) == len(VARIANTS) + 1


@pytest.mark.parametrize("dark", [False, True])
def test_every_cell_of_a_heat_map_can_be_read(dark):
    shades = [heat_colors(step, dark=dark) for step in range(HEAT_STEPS + 1)]
    assert min(contrast(background, text) for background, text in shades) >= 4.5
    assert len({background for background, _ in shades}) == len(shades)


def test_every_chart_color_has_a_dark_rule():
    rules = page_colors(dark=True)
    for style in [*STYLES.values(), OTHER, *CLASS_STYLES, style_of("ewc", 3)]:
        assert f'[stroke="{style.color}"]{{stroke:{style.dark}}}' in rules
