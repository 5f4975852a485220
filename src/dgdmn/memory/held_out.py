"""Rows just learned are tested against the memory without them, to compare settings and calibrate answers.

No row is kept. The rows of each class are cut into parts in their order. Sums can be subtracted, so parts are left
out in turn. Neighboring rows are often alike (one person, one device), so a part says more about rows to come
than single rows would.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dgdmn.memory.code import (
    REFERENCE,
    SETTINGS,
    TEMPERATURES,
    MixtureSpec,
    allowed_settings,
    reference_setting,
)
from dgdmn.memory.components import Component, cut_scatter, sum_rows
from dgdmn.memory.gaussian import COUNT_TOLERANCE, Doubles, gram, softmax
from dgdmn.memory.pool import Pool
from dgdmn.memory.scores import (
    class_scores,
    merge_tasks,
    score_against_background,
    score_classes,
    score_parts,
    size_terms,
)

PARTS = 8
"""Parts into which the rows of a class are cut."""
TESTED_PARTS = range(PARTS - 1, 0, -2)
"""Parts that are left out in turn; testing all parts costs more and adds no information."""
TEST_EVERY = 200
"""Rows learned between two tests: a test needs all components factorized for each λ."""
MAX_TESTED = 400
"""Rows of one test, for settings and for calibration each."""
MAX_LEAD = 8
"""Most rows by which a class counts for a setting in one test. With 9, one class of near copies would decide alone:
9 rows are three standard deviations (`CLEAR_DEVIATIONS`)."""
Labels = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class HeldOutResult:
    """What one test adds to the counts of a pool and of components."""

    votes: NDArray[np.int64]
    """Rows that only this setting, or only REFERENCE, had right, shape (2, settings)."""
    log_losses: Doubles
    """Sum of −log p(right class) for each temperature."""
    relative: Doubles
    """Scores of rows against the background; none with one component, which has no background."""
    labels: Labels
    """Class of each row of `relative`."""


def hold_out(
    x: Doubles,
    y: Labels,
    weight: Doubles | None,
    task: str,
    own: Sequence[Component],
    others: Sequence[Component],
    pool: Pool,
    spec: MixtureSpec,
    *,
    chosen: tuple[float, float],
    n_classes: int,
) -> HeldOutResult:
    """Test rows that were just learned: the `own` components and the pool contain them, the `others` do not.

    Tested rows belong to the newest components, whose scatters are complete while older ones may be truncated. A
    setting that favors the newest would win, so all scatters are cut to the same size.
    """
    size = min(len(component.scatter) for component in (*own, *others))
    own, others = ([cut_scatter(one, size) for one in part] for part in (own, others))
    votes, log_losses = np.zeros((2, len(SETTINGS)), np.int64), np.zeros(len(TEMPERATURES))
    relative, labels = [np.zeros(0)], [np.zeros(0, np.int64)]
    parts = cut_in_parts(y)
    for part in TESTED_PARTS:
        test_rows = np.flatnonzero(parts == part)
        weights = None if weight is None else weight[test_rows]
        remaining, remaining_pool = leave_out(
            x[test_rows], y[test_rows], weights, task, own, pool, spec
        )
        remaining += others
        test_rows = test_rows[np.isin(y[test_rows], [component.label for component in remaining])]
        if not len(test_rows):  # no row, or the only ones of their classes
            continue
        if part == TESTED_PARTS[0]:
            rows = _thin(test_rows, MAX_TESTED)
            votes = compare_settings(
                x[rows], y[rows], remaining, remaining_pool, pool, spec, n_classes
            )
        rows = _thin(test_rows, MAX_TESTED // len(TESTED_PARTS))
        scores, _ = _score(x[rows], remaining, remaining_pool, pool, spec, chosen)
        by_class = class_scores(scores, np.array([one.label for one in remaining]), n_classes)
        if (whole := merge_tasks(remaining, remaining_pool, spec)) is not None:  # as predictions do
            by_class = (by_class + score_classes(x[rows], [whole], spec, n_classes)) / 2
        by_class += size_terms(remaining, pool, chosen[0], n_classes)
        log_losses += [_log_loss(by_class / divisor, y[rows]) for divisor in TEMPERATURES]
        if len(remaining) > 1:
            scores, tied = _score(
                x[rows], remaining, remaining_pool, pool, spec, reference_setting(spec.config)
            )
            relative.append(score_against_background(scores, tied, remaining, remaining_pool, spec))
            labels.append(y[rows])
    return HeldOutResult(votes, log_losses, np.concatenate(relative), np.concatenate(labels))


def cut_in_parts(y: Labels) -> Labels:
    """The part of each row: the rows of a class form PARTS runs of about equal length, the last one is never empty.

    >>> cut_in_parts(np.array([0] * 16 + [1, 1]))
    array([0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 3, 7])
    """
    parts = np.empty(len(y), np.int64)
    for label in np.unique(y):
        rows = np.flatnonzero(y == label)
        parts[rows[::-1]] = PARTS - 1 - np.arange(len(rows)) * PARTS // len(rows)
    return parts


def leave_out(
    x: Doubles,
    y: Labels,
    weight: Doubles | None,
    task: str,
    components: Sequence[Component],
    pool: Pool,
    spec: MixtureSpec,
) -> tuple[list[Component], Pool]:
    """The components and the pool without some rows of a task; a component of only these rows is gone."""
    parts, centered = sum_rows(x, y, weight, task, spec.code)
    by_label, remaining, between = {part.label: part for part in parts}, [], []
    for component in components:
        part = by_label.get(component.label) if component.task == task else None
        if part is None:
            remaining.append(component)
        elif (n := component.n - part.n) > COUNT_TOLERANCE * component.n:
            remaining.append(component.remove_rows(part, spec.code))
            difference = part.mean - component.mean
            between.append(np.sqrt(component.n * part.n / n) * difference[None])
    n_rows = sum(part.n for part in parts)
    return remaining, pool.add_scatter(-gram(np.concatenate([centered, *between])), -n_rows)


def compare_settings(
    x: Doubles,
    y: Labels,
    components: Sequence[Component],
    rest: Pool,
    pool: Pool,
    spec: MixtureSpec,
    n_classes: int,
) -> NDArray[np.int64]:
    """Rows that only this setting, or only REFERENCE, had right; `components` and `rest` lack these rows.

    Rows of a class are alike, so they win or lose together: no class leads by more than MAX_LEAD rows.
    """
    labels = np.array([component.label for component in components])
    right: dict[tuple[float, float], NDArray[np.bool_]] = {}
    settings = allowed_settings(spec.config)
    for shrinkage in dict.fromkeys(shrinkage for shrinkage, _ in settings):
        frozen = pool.freeze((shrinkage, 1.0), spec.code)
        tied, own = score_parts(x, components, rest, frozen, spec)
        for own_weight in dict.fromkeys(own_weight for _, own_weight in settings):
            scores = class_scores(tied + own_weight * own, labels, n_classes)
            right[shrinkage, own_weight] = scores.argmax(axis=1) == y
    by_setting = np.stack([right[setting] for setting in settings])
    usual = by_setting[SETTINGS.index(REFERENCE)]
    won, lost = by_setting & ~usual, usual & ~by_setting
    votes = np.zeros((2, len(settings)), np.int64)
    for label in np.unique(y):
        gained, missed = (part[:, y == label].sum(axis=1) for part in (won, lost))
        votes += [np.minimum(gained, missed + MAX_LEAD), np.minimum(missed, gained + MAX_LEAD)]
    return votes


def _score(
    x: Doubles,
    components: Sequence[Component],
    rest: Pool,
    pool: Pool,
    spec: MixtureSpec,
    setting: tuple[float, float],
) -> tuple[Doubles, Doubles]:
    """Total and tied scores. The whitening is that of the whole pool: most factors then serve all parts."""
    frozen = pool.freeze((setting[0], 1.0), spec.code)
    tied, own = score_parts(x, components, rest, frozen, spec)
    return tied + setting[1] * own, tied


def _thin(rows: NDArray[np.intp], most: int) -> NDArray[np.intp]:
    """At most `most` rows, evenly spaced."""
    return rows[:: -(-len(rows) // most)]


def _log_loss(scores: Doubles, y: Labels) -> float:
    """Sum of −log p(right class)."""
    p = softmax(scores)[np.arange(len(y)), y]
    return float(-np.log(np.maximum(p, 1e-12)).sum())
