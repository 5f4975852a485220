"""The figures of each target, drawn with the report's charts.

Images and latents are not collected, so dreams, t-SNE maps and restored digits need the run directories.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from matplotlib.figure import Figure

from dgdmn.config.registry import algorithm_info, stream_info
from dgdmn.report.artifacts import embed, read_dreams, read_latents, read_resilience
from dgdmn.report.charts import Line, Panel, image_grid, line_chart, scatter_chart
from dgdmn.report.load import Run
from dgdmn.report.style import Style, class_style, style_of
from dgdmn.report.table import Group, average_curves, has_ltm_curves, mean_curve, task_curves
from dgdmn.runs.spec import RunSpec
from reproduction import paper
from reproduction.results import Results, accuracy_under, finite, mean
from reproduction.tables import PLAIN, variant

WIDE = (3.4, 2.4)  # width and height of a large panel in inches
MAX_SLEEPS, PER_TASK = 6, 4  # sleeps, and dreams of each task, on a sheet

Drawing = Iterator[tuple[str, Figure]]  # suffix of the file name, and figure
Groups = Sequence[tuple[RunSpec, Group]]


@dataclass(frozen=True)
class Request:
    """What a figure is drawn from."""

    specs: Sequence[RunSpec]
    results: Results
    directories: Results  # complete run directories, which have artifacts

    def groups(self) -> Groups:
        """The collected runs of each spec that has any."""
        return [(spec, Group(found)) for spec in self.specs if (found := self.results.find(spec))]

    def select(self, wanted: Callable[[Run], bool]) -> list[Run]:
        """The run directories that are wanted, by seed."""
        found = [run for spec in self.specs for run in self.directories.find(spec)]
        return sorted((run for run in found if wanted(run)), key=lambda run: run.seed)


def accuracy(request: Request) -> Drawing:
    """A panel per algorithm, a line per task; and the same for the LTM alone."""
    for suffix, ltm in (("", False), ("-ltm", True)):
        panels = []
        for spec, group in request.groups():
            if ltm and (spec.revise or not has_ltm_curves(group)):
                continue
            curves = task_curves(group, ltm=ltm)
            lines = [Line(c.task, c.steps, c.values, class_style(c.column)) for c in curves]
            name = algorithm_info(spec.algorithm).title + (", LTM alone" if ltm else "")
            sleeps = group.first.timeline.sleeps
            panels.append(Panel(name, lines, y_label="accuracy on task", marks=sleeps))
        if panels:
            yield suffix, line_chart(panels)


def clipped(request: Request) -> Drawing:
    """Single tasks of Digits with clipped probabilities: averages are 1/t whatever was learned."""
    specs = [spec for spec in request.specs if spec.stream == "digits" and spec.changes()]
    return accuracy(replace(request, specs=specs))


def average(request: Request) -> Drawing:
    """A panel per stream: average accuracy on the tasks seen, with the paper's values as dots."""
    streams: dict[str, list[tuple[RunSpec, Group]]] = {}
    for spec, group in request.groups():
        if not spec.together:
            streams.setdefault(spec.stream, []).append((spec, group))
    panels = []
    for name, groups in streams.items():
        lines = _averages(groups, f"{name}_average")
        panels.append(Panel(stream_info(name).title, lines, y_label="average accuracy"))
    if panels:
        yield "", line_chart(panels, columns=2, size=WIDE)


def long_stream(request: Request) -> Drawing:
    """TDigits: accuracy on all tasks seen, on the last ten, and training time."""
    groups = request.groups()
    seconds = [mean_curve([run.timeline.trained for run in group.runs]) for _, group in groups]
    published, times = paper.curve("tdigits_seconds"), []
    for (spec, _), style, curve in zip(groups, _styles(groups), seconds, strict=True):
        times.append(Line(_label(spec), range(1, len(curve) + 1), curve, style))
        if spec.algorithm == "dgr":  # the authors' machine is another one: scale it to our DGR
            scale = curve[-1] / published["dgr"][-1]
            dots = {name: [scale * y for y in ys] for name, ys in published.items() if name != "x"}
            times += _dots({**dots, "x": published["x"]}, groups)
    panels = [
        Panel("tasks seen so far", _averages(groups, "tdigits_average")),
        Panel("last 10 tasks seen", _averages(groups, "tdigits_last10", 10)),
        Panel("training time (paper scaled)", times, y_label="seconds", y_range=None),
    ]
    if groups:
        yield "", line_chart(panels, size=(2.6, 2.3))


