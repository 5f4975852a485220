"""Results looked up by what they are, and their numbers as the page writes them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dgdmn.report.entries import mean_and_error, setting
from dgdmn.report.reproducibility.collected import Result


@dataclass(frozen=True)
class Shelf:
    """All results, by dataset, algorithm and setting."""

    results: tuple[Result, ...]

    def find(self, dataset: str, algorithm: str, how: str = "") -> tuple[Result, ...]:
        """The seeds of a run, in order; `how` is its setting in words, empty for the plain experiment."""
        found = [
            one
            for one in self.results
            if (one.run.dataset, one.run.algorithm, manner(one)) == (dataset, algorithm, how)
        ]
        return tuple(sorted(found, key=lambda one: one.run.seed))


BEST = "preset best"
"""The setting of a run that goes beyond the paper."""


def manner(one: Result) -> str:
    """How a run differs from the plain experiment, in words; empty where it does not."""
    return ", ".join(setting(one.run))


def paired(one: Sequence[Result], other: Sequence[Result]) -> tuple[tuple[Result, ...], tuple[Result, ...]]:
    """Of two runs the seeds that both have, so that they can be compared seed by seed."""
    both = {result.run.seed for result in one} & {result.run.seed for result in other}
    first, second = (tuple(result for result in runs if result.run.seed in both) for runs in (one, other))
    return first, second


def acc(one: Result) -> float:
    """ACC of a run."""
    return one.run.acc


def bwt(one: Result) -> float:
    """BWT of a run; NaN where it has none."""
    return one.run.bwt


def values(results: Sequence[Result], value: Callable[[Result], float]) -> list[float]:
    """A number of each run that has it."""
    return [number for one in results if math.isfinite(number := value(one))]


@dataclass(frozen=True)
class Times:
    """How long runs that are compared have trained."""

    groups: tuple[list[float], ...]
    """Seconds of each run of each group."""
    clock: str
    """What was read: `processor` or `wall clock`."""
    comparable: bool = True
    """Whether they are of the same seeds on the same machine; else each group stands for itself."""


def training_times(*groups: Sequence[Result]) -> Times:
    """Times of learning and sleeping of groups to be compared, of the seeds that all have on one machine.

    Those of the processor, since waiting for a shared core says nothing; where not all have them, the wall clock's.
    Where no seed is comparable, the wall clock's of all.
    """
    for clock, field in (("processor", "train_cpu_seconds"), ("wall clock", "train_seconds")):
        timed = [
            {
                (one.run.seed, one.run.machine): number
                for one in group
                if math.isfinite(number := one.run.number(field))
            }
            for group in groups
        ]
        there = [set(times) for times, group in zip(timed, groups, strict=True) if group]
        if common := sorted(set.intersection(*there)) if there else []:
            taken = tuple([times[key] for key in common if key in times] for times in timed)
            return Times(taken, clock, comparable=all(taken))
    walls = tuple(values(group, lambda one: one.run.number("train_seconds")) for group in groups)
    return Times(walls, "wall clock", comparable=False)


def on_one_machine(results: Sequence[Result]) -> tuple[Result, ...]:
    """Those of the machine that most of them ran on, so that a mean of their times says something."""
    machines = [one.run.machine for one in results]
    return tuple(one for one in results if one.run.machine == max(machines, key=machines.count))


def explained(*parts: str) -> str:
    """A table and what is said of it, if anything is."""
    return "\n\n".join(part for part in parts if part)


def mean(numbers: Sequence[float]) -> float:
    """Their mean; NaN where there are none."""
    return mean_and_error(numbers)[0]


def said(numbers: Sequence[float]) -> str:
    """Mean ± standard error and the number of seeds.

    >>> said([0.8, 0.82]), said([0.8]), said([])
    ('.810 ± .010 (2)', '.800 (1)', '–')
    """
    average, error = mean_and_error(numbers)
    if not numbers:
        return "–"
    spread = f" ± {short(error)}" if math.isfinite(error) else ""
    return f"{short(average)}{spread} ({len(numbers)})"


def each(numbers: Sequence[float]) -> str:
    """The number of each seed.

    >>> each([0.8, 0.82])
    '.800, .820'
    """
    return ", ".join(map(short, numbers))


def short(value: float | None, digits: int = 3) -> str:
    """An accuracy as the paper's readers write it.

    >>> short(0.8184), short(-0.15), short(-1.0), short(1.0), short(None), short(-0.0001)
    ('.818', '−.150', '−1.000', '1.000', '–', '.000')
    """
    if value is None or not math.isfinite(value):
        return "–"
    text = f"{round(value, digits) + 0.0:.{digits}f}"
    return (
        text.replace("-", "−").replace("0.", ".", 1)
        if abs(round(value, digits)) < 1
        else text.replace("-", "−")
    )


def signed(value: float | None) -> str:
    """A difference, with its sign.

    >>> signed(0.1), signed(-0.1), signed(0.0001), signed(None)
    ('+.100', '−.100', '.000', '–')
    """
    told = short(value)
    return f"+{told}" if value is not None and value > 0 and told.strip(".0–") else told


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)
