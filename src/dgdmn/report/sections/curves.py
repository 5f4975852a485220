"""Accuracy over tasks, as curves and as matrices, and its cost in time and samples."""

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate

from dgdmn.core.text import MISSING, count_noun, format_ratio, shorten
from dgdmn.metrics import Matrix
from dgdmn.report import table
from dgdmn.report.charts import Line, Panel, zoom
from dgdmn.report.load import PHASES, Run
from dgdmn.report.sections import Data, compare, group_line, step_lines, view
from dgdmn.report.style import HEAT_STEPS, Style
from dgdmn.report.table import Group, Stream, has_ltm_curves, mask_waiting_tasks, mean_curve

LONG = 20  # a stream with this many tasks also shows the last ten by themselves
MAX_CELLS = 4_000  # cells of a matrix that fit on a page
MAX_CELLS_IN_ALL = 60_000  # of more, each algorithm shows its lowest seed only
TASK_DASHES = ((), (6.0, 2.0), (1.5, 1.5))  # of neighboring tasks; later tasks are also paler
UNITS = ((3600, "hours"), (60, "minutes"), (0, "seconds"))


def curves(stream: Stream) -> Data:
    """The curves of a stream; empty if no run has a row."""
    groups = stream.sequential
    if not groups:
        return {}
    lasts = (0, 10) if stream.n_tasks >= LONG else (0,)
    averages = [average_panel(groups, last=last) for last in lasts]
    owners = [*groups, *filter(has_ltm_curves, groups)]
    panels = zoom([task_panel(group, ltm=n >= len(groups)) for n, group in enumerate(owners)])
    named = zip(panels, (group.name for group in owners), strict=True)
    return {
        "compared": compare(groups, averages, stream.title, wide=True),
        "panels": [view(panel, stream.title, key=name, table=False) for panel, name in named],
        "has_sleeps": any(group.first.timeline.sleeps for group in groups),
        "has_ltm": any(map(has_ltm_curves, groups)),
    }


def average_panel(groups: Sequence[Group], *, last: int = 0, ltm: bool = False) -> Panel:
    """Mean accuracy on the tasks seen, or on the `last` of them; `ltm` adds the long-term memory alone."""
    lines = []
    for group in groups:
        y = mean_curve(table.average_curves(group, last=last))
        lines.append(group_line(group, range(1, len(y) + 1), y))
        # Between sleeps a task memory that holds one class is always right about it.
        if ltm and not group.variant and has_ltm_curves(group):
            y = mean_curve(table.average_curves(group, last=last, ltm=True))
            style = Style(group.style.color, group.style.dark, "", (1, 1.5))
            lines.append(Line(f"{group.name}, LTM alone", range(1, len(y) + 1), y, style))
    part = f"Accuracy on the last {last}" if last else "Average accuracy on the"
    return Panel(f"{part} tasks seen", lines)


def task_panel(group: Group, *, ltm: bool = False) -> Panel:
    """The accuracy of each task after each task, the mean over seeds."""
    found = table.task_curves(group, ltm=ltm)
    styles = [Style(group.style.color, group.style.dark, "", dash) for dash in TASK_DASHES]
    lines = []
    for number, (task, seen, values) in enumerate(found):
        style, alpha = styles[number % len(styles)], 1 - 0.5 * number / len(found)
        lines.append(Line(shorten(task, 24), seen, values, style, alpha=alpha))
    n = sum(run.tasks == group.first.tasks for run in group.runs)
    seeds = f", mean of {count_noun(n, 'seed')}" if n > 1 else ""
    title = f"{group.name}{', LTM alone' if ltm else ''}{seeds}"
    steps = max([len(group.first.tasks), *(steps[-1] for _, steps, _ in found)])
    panel = Panel(title, lines, y_label="accuracy on task", x_range=(1, steps), ends=True)
    return replace(panel, marks=group.first.timeline.sleeps)


