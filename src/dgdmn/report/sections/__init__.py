"""The sections of the page: each module turns the runs of a stream into the data of one template."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from dgdmn.core.text import format_ratio
from dgdmn.report.charts import Line, Panel, line_svg, zoom
from dgdmn.report.table import Group, mean

Data = dict[str, Any]
"""What a template takes."""


def view(panel: Panel, where: str, key: str = "", wide: bool = False, table: bool = True) -> Data:
    """A chart for the page and its values as a table; `where` completes the label for screen readers."""
    places = sorted({float(x) for line in panel.lines for x in line.x}) if table else []
    values = [dict(zip(map(float, line.x), line.y, strict=True)) for line in panel.lines]
    rows = [[f"{x:g}", *(_cell(one.get(x, float("nan")), panel) for one in values)] for x in places]
    columns = [panel.x_label, *(line.name for line in panel.lines)]
    svg = line_svg(panel, f"{panel.title}, {where}", wide=wide)
    data = {"title": panel.title, "svg": svg, "key": key}
    return data | {"columns": columns, "rows": rows}


def _cell(value: float, panel: Panel) -> str:
    if panel.has_ratios or value != value:
        return format_ratio(value)
    return (f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}").replace("-", "−")


def compare(
    groups: Iterable[Group], panels: Iterable[Panel], where: str, wide: bool = False
) -> Data:
    """Charts of the panels that have lines, and legend buttons for the groups that appear in them."""
    keys = {line.key for panel in panels for line in panel.lines}
    legend = [(group.name, group.style) for group in groups if group.name in keys]
    shown = [replace(zoom([p])[0], ends=len(p.lines) > 1) for p in panels if p.lines]
    views = [view(panel, where, wide=wide) for panel in shown]
    return {"legend": legend, "views": views, "wide": wide}


def group_line(group: Group, x: Sequence[float], y: Sequence[float]) -> Line:
    """The line of a group."""
    return Line(group.name, x, y, group.style, key=group.name)


def step_lines(groups: Mapping[Group, Sequence[Mapping[int, float]]]) -> list[Line]:
    """Lines from the values by step of each seed: means over seeds, without unknown steps."""
    lines = []
    for group, seeds in groups.items():
        steps = sorted({step for one in seeds for step in one})
        values = {step: mean([one[step] for one in seeds if step in one]) for step in steps}
        known = {step: value for step, value in values.items() if value == value}
        lines += [group_line(group, list(known), list(known.values()))] if known else []
    return lines
