"""Section 6: where the seconds went, what is kept, how much was trained."""

import math
from dataclasses import dataclass

from markupsafe import Markup

from dgdmn.report.charts import Axes, Series, line_chart
from dgdmn.report.colours import css_class
from dgdmn.report.entries import Dataset, Entry, mean_and_error, mean_curve
from dgdmn.report.sections.curves import Compared, Panel, legend, line_class, marker, time_panel
from dgdmn.report.timeline import PHASES
from dgdmn.wording import duration, size


@dataclass(frozen=True)
class Cost:
    """A line of the table, as text."""

    name: str
    css: str
    bar: Markup
    phases: tuple[str, ...]
    """The seconds of each of PHASES."""
    whole: str
    samples: str
    memory: str
    exemplars: str
    peak: str


@dataclass(frozen=True)
class Costs:
    """All that the section shows."""

    lines: tuple[Cost, ...]
    time: Panel | None
    budget: Compared


def costs(dataset: Dataset) -> Costs:
    """Time, bytes and samples of each algorithm, means over seeds."""
    longest = max((sum(_seconds(entry)) for entry in dataset.entries), default=0.0)
    lines = tuple(_cost(entry, longest) for entry in dataset.entries)
    return Costs(lines, time_panel(dataset), _budget(dataset))


def _seconds(entry: Entry) -> list[float]:
    runs = entry.ended or entry.runs
    return [mean_and_error([run.timeline.seconds[phase] for run in runs])[0] for phase in PHASES]


def _cost(entry: Entry, longest: float) -> Cost:
    seconds = _seconds(entry)
    kept = entry.mean(lambda run: run.number("exemplar_bytes"))[0]
    samples = entry.mean(lambda run: run.number("samples_trained"))[0]
    return Cost(
        name=entry.name,
        css=css_class(entry.algorithm),
        bar=_bar(seconds, longest),
        phases=tuple(duration(value) if value else "–" for value in seconds),
        whole=duration(sum(seconds)),
        samples=f"{samples / 1e6:,.2f} M" if math.isfinite(samples) else "–",
        memory=size(entry.mean(lambda run: run.memory_bytes)[0]),
        exemplars=size(kept) if kept else "none",
        peak=size(1_048_576 * entry.mean(lambda run: run.number("peak_rss_mb"))[0]),
    )


def _bar(seconds: list[float], longest: float) -> Markup:
    x, parts = 0.0, []
    for phase, value in zip(PHASES, seconds, strict=True):
        width = 200 * value / longest if longest > 0 else 0.0
        parts.append(
            Markup('<rect class="p-{}" x="{:.1f}" y="1" width="{:.1f}" height="12"/>').format(phase, x, width)
        )
        x += width
    return Markup('<svg class="bar" viewBox="0 0 200 14" aria-hidden="true">{}</svg>').format(
        Markup("").join(parts)
    )


def _budget(dataset: Dataset) -> Compared:
    found = [(entry, line) for entry in dataset.sequential if len((line := _trained(entry)).x)]
    lines = [line for _, line in found]
    if not lines:
        return Compared()
    limits = {str(value): value for run in dataset.runs if (value := run.options.get("n_max"))}
    limit = next(iter(limits.values())) if len(limits) == 1 else None
    level = (float(limit), "N_max") if isinstance(limit, int | float) and 0 < limit < 1e18 else None
    highest = max([*(max(line.y) for line in lines), level[0] if level else 0.0]) * 1.05
    tasks = max(len(entry.first.tasks) for entry in dataset.entries)
    axes = Axes(
        f"Samples of each replay, {dataset.name}",
        "tasks seen",
        "samples",
        (1, max(tasks, 2)),
        (0, highest),
        line=level,
    )
    chart = line_chart(lines, axes)
    return Compared(legend(entry for entry, _ in found), (("Samples each consolidation trains on", chart),))


def _trained(entry: Entry) -> Series:
    curves = [
        {replay.step: replay.new + replay.dreams for replay in run.timeline.replays} for run in entry.runs
    ]
    steps = sorted({step for curve in curves for step in curve})
    values = [mean_curve([[curve[step]] for curve in curves if step in curve])[0] for step in steps]
    return Series(entry.name, line_class(entry), steps, values, entry.name, marker=marker(entry.algorithm))
