"""Runs sorted for comparison: a dataset, in it settings, in them algorithms, of each its seeds."""

import json
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dgdmn.errors import UsageError
from dgdmn.metrics import standard_error
from dgdmn.presets import as_dict, idle, preset
from dgdmn.report.colours import display_name, rank
from dgdmn.report.runs import Run
from dgdmn.report.words import listed, plain

TOGETHER = "all tasks together"
"""The setting of a run with all tasks at once."""


@dataclass(frozen=True)
class Entry:
    """The seeds of one algorithm under one setting: a line in every chart."""

    runs: tuple[Run, ...]
    """By seed; at least one."""
    shared: frozenset[str] = frozenset()
    """Parts of the setting that all entries of the dataset have: no name needs to say them."""
    rivals: bool = False
    """Whether its algorithm was run with another preset too: then every name says which."""
    variant: int = 0
    """Which of its algorithm's variants it is, counted from 1, so that each has a dash of its own; 0: none."""

    @property
    def first(self) -> Run:
        """The lowest seed: what is shown where only one run has room."""
        return self.runs[0]

    @property
    def algorithm(self) -> str:
        """Name of the algorithm."""
        return self.first.algorithm

    @property
    def setting(self) -> str:
        """What is not the paper's own way; empty where nothing is."""
        return ", ".join(setting(self.first))

    @property
    def difference(self) -> str:
        """The part of the setting that not all entries of the dataset have."""
        return ", ".join(part for part in setting(self.first) if part not in self.shared)

    @property
    def name(self) -> str:
        """The algorithm's name, and behind it how it differs from its neighbours."""
        preset = ["preset paper"] if self.rivals and self.first.preset == "paper" else []
        told = ", ".join([*preset, *([self.difference] if self.difference else [])])
        return f"{display_name(self.algorithm)} ({told})" if told else display_name(self.algorithm)

    @property
    def ended(self) -> tuple[Run, ...]:
        """The runs that have a result."""
        return tuple(run for run in self.runs if run.complete)

    def mean(self, value: Callable[[Run], float]) -> tuple[float, float]:
        """Mean and standard error of a number over the runs that have ended."""
        return mean_and_error([value(run) for run in self.ended])


@dataclass(frozen=True)
class Dataset:
    """All that was run on one stream."""

    name: str
    entries: tuple[Entry, ...]
    """The plain ones first, then by setting; in each the paper's order."""

    @property
    def runs(self) -> tuple[Run, ...]:
        """All runs."""
        return tuple(run for entry in self.entries for run in entry.runs)

    @property
    def settings(self) -> dict[str, tuple[Entry, ...]]:
        """Entries by setting: what can be compared like for like."""
        names = dict.fromkeys(entry.setting for entry in self.entries)
        return {name: tuple(entry for entry in self.entries if entry.setting == name) for name in names}

    @property
    def sequential(self) -> tuple[Entry, ...]:
        """Those that learnt task after task, and have a first row to show."""
        return tuple(
            entry
            for entry in self.entries
            if not entry.first.together and any(len(run.accuracy) for run in entry.runs)
        )


def datasets(runs: Sequence[Run]) -> tuple[Dataset, ...]:
    """Runs sorted into datasets, settings, algorithms and seeds."""
    names = dict.fromkeys(run.dataset for run in runs)
    return tuple(Dataset(name, _entries([run for run in runs if run.dataset == name])) for name in names)


def _entries(runs: Sequence[Run]) -> tuple[Entry, ...]:
    groups: dict[str, list[Run]] = {}
    for run in runs:
        # tasks too: two streams of one name with other tasks share no axes
        key = json.dumps([setting(run), run.algorithm, run.tasks])
        groups.setdefault(key, []).append(run)
    shared = frozenset.intersection(*(frozenset(setting(run)) for run in runs))
    presets = {run.algorithm: {one.preset for one in runs if one.algorithm == run.algorithm} for run in runs}
    entries = [
        Entry(tuple(sorted(group, key=lambda run: run.seed)), shared, len(presets[group[0].algorithm]) > 1)
        for group in groups.values()
    ]
    return _counted(
        sorted(entries, key=lambda entry: (bool(entry.setting), entry.setting, rank(entry.algorithm)))
    )


def _counted(entries: Sequence[Entry]) -> tuple[Entry, ...]:
    variants: Counter[str] = Counter()
    counted = []
    for entry in entries:
        variants[entry.algorithm] += bool(entry.difference)
        counted.append(replace(entry, variant=variants[entry.algorithm]) if entry.difference else entry)
    return tuple(counted)


def setting(run: Run) -> tuple[str, ...]:
    """How a run differs from the plain experiment on its stream, in words; empty where it does not."""
    parts = [f"preset {run.preset}"] if run.preset != "paper" else []
    parts += [f"{key} {plain(value)}" for key, value in sorted(_changes(run).items())]
    parts += [f"tasks {listed(run.revise)} revised"] if run.revise else []
    parts += [TOGETHER] if run.together else []
    parts += [f"on {run.evaluate_on} rows"] if run.evaluate_on != "test" else []
    return tuple(parts)


def _changes(run: Run) -> dict[str, Any]:
    """Options that are not the preset's: those changed then, and those in which the preset itself changed since.

    So runs of one name that learnt otherwise are not taken for seeds of each other.
    """
    try:
        meant = as_dict(preset(run.preset, run.dataset))
    except UsageError:  # a stream or a preset of one's own
        return run.changes
    then = options(run)
    since = {key for key, value in meant.items() if then.get(key, value) != value}
    return run.changes | {key: then[key] for key in since if not idle(run.algorithm, key)}


def options(run: Run) -> dict[str, Any]:
    """A run's options. What an older record does not say was off, as in `paper`; one that says nothing tells none."""
    try:
        off = as_dict(preset("paper", run.dataset)) if run.options else {}
    except UsageError:
        off = {}
    return off | run.options


def mean_and_error(values: Sequence[float]) -> tuple[float, float]:
    """Mean and standard error of the values that are numbers; NaN where there are too few."""
    known = [value for value in values if math.isfinite(value)]
    return (float(np.mean(known)), standard_error(known)) if known else (math.nan, math.nan)


def mean_curve(curves: Sequence[Sequence[float] | NDArray[np.float64]]) -> tuple[float, ...]:
    """The mean of curves over seeds at each place, as far as the longest goes; NaN where none is known."""
    length = max((len(curve) for curve in curves), default=0)
    return tuple(
        mean_and_error([float(curve[i]) for curve in curves if i < len(curve)])[0] for i in range(length)
    )