def heatmaps(stream: Stream) -> list[Data]:
    """The matrices of each run that has a row, or of the lowest seeds if they are too many."""
    runs = [run for run in stream.runs if len(run.accuracy)]
    if sum(run.accuracy.size for run in runs) > MAX_CELLS_IN_ALL:
        runs = [run for run in runs if run in [group.first for group in stream.groups]]
    maps = []
    for run in runs:
        cells = [("Whole memory", _cells(run, run.accuracy))]
        if run.accuracy_ltm is not None and has_ltm_curves(Group([run])):
            ltm = mask_waiting_tasks(run, run.accuracy_ltm)
            cells.append(("Long-term memory alone", _cells(run, ltm)))
        maps.append({"name": run.name, "run": run, "tables": cells})
    return maps


def _cells(run: Run, matrix: Matrix) -> list[list[tuple[str, str]]]:
    """The cells of a matrix; one of a task that is not learned yet is blank, and no number uses it."""
    cells, learned = [], set[int]()
    for row, now in zip(matrix.tolist(), run.columns, strict=False):
        learned |= set(range(len(row))) if run.together else {now}
        line = [heat_cell(y) if j in learned else ("", "") for j, y in enumerate(row)]
        line[now] = (f"{line[now][0]} now", line[now][1])
        cells.append(line)
    return cells


def heat_cell(value: float) -> tuple[str, str]:
    """The CSS class and the text of a cell of a matrix.

    >>> heat_cell(0.84), heat_cell(1.0), heat_cell(float("nan"))
    (('h17', '.84'), ('h20', '1.00'), ('hn', '–'))
    """
    if not math.isfinite(value):
        return "hn", MISSING
    return f"h{round(value * HEAT_STEPS)}", format_ratio(value, 2)


def cost_section(stream: Stream) -> Data:
    """Time, bytes and samples of each group, means over seeds."""
    seconds = {}
    for group in stream.groups:
        spent = [run.timeline.seconds for run in group.ended or group.runs]
        seconds[group] = list(mean_curve([[one[phase] for phase in PHASES] for one in spent]))
    longest = max(map(sum, seconds.values()), default=0.0) or 1.0
    lines = []
    for group, parts in seconds.items():
        widths = [part / longest for part in parts]
        bar = zip(PHASES, [0.0, *accumulate(widths)], widths, strict=False)
        line = {"group": group, "bar": list(bar), "phases": parts, "total": sum(parts)}
        lines.append(line | {"rows": group.first.timeline.rows})
    time = compare(stream.sequential, [time_panel(stream)], stream.title, wide=True)
    replays = compare(stream.sequential, [replay_panel(stream)], stream.title)
    return {"lines": lines, "time": time, "replay": replays}


def time_panel(stream: Stream) -> Panel:
    """Time of learning and sleeping until each task, the mean over seeds."""
    found = [(g, mean_curve([run.timeline.trained for run in g.runs])) for g in stream.sequential]
    lines = [group_line(group, range(1, len(y) + 1), y) for group, y in found if len(y)]
    longest = max((y for line in lines for y in line.y if math.isfinite(y)), default=0.0)
    size, name = next((size or 1, name) for size, name in UNITS if longest >= 3 * size)
    lines = [replace(line, y=[y / size for y in line.y]) for line in lines] if longest > 0 else []
    return Panel("Cumulative training time", lines, y_label=name, y_range=(0, longest / size))


def replay_panel(stream: Stream) -> Panel:
    """Samples that each consolidation trains on, against N_max."""
    sizes = {}
    for group in stream.sequential:
        seeds = [run.timeline.replays for run in group.runs]
        sizes[group] = [{one.step: one.new + one.generated for one in replays} for replays in seeds]
    lines, n_max = step_lines(sizes), [run.options.get("n_max") for run in stream.runs]
    limits = {float(n) for n in n_max if isinstance(n, int | float) and 0 < n < 1e18}
    level = (limits.pop(), "N_max") if len(limits) == 1 else None
    highest = max([level[0] if level else 1.0, *(y for line in lines for y in line.y)])
    panel = Panel("Samples each consolidation trains on", lines, y_label="samples", level=level)
    return replace(panel, x_range=(1, max(stream.n_tasks, 2)), y_range=(0, 1.05 * highest))
