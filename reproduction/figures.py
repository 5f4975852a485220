"""The figures of each target, drawn with the report's charts.

A figure is drawn from collected results. Images and latents are not collected, so dreams, t-SNE maps and
restored digits need the run directories; without them the committed files stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from dgdmn.config.registry import algorithm_info, stream_info
from dgdmn.report.artifacts import embed, read_dreams, read_latents, read_resilience
from dgdmn.report.load import Run
from dgdmn.report.style import Style, class_style, style_of
from dgdmn.report.table import Group, average_curves, has_ltm_curves, mean_curve, task_curves
from dgdmn.runs.spec import RunSpec
from reproduction import paper
from reproduction.results import Results, finite, mean, under
from reproduction.tables import variant

if TYPE_CHECKING:  # matplotlib takes half a second to import
    from matplotlib.figure import Figure

    from dgdmn.report.charts import Line, Panel

PAPER = "paper"
"""Name of the paper's values in a legend."""
WIDE = (3.4, 2.4)
"""Width and height of a large panel in inches."""
MOST_SLEEPS, PER_TASK = 6, 4
"""Sleeps, and dreams of each task, on a sheet."""


@dataclass(frozen=True)
class Request:
    """What a figure is drawn from."""

    specs: Sequence[RunSpec]
    results: Results
    directories: Results
    """Complete run directories, which have artifacts."""

    def groups(self) -> list[tuple[RunSpec, Group]]:
        """The collected runs of each spec that has any."""
        return [(spec, Group(found)) for spec in self.specs if (found := self.results.find(spec))]


Drawing = Iterator[tuple[str, "Figure"]]


def accuracy(request: Request) -> Drawing:
    """A panel per algorithm, a line per task; and the same for the LTM alone."""
    from dgdmn.report.charts import line_chart

    groups = [(spec, group) for spec, group in request.groups() if not spec.together]
    if groups:
        yield "", line_chart([_task_panel(spec, group) for spec, group in groups])
    alone = [(spec, group) for spec, group in groups if has_ltm_curves(group) and not spec.revise]
    if alone:
        yield "-ltm", line_chart([_task_panel(spec, group, ltm=True) for spec, group in alone])


def clipped(request: Request) -> Drawing:
    """Single tasks of Digits with clipped probabilities: averages are 1/t whatever was learned."""
    specs = [spec for spec in request.specs if spec.stream == "digits" and spec.changes()]
    yield from accuracy(replace(request, specs=specs))


def _task_panel(spec: RunSpec, group: Group, ltm: bool = False) -> Panel:
    from dgdmn.report.charts import Line, Panel

    lines = [
        Line(curve.task, curve.steps, curve.values, class_style(curve.column))
        for curve in task_curves(group, ltm=ltm)
    ]
    title = algorithm_info(spec.algorithm).title + (", LTM alone" if ltm else "")
    return Panel(title, lines, y_label="accuracy on task", marks=group.first.timeline.sleeps)


def average(request: Request) -> Drawing:
    """A panel per stream: average accuracy on the tasks seen, with the paper's values as dots."""
    from dgdmn.report.charts import Panel, line_chart

    groups = [(spec, group) for spec, group in request.groups() if not spec.together]
    panels = []
    for stream in dict.fromkeys(spec.stream for spec, _ in groups):
        chosen = [(spec, group) for spec, group in groups if spec.stream == stream]
        lines = _curve_lines(chosen, paper.curve(f"{stream}_average"))
        panels.append(Panel(stream_info(stream).title, lines, y_label="average accuracy"))
    if panels:
        yield "", line_chart(panels, columns=2, size=WIDE)


def long_stream(request: Request) -> Drawing:
    """TDigits: accuracy on all tasks seen, on the last ten, and training time."""
    from dgdmn.report.charts import Line, Panel, line_chart

    groups = request.groups()
    if not groups:
        return
    times, scaled = [], {}
    for (spec, group), style in zip(groups, _styles(groups), strict=True):
        seconds = mean_curve([run.timeline.trained for run in group.runs])
        times.append(Line(_label(spec), range(1, len(seconds) + 1), seconds, style))
        if spec.algorithm == "dgr":  # the authors' machine is another one: scale to our DGR
            published = paper.curve("tdigits_seconds")
            scale = seconds[-1] / published["dgr"][-1]
            scaled = {name: [scale * y for y in ys] for name, ys in published.items() if name != "x"}
    times += _dots({**scaled, "x": paper.curve("tdigits_seconds")["x"]}, groups)
    yield (
        "",
        line_chart(
            [
                Panel("tasks seen so far", _curve_lines(groups, paper.curve("tdigits_average"))),
                Panel("last 10 tasks seen", _curve_lines(groups, paper.curve("tdigits_last10"), 10)),
                Panel("training time (paper scaled to our DGR)", times, y_label="seconds", y_range=None),
            ],
            size=(2.6, 2.3),
        ),
    )


