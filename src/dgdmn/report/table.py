"""Runs grouped by stream, setting and algorithm: means and standard errors over seeds, and curves."""

import math
from collections.abc import Callable, Iterable, Sequence, Set
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dgdmn import metrics
from dgdmn.config import DEFAULT_PRESET, resolve, to_dict
from dgdmn.config.registry import ALGORITHMS
from dgdmn.core.errors import UsageError
from dgdmn.core.text import MISSING, format_bytes, format_mean_sem, format_option, join_names
from dgdmn.report.load import Run
from dgdmn.report.style import STYLES, css_class, stream_title, style_of

DEFAULT = next(name for name, info in ALGORITHMS.items() if info.short_term)  # of the command line
TaskCurve = tuple[str, range, tuple[float, ...]]  # a task, the tasks seen from 1, and its accuracy
MAX_LINES = 50  # tasks drawn as lines of their own; of more, this many are chosen evenly


class Group:
    """The seeds of one algorithm under one setting: a line in every chart and table."""

    def __init__(self, runs: Sequence[Run], shared: Set[str] = frozenset(), variant: int = 0):
        """`shared` parts of the setting are not in the name; `variant` decides the style."""
        self.runs, self.variant = tuple(sorted(runs, key=lambda run: run.seed)), variant
        self.first = self.runs[0]  # the lowest seed
        self.ended = tuple(run for run in self.runs if run.complete)
        self.algorithm, self.title = self.first.algorithm, self.first.info.title
        parts = describe_setting(self.first)
        self.setting = ", ".join(parts)
        different = ", ".join(part for part in parts if part not in shared)
        self.name = f"{self.title} ({different})" if different else self.title
        self.style, self.css = style_of(self.algorithm, variant), css_class(self.algorithm)

    @property
    def is_default(self) -> bool:
        """Whether it is what a user gets without any option: the page gives it a color of its own."""
        return (self.algorithm, self.setting) == (DEFAULT, f"preset {DEFAULT_PRESET}")

    @property
    def is_ceiling(self) -> bool:
        """Whether it learns from the rows of all tasks at once."""
        return self.first.info.category == "ceiling" or self.first.together

    @property
    def stores_rows(self) -> bool:
        """Whether it keeps training rows, or is a ceiling."""
        kept = any(value > 0 for value in self.values("exemplar_bytes"))
        return self.is_ceiling or self.first.info.exemplars or kept

    def values(self, number: str) -> list[float]:
        """The finite values of a number over the runs that ended."""
        return finite(run.number(number) for run in self.ended)

    def mean(self, number: str) -> float:
        return mean(self.values(number))

    def sem(self, number: str) -> float:
        """The standard error of the mean; 0 for fewer than two seeds."""
        values = self.values(number)
        return metrics.standard_error(values) if len(values) > 1 else 0.0

    def text(self, number: str) -> str:
        """Mean and standard error as text."""
        return format_mean_sem(self.values(number))


def group_methods(methods: Iterable[Sequence[Run]]) -> list[Group]:
    """A group for each method, given as its runs; what all methods share is not in the names."""
    known = [runs for runs in methods if runs]
    settings = [frozenset(describe_setting(run)) for runs in known for run in runs]
    return [Group(runs, frozenset.intersection(*settings)) for runs in known]


class Column(NamedTuple):
    """A number in a comparison of methods."""

    number: str  # as `Run.number` knows it
    heading: str
    best: Literal["highest", "lowest"]
    format: Callable[[Sequence[float]], str]

    def best_groups(self, groups: Sequence[Group]) -> list[Group]:
        """The groups with the best mean, as displayed, among those that store no rows."""
        sign = 1 if self.best == "highest" else -1
        known = {g: sign * g.mean(self.number) for g in groups if not g.stores_rows}
        known = {group: value for group, value in known.items() if math.isfinite(value)}
        if not known:
            return []
        best = max(known, key=lambda group: known[group])
        shown = self.format([best.mean(self.number)])
        return [group for group in known if self.format([group.mean(self.number)]) == shown]


def format_seconds(values: Sequence[float]) -> str:
    """The mean of seconds, with more decimals the fewer they are.

    >>> [format_seconds([seconds]) for seconds in (0.0123, 4.567, 45.67, 4567.8)]
    ['0.012', '4.57', '45.7', '4,568']
    """
    seconds = mean(values)
    if not math.isfinite(seconds):
        return MISSING
    decimals = sum(seconds < bound for bound in (1, 10, 100))
    return f"{seconds:,.{decimals}f}"


COLUMNS = (
    Column("acc", "accuracy", "highest", format_mean_sem),
    Column("macro_accuracy", "macro", "highest", format_mean_sem),
    Column("bwt", "BWT", "highest", format_mean_sem),
    Column("train_cpu_seconds", "train CPU s", "lowest", format_seconds),
    Column("evaluate_cpu_seconds", "eval CPU s", "lowest", format_seconds),
    Column("memory_bytes", "bytes", "lowest", lambda values: format_bytes(mean(values))),
)