def _averages(groups: Groups, curve: str, last: int = 0) -> list[Line]:
    lines = []
    for (spec, group), style in zip(groups, _styles(groups), strict=True):
        y = mean_curve(average_curves(group, last=last))
        lines.append(Line(_label(spec), range(1, len(y) + 1), y, style))
        if has_ltm_curves(group) and not spec.changes():
            # Between sleeps the average is too high: a memory of one class is always right about it.
            y = mean_curve(average_curves(group, last=last, ltm=True))
            dotted = replace(style, marker="", dash=(1, 1.5))
            lines.append(Line(f"{_label(spec)}, LTM alone", range(1, len(y) + 1), y, dotted))
    return lines + _dots(paper.curve(curve), groups)


def _dots(published: dict[str, list[float]], groups: Groups) -> list[Line]:
    """The paper's values of the algorithms that are drawn with the preset `paper`."""
    names = {spec.algorithm for spec, _ in groups if variant(spec) == PLAIN} & published.keys()
    x = published.get("x", [])
    return [Line("paper", x, published[name], style_of(name), dots=True) for name in sorted(names)]


def _styles(groups: Groups) -> list[Style]:
    names = [spec.algorithm for spec, _ in groups]
    return [style_of(name, names[:place].count(name)) for place, name in enumerate(names)]


def _label(spec: RunSpec) -> str:
    name, how = algorithm_info(spec.algorithm).title, variant(spec)
    return name if how == PLAIN else f"{name} ({how.replace('`', '')})"


def resilience(request: Request) -> Drawing:
    """Accuracy under noise and occlusion after joint training; and restored digits."""
    panels = []
    for kind, label in (("noise", "sd of noise, not clipped"), ("occlusion", "occlusion factor")):
        published, lines = paper.curve(kind), []
        for spec, group in request.groups():
            name, ours = "nn" if spec.algorithm == "joint" else "ltm", spec.preset != "paper"
            style = style_of(spec.algorithm, int(ours))
            y = [
                mean(finite(accuracy_under(run, kind, x) for run in group.runs))
                for x in published["x"]
            ]
            title = f"{name.upper()} ({spec.preset})" if ours else name.upper()
            lines.append(Line(title, published["x"], y, style))
            if not ours:
                lines.append(Line("paper", published["x"], published[name], style, dots=True))
        panels.append(Panel("", lines, x_label=label, y_range=(0.4, 1.0)))
    if panels[0].lines:
        yield "", line_chart(panels, columns=2, size=WIDE)
    for run in request.select(lambda run: run.info.generative and run.preset == "paper")[:1]:
        kept = read_resilience(run)[0]
        if kept is not None and kept.images is not None:
            yield "-pictures", image_grid([("", kept.images)], columns=len(kept.images[0]))


def recognition(request: Request) -> Drawing:
    """Accuracy without descriptors, averages with and without, and recognition losses against γ."""
    without = replace(request, specs=[s for s in request.specs if s.algorithm == "dgdmn-recog"])
    yield from ((suffix, figure) for suffix, figure in accuracy(without) if not suffix)
    yield from (("-average", figure) for _, figure in average(request))
    for spec, group in without.groups():
        events, tasks = group.first.timeline.recognized, group.first.tasks
        lines, steps = [], range(1, len(events) + 1)
        for number, task in enumerate(tasks):
            lowest = [min(event["losses"][task]) for event in events]
            lines.append(Line(task, steps, lowest, class_style(number)))
        level = (spec.options.gamma, "γ")
        panel = Panel("", lines, y_label="recognition loss", y_range=None, level=level, log=True)
        yield "-losses", line_chart([panel], size=WIDE)


def latents(request: Request) -> Drawing:
    """t-SNE maps of the LTM's latents, learned jointly and in sequence."""
    runs = request.select(lambda run: "latents" in run.artifacts)
    known = {run.together: found for run in reversed(runs) if (found := read_latents(run)[0])}
    if len(known) == 2:
        titles = {True: "LTM, jointly", False: "LTM, in sequence"}
        maps = ((titles[how], *known[how]) for how in (True, False))
        yield "", scatter_chart([(title, embed(z), labels) for title, z, labels in maps])


def dreams(request: Request) -> Drawing:
    """Dreams of the LTM after its sleeps, a row per task."""
    for run in {run.together: run for run in reversed(request.select(lambda _: True))}.values():
        kept = [one for one in read_dreams(run)[0] if len(one.x)]
        kept = kept[:: len(kept) // -MAX_SLEEPS or 1][::-1]  # the last one included
        rows = sorted({int(task) for one in kept for task in one.tasks})
        blocks = [(f"after task {d.step}", [d.x[d.tasks == t] for t in rows]) for d in kept]
        if blocks:
            labels = [[*run.tasks, "other"][task] for task in rows]
            suffix = "-jointly" if run.together else "-in-sequence"
            yield suffix, image_grid(blocks, labels, columns=PER_TASK)
