"""What one option is worth: runs with a single option changed, beside the same runs without the change."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dgdmn.report.colours import rank
from dgdmn.report.entries import mean_and_error, options
from dgdmn.report.runs import Run
from dgdmn.report.words import plain


@dataclass(frozen=True)
class Ablation:
    """An option of a preset changed, in one or more seeds."""

    pairs: tuple[tuple[Run, Run], ...]
    """With the change and without it, of the same seed; by seed, at least one."""

    @property
    def first(self) -> Run:
        """The changed run of the lowest seed."""
        return self.pairs[0][0]

    @property
    def option(self) -> str:
        """What was changed."""
        return next(iter(self.first.changes))

    @property
    def change(self) -> str:
        """What it is without the change, and with it, as text."""
        before, after = self.pairs[0][1].options.get(self.option), self.first.changes[self.option]
        return f"{plain(before)} → {plain(after)}" if before is not None else plain(after)

    @property
    def acc(self) -> list[float]:
        """ACC of each seed, changed."""
        return [changed.acc for changed, _ in self.pairs]

    @property
    def bwt(self) -> list[float]:
        """BWT of each seed, changed."""
        return [changed.bwt for changed, _ in self.pairs]

    @property
    def seconds(self) -> tuple[float, float]:
        """Mean training time without the change, and with it, of seeds with both on one machine; NaN without any."""
        alike = [(changed, whole) for changed, whole in self.pairs if changed.machine == whole.machine]
        return _means(alike, lambda run: run.trained_seconds)

    @property
    def bytes(self) -> tuple[float, float]:
        """Mean bytes of the memory without the change, and with it."""
        return _means(self.pairs, lambda run: run.memory_bytes)

    @property
    def differences(self) -> list[float]:
        """ACC of each seed minus that without the change."""
        return [changed.acc - whole.acc for changed, whole in self.pairs]


def _means(pairs: Sequence[tuple[Run, Run]], value: Callable[[Run], float]) -> tuple[float, float]:
    """Without the change, and with it."""
    changed, whole = (mean_and_error([value(pair[which]) for pair in pairs])[0] for which in (0, 1))
    return whole, changed


def ablations(runs: Sequence[Run]) -> tuple[Ablation, ...]:
    """Every option that was changed alone, what costs most first; all of one dataset, or sorted by it."""
    ended = [run for run in runs if run.complete]
    wholes = {_like(run): run for run in ended if not run.changes}
    groups: dict[tuple[object, ...], list[tuple[Run, Run]]] = {}
    for run in sorted(ended, key=lambda run: run.seed):
        whole = wholes.get(_like(run))
        if whole is not None and _changes_alone(run, whole):
            groups.setdefault((*_like(run)[:-1], repr(run.changes)), []).append((run, whole))
    return tuple(sorted((Ablation(tuple(pairs)) for pairs in groups.values()), key=_order))


def _like(run: Run) -> tuple[object, ...]:
    """What a run shares with the same one without the change, its seed last."""
    return (
        run.dataset,
        run.algorithm,
        run.preset,
        run.evaluate_on,
        run.revise,
        run.together,
        run.tasks,
        run.seed,
    )


def _changes_alone(run: Run, whole: Run) -> bool:
    """Whether one option was changed; another version's presets may differ in others, and know fewer."""
    if len(run.changes) != 1:
        return False
    with_it, without = options(run), options(whole)
    names = with_it.keys() | without.keys()
    return {name for name in names if with_it.get(name) != without.get(name)} <= run.changes.keys()


def _order(one: Ablation) -> tuple[str, str, tuple[int, str], float, str, str]:
    run, difference = one.first, mean_and_error(one.differences)[0]
    worst = difference if math.isfinite(difference) else math.inf
    return run.dataset, run.preset, rank(run.algorithm), worst, one.option, one.change