def _curve_lines(
    groups: Sequence[tuple[RunSpec, Group]], published: dict[str, list[float]], last: int = 0
) -> list[Line]:
    from dgdmn.report.charts import Line

    lines = []
    for (spec, group), style in zip(groups, _styles(groups), strict=True):
        y = mean_curve(average_curves(group, last=last))
        lines.append(Line(_label(spec), range(1, len(y) + 1), y, style))
        if has_ltm_curves(group) and not spec.changes():
            # Between sleeps the average is flattered: a memory of one class is always right about it.
            y = mean_curve(average_curves(group, last=last, ltm=True))
            dotted = replace(style, marker="", dash=(1, 1.5))
            lines.append(Line(f"{_label(spec)}, LTM alone", range(1, len(y) + 1), y, dotted))
    return lines + _dots(published, groups)


def _styles(groups: Sequence[tuple[RunSpec, Group]]) -> list[Style]:
    names = [spec.algorithm for spec, _ in groups]
    return [style_of(name, names[:place].count(name)) for place, name in enumerate(names)]


def _label(spec: RunSpec) -> str:
    name, how = algorithm_info(spec.algorithm).title, variant(spec)
    return name if how == "preset `paper`" else f"{name} ({how.replace('`', '')})"


def _dots(published: dict[str, list[float]], groups: Sequence[tuple[RunSpec, Group]]) -> list[Line]:
    """The paper's values of the algorithms that are drawn."""
    from dgdmn.report.charts import Line

    drawn = {spec.algorithm for spec, _ in groups}
    return [
        Line(PAPER, published["x"], y, style_of(name), dots=True)
        for name, y in published.items()
        if name in drawn
    ]


def resilience(request: Request) -> Drawing:
    """Accuracy under noise and occlusion of memories and networks trained jointly; and restored digits."""
    from dgdmn.report.charts import Line, Panel, image_grid, line_chart

    panels = []
    for kind, label in (("noise", "standard deviation of noise, not clipped"), ("occlusion", "occlusion factor")):
        published, lines = paper.curve(kind), []
        for spec, group in request.groups():
            name = "nn" if spec.algorithm == "joint" else "ltm"
            title = name.upper() + (f" ({spec.preset})" if spec.preset != "paper" else "")
            style = style_of(spec.algorithm, int(spec.preset != "paper"))
            y = [mean(finite(under(run, kind, x) for run in group.runs)) for x in published["x"]]
            lines.append(Line(title, published["x"], y, style))
            if spec.preset == "paper":
                lines.append(Line(PAPER, published["x"], published[name], style, dots=True))
        panels.append(Panel("", lines, x_label=label, y_range=(0.4, 1.0)))
    if panels[0].lines:
        yield "", line_chart(panels, columns=2, size=WIDE)
    for run in _directories(request, lambda run: run.algorithm == "dgr" and run.preset == "paper")[:1]:
        kept = read_resilience(run)[0]
        if kept is not None and len(kept.corrupted):
            rows = [kept.corrupted, kept.restored]
            yield "-pictures", image_grid([("", rows)], ["given", "restored"], columns=len(kept.corrupted))


def recognition(request: Request) -> Drawing:
    """Accuracy without descriptors, average accuracy with and without, and recognition losses against γ."""
    from dgdmn.report.charts import Line, Panel, line_chart

    without = [spec for spec in request.specs if spec.algorithm == "dgdmn-recog"]
    chosen = replace(request, specs=without)
    yield from ((name, figure) for name, figure in accuracy(chosen) if not name)
    yield from (("-average", figure) for _, figure in average(request))
    for spec, group in chosen.groups():
        events = group.first.timeline.recognized
        steps = range(1, len(events) + 1)
        lines = [
            Line(task, steps, [min(event["losses"][task]) for event in events], class_style(number))
            for number, task in enumerate(group.first.tasks)
        ]
        level = (spec.options.gamma, "γ")
        panel = Panel("", lines, y_label="recognition loss", y_range=None, level=level, log=True)
        yield "-losses", line_chart([panel], size=WIDE)


def latents(request: Request) -> Drawing:
    """t-SNE maps of the LTM's latents, learned jointly and in sequence."""
    from dgdmn.report.charts import scatter_chart

    runs = _directories(request, lambda run: "latents" in run.artifacts)
    known = {run.together: found for run in runs if (found := read_latents(run)[0])}
    if len(known) == 2:
        titles = {True: "LTM, jointly", False: "LTM, in sequence"}
        yield "", scatter_chart([(titles[how], *embed(known[how])) for how in (True, False)])


def dreams(request: Request) -> Drawing:
    """Dreams of the LTM after its sleeps, a row per task."""
    from dgdmn.report.charts import image_grid

    for name, together in (("-in-sequence", False), ("-jointly", True)):
        for run in _directories(request, lambda run, how=together: run.together == how)[:1]:  # type: ignore[misc]
            kept = [one for one in read_dreams(run)[0] if len(one.x)]
            chosen = kept[:: -(-len(kept) // MOST_SLEEPS)] if len(kept) > MOST_SLEEPS else kept
            rows = sorted({int(task) for one in chosen for task in one.tasks})
            blocks = [
                (f"after task {one.step}", [one.x[one.tasks == task] for task in rows]) for one in chosen
            ]
            if blocks:
                labels = [[*run.tasks, "other"][task] for task in rows]
                yield name, image_grid(blocks, labels, columns=PER_TASK)


def _directories(request: Request, wanted: Callable[[Run], bool]) -> list[Run]:
    found = [run for spec in request.specs for run in request.directories.find(spec)]
    return sorted((run for run in found if wanted(run)), key=lambda run: run.seed)
