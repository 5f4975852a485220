"""Section 1: each result between its floor and its ceiling."""

from dataclasses import dataclass

from markupsafe import Markup

from dgdmn.report.colours import css_class, display_name
from dgdmn.report.entries import Dataset
from dgdmn.report.results import Bounds, Result, results
from dgdmn.report.words import ratio, with_error
from dgdmn.wording import counted, duration, size


@dataclass(frozen=True)
class Line:
    """A line of the table, as text."""

    name: str
    css: str
    acc: str
    bwt: str
    paper_acc: str
    paper_bwt: str
    seeds: str
    scale: Markup
    verdict: str
    seconds: str
    memory: str


@dataclass(frozen=True)
class Table:
    """The results of one setting."""

    title: str
    """How the runs differ from the plain experiment; empty where they do not."""
    bounds: Bounds
    lines: tuple[Line, ...]
    has_paper: bool
    """Whether the paper has a number for any of them."""
    validation: bool
    """Whether they were tested on validation rows, which no table compares with."""


def tables(dataset: Dataset) -> tuple[Table, ...]:
    """A table for each setting, the plain one first."""
    return tuple(_table(title, results(dataset, title)) for title in dataset.settings)


def _table(title: str, rows: tuple[Result, ...]) -> Table:
    return Table(
        title,
        rows[0].bounds,
        tuple(map(_line, rows)),
        any(row.published for row in rows),
        rows[0].entry.first.evaluate_on != "test",
    )


def _line(result: Result) -> Line:
    entry, published = result.entry, result.published
    ended, all_runs = len(entry.ended), len(entry.runs)
    return Line(
        name=display_name(entry.algorithm) + (f" ({entry.first.preset})" if entry.rivals else ""),
        css=css_class(entry.algorithm),
        acc=with_error(*result.acc),
        bwt=with_error(*result.bwt),
        paper_acc=ratio(published.acc) if published else "–",
        paper_bwt=ratio(published.bwt) if published else "–",
        seeds=counted(ended, "seed") if ended == all_runs else f"{ended} of {counted(all_runs, 'seed')}",
        scale=scale(result),
        verdict=result.verdict,
        seconds=duration(entry.mean(lambda run: run.number("train_seconds"))[0]),
        memory=size(entry.mean(lambda run: run.memory_bytes)[0]),
    )


def scale(result: Result) -> Markup:
    """A line from 0 to 1 with floor and ceiling marked, a bar of ± one standard error and a dot for ACC."""
    acc, error = result.acc
    if acc != acc:
        return Markup("")
    error = error if error == error else 0.0
    bounds, published = result.bounds, result.published
    paper = Markup('<path class="paper" d="M{:.1f} 2v12"/>').format(_x(published.acc)) if published else ""
    return Markup(
        '<svg class="scale {css}" viewBox="0 0 160 16" role="img" aria-label="{label}">'
        '<path class="grid" d="M5 8H155"/><path class="span" d="M{floor:.1f} 8H{ceiling:.1f}"/>'
        '<path class="bound" d="M{floor:.1f} 4v8M{ceiling:.1f} 4v8"/>{paper}'
        '<path class="error" d="M{low:.1f} 8H{high:.1f}"/><circle cx="{dot:.1f}" cy="8" r="4"/></svg>'
    ).format(
        css=css_class(result.entry.algorithm),
        label=f"ACC {ratio(acc)} between floor {ratio(bounds.floor.value)} and ceiling {ratio(bounds.ceiling.value)}",
        floor=_x(bounds.floor.value),
        ceiling=_x(bounds.ceiling.value),
        paper=paper,
        low=_x(max(0.0, acc - error)),
        high=_x(min(1.0, acc + error)),
        dot=_x(acc),
    )


def _x(value: float) -> float:
    return 5 + 150 * min(1.0, max(0.0, value))
