"""The figures of each target, drawn with the report's charts.

Images and latents are not collected, so dreams, t-SNE maps and restored digits need the run directories.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from matplotlib.figure import Figure

from dgdmn.config.registry import stream_info
from dgdmn.report.artifacts import embed, read_dreams, read_latents, read_resilience
from dgdmn.report.charts import Line, Panel, image_grid, line_chart, scatter_chart
from dgdmn.report.figures import WIDE
from dgdmn.report.load import Run
from dgdmn.report.sections import group_line
from dgdmn.report.sections.curves import average_panel, task_panel
from dgdmn.report.sections.memory import dream_blocks, recognition_panels
from dgdmn.report.style import style_of
from dgdmn.report.table import Group, has_ltm_curves, mean, mean_curve
from dgdmn.runs.spec import RunSpec
from reproduction import paper
from reproduction.results import Results, accuracies_under

Drawing = Iterator[tuple[str, Figure]]  # suffix of the file name, and figure


@dataclass(frozen=True)
class Request:
    """What a figure is drawn from."""

    specs: Sequence[RunSpec]
    results: Results
    directories: Results  # complete run directories, which have artifacts

    def groups(self) -> list[Group]:
        """The collected runs of each spec that has any; later ones of an algorithm are variants."""
        groups: list[Group] = []
        for found in filter(None, map(self.results.find, self.specs)):
            earlier = [(group.algorithm, group.first.stream) for group in groups]
            variant = earlier.count((found[0].algorithm, found[0].stream))
            groups.append(Group(found, {"preset paper"}, variant))
        return groups

    def select(self, wanted: Callable[[Run], bool]) -> list[Run]:
        """The run directories that are wanted, by seed."""
        found = [run for spec in self.specs for run in self.directories.find(spec)]
        return sorted((run for run in found if wanted(run)), key=lambda run: run.seed)


def accuracy(request: Request) -> Drawing:
    """A panel per algorithm, a line per task; and the same for the LTM alone."""
    groups = request.groups()
    alone = [group for group in groups if has_ltm_curves(group) and not group.first.revise]
    whole = [replace(task_panel(group), title=group.title) for group in groups]
    ltm = [replace(task_panel(g, ltm=True), title=f"{g.title}, LTM alone") for g in alone]
    yield from ((suffix, line_chart(one)) for suffix, one in (("", whole), ("-ltm", ltm)) if one)


def draw_clipped(request: Request) -> Drawing:
    """Single tasks of Digits with clipped probabilities: averages are 1/t whatever was learned."""
    specs = [spec for spec in request.specs if spec.stream == "digits" and spec.changes()]
    return accuracy(replace(request, specs=specs))


def average(request: Request) -> Drawing:
    """A panel per stream: average accuracy on the tasks seen, with the paper's values as dots."""
    streams: dict[str, list[Group]] = {}
    for group in request.groups():
        if not group.first.together:
            streams.setdefault(group.first.stream, []).append(group)
    panels = []
    for name, groups in streams.items():
        lines = _averages(groups, f"{name}_average")
        panels.append(Panel(stream_info(name).title, lines, y_label="average accuracy"))
    if panels:
        yield "", line_chart(panels, columns=2, size=WIDE)


def long_stream(request: Request) -> Drawing:
    """TDigits: accuracy on all tasks seen, on the last ten, and training time."""
    groups, published, times = request.groups(), paper.curve("tdigits_seconds"), list[Line]()
    for group in groups:
        seconds = mean_curve([run.timeline.trained for run in group.runs])
        times.append(group_line(group, range(1, len(seconds) + 1), seconds))
        if group.algorithm == "dgr":  # the authors' machine is another one: scale it to our DGR
            scale = seconds[-1] / published["dgr"][-1]
            dots = {name: [scale * y for y in ys] for name, ys in published.items() if name != "x"}
            times += _dots({**dots, "x": published["x"]}, groups)
    panels = [
        Panel("tasks seen so far", _averages(groups, "tdigits_average")),
        Panel("last 10 tasks seen", _averages(groups, "tdigits_last10", 10)),
        Panel("training time (paper scaled)", times, y_label="seconds", y_range=None),
    ]
    if groups:
        yield "", line_chart(panels, size=(2.6, 2.3))


def _averages(groups: Sequence[Group], curve: str, last: int = 0) -> list[Line]:
    ours = average_panel(groups, last=last, ltm=True).lines
    return [*ours, *_dots(paper.curve(curve), groups)]


def _dots(published: dict[str, list[float]], groups: Sequence[Group]) -> list[Line]:
    """The paper's values of the algorithms that are drawn with the preset `paper`."""
    names = {group.algorithm for group in groups if group.name == group.title} & published.keys()
    x = published.get("x", [])
    return [Line("paper", x, published[name], style_of(name), dots=True) for name in sorted(names)]


def resilience(request: Request) -> Drawing:
    """Accuracy under noise and occlusion after joint training; and restored digits."""
    panels = []
    for kind, label in (("noise", "sd of noise, not clipped"), ("occlusion", "occlusion factor")):
        published, lines = paper.curve(kind), []
        for group in request.groups():
            name, preset = "nn" if group.algorithm == "joint" else "ltm", group.first.preset
            style, x = style_of(group.algorithm, int(preset != "paper")), published["x"]
            y = [mean(accuracies_under(group.runs, kind, strength)) for strength in x]
            title = name.upper() if preset == "paper" else f"{name.upper()} ({preset})"
            lines.append(Line(title, x, y, style))
            if preset == "paper":
                lines.append(Line("paper", x, published[name], style, dots=True))
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
    for panel in recognition_panels(without.groups()):
        yield "-losses", line_chart([replace(panel, title="")], size=WIDE)


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
        labels, blocks = dream_blocks(run, read_dreams(run)[0], max_sleeps=6)
        if blocks:
            yield ("-jointly" if run.together else "-in-sequence"), image_grid(blocks, labels)