class Stream:
    """All runs of one stream, grouped by setting, algorithm and tasks."""

    def __init__(self, name: str, runs: Sequence[Run]) -> None:
        reading = f" ({runs[0].data_options})" if runs[0].data_options else ""
        self.name, self.title = name + reading, stream_title(name) + reading
        settings = {run: describe_setting(run) for run in runs}
        self.shared = frozenset.intersection(*map(frozenset, settings.values()))
        found: dict[object, list[Run]] = {}
        for run in sorted(runs, key=lambda run: (len(settings[run]), settings[run], _rank(run))):
            # Tasks too: two streams of one name with different tasks share no axes. Seeds may order them.
            key = settings[run], run.algorithm, tuple(sorted(run.tasks))
            found.setdefault(key, []).append(run)
        self.groups: list[Group] = []
        for group in found.values():
            variant = sum(one.algorithm == group[0].algorithm for one in self.groups)
            self.groups.append(Group(group, self.shared, variant))
        self.runs = [run for group in self.groups for run in group.runs]
        self.n_tasks = max(len(run.tasks) for run in runs)
        # Groups that learned one task after another and have at least one row; then those without repetitions.
        rows = [group for group in self.groups if any(len(run.accuracy) for run in group.runs)]
        self.sequential = [group for group in rows if not group.first.together]
        self.forward = [group for group in self.sequential if not group.first.revise]


def _rank(run: Run) -> tuple[int, str]:
    return [*STYLES, run.algorithm].index(run.algorithm), run.algorithm


def group_runs(runs: Sequence[Run]) -> list[Stream]:
    """The streams of these runs with their groups."""
    found: dict[tuple[str, str], list[Run]] = {}
    for run in runs:  # a file that is read in two ways is two streams
        found.setdefault((run.stream, run.data_options), []).append(run)
    return [Stream(name, members) for (name, _), members in found.items()]


def describe_setting(run: Run) -> tuple[str, ...]:
    """How a run was made, in words: preset, changed options, repeated tasks, evaluation."""
    changes = sorted(changed_options(run).items())
    parts = [f"preset {run.preset}", *(f"{k} {format_option(value)}" for k, value in changes)]
    parts += [f"tasks {join_names(run.revise)} revised"] if run.revise else []
    parts += ["all tasks together"] if run.together else []
    parts += [f"on {run.evaluate_on} rows"] if run.evaluate_on != "test" else []
    return tuple(parts)


def changed_options(run: Run) -> dict[str, Any]:
    """Options that differ from the preset: changed by the user, or because the preset changed since.

    So runs under one preset name with different options are not taken for seeds of each other.
    """
    try:
        preset = to_dict(resolve(run.preset, None if run.data else run.stream))
    except UsageError:  # a stream or a preset of another package
        return run.changes
    since = {k: run.options[k] for k in preset if run.options.get(k, preset[k]) != preset[k]}
    changes = (run.changes | since).items()
    return {k: value for k, value in changes if not run.info.unused(k, run.options)}


def finite(values: Iterable[float]) -> list[float]:
    return [value for value in values if math.isfinite(value)]


def mean(values: Iterable[float]) -> float:
    """The mean of the finite values; NaN without any."""
    known = finite(values)
    return float(np.mean(known)) if known else math.nan


def mean_curve(curves: Sequence[Sequence[float] | NDArray[np.float64]]) -> tuple[float, ...]:
    """The mean of several curves at each place, as long as the longest of them."""
    length = max((len(curve) for curve in curves), default=0)
    return tuple(mean([float(c[i]) for c in curves if i < len(c)]) for i in range(length))


def task_curves(group: Group, *, ltm: bool = False) -> list[TaskCurve]:
    """Accuracy on each task since it was first learned, the mean over seeds; `ltm`: of the long-term memory."""
    # A seed may have another order of tasks: its columns are other tasks.
    known = [(run, a) for run, a in _matrices(group, ltm) if run.tasks == group.first.tasks]
    known = [(run, mask_waiting_tasks(run, a)) for run, a in known] if ltm else known
    if not known:
        return []
    longest = max((run for run, _ in known), key=lambda run: len(run.accuracy))
    learned, curves = list(dict.fromkeys(longest.columns)), []
    chosen = np.linspace(0, len(learned) - 1, min(len(learned), MAX_LINES)).round().astype(int)
    for column in (learned[i] for i in chosen):
        first = longest.columns.index(column)
        values = mean_curve([matrix[first:, column] for _, matrix in known if len(matrix) > first])
        curves.append((longest.tasks[column], range(first + 1, first + 1 + len(values)), values))
    return curves


def mask_waiting_tasks(run: Run, matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """The matrix of the long-term memory, NaN where a task waits for the sleep that consolidates it."""
    matrix, sleeps = matrix.copy(), sorted(run.timeline.sleeps)
    for column in set(run.columns) if sleeps else ():
        first = run.columns.index(column)
        slept = next((step for step in sleeps if step > first), len(matrix) + 1)
        matrix[first : slept - 1, column] = np.nan
    return matrix


def has_ltm_curves(group: Group) -> bool:
    """Whether the long-term memory alone ever predicts differently from the whole memory."""
    pairs = [(run.accuracy, run.accuracy_ltm) for run in group.runs if run.accuracy_ltm is not None]
    return not all(np.array_equal(whole, ltm, equal_nan=True) for whole, ltm in pairs)


def average_curves(group: Group, *, last: int = 0, ltm: bool = False) -> list[NDArray[np.float64]]:
    """For each seed, mean accuracy on the tasks seen after each task, or on the `last` tasks seen."""
    known = _matrices(group, ltm)
    return [metrics.last_k(rows, last or len(run.tasks), run.columns) for run, rows in known]


def _matrices(group: Group, ltm: bool) -> list[tuple[Run, NDArray[np.float64]]]:
    found = [(run, run.accuracy_ltm if ltm else run.accuracy) for run in group.runs]
    return [(run, matrix) for run, matrix in found if matrix is not None and len(matrix)]
