"""Rows that are tested before they are learned: they compare settings and calibrate answers. No row is kept."""

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
from dgdmn.memory.components import Component, cut_scatter
from dgdmn.memory.gaussian import Doubles, softmax
from dgdmn.memory.pool import Pool
from dgdmn.memory.scores import class_scores, score_against_background, score_parts

HELD_OUT = 8
"""One row in this many is tested before it is learned."""
TEST_EVERY = 200
"""Rows learned between two tests: a test needs all components factorized for each λ."""
MAX_TESTED = 400
"""Rows of one test."""


@dataclass(frozen=True, eq=False)
class HeldOutResult:
    """What one test adds to the counts of a pool and of components."""

    votes: NDArray[np.int64]
    """Rows that only this setting, or only REFERENCE, had right, shape (2, settings)."""
    log_losses: Doubles
    """Sum of −log p(right class) for each temperature."""
    relative: Doubles | None
    """Score of each row against the background; None with one component, which has no background."""


def compare_settings(
    x: Doubles,
    y: NDArray[np.int64],
    components: Sequence[Component],
    pool: Pool,
    spec: MixtureSpec,
    *,
    chosen: tuple[float, float],
    n_classes: int,
) -> HeldOutResult:
    """Test every setting on rows that are not learned yet; log losses are those of the chosen one.

    The newest components are still whole when the budget has cut the others, and tested rows belong to them: what
    favors the newest would win. So all are compared with scatters of the same size.
    """
    size = min(len(component.scatter) for component in components)
    components = [cut_scatter(component, size) for component in components]
    labels = np.array([component.label for component in components])
    settings, reference = allowed_settings(spec.config), reference_setting(spec.config)
    right: dict[tuple[float, float], NDArray[np.bool_]] = {}
    log_losses, relative = np.zeros(len(TEMPERATURES)), None
    for shrinkage in dict.fromkeys(shrinkage for shrinkage, _ in settings):
        frozen = pool.freeze((shrinkage, 1.0), spec.code)
        tied, own = score_parts(x, components, pool, frozen, spec)
        for weight in dict.fromkeys(weight for _, weight in settings):
            scores = class_scores(tied + weight * own, labels, n_classes)
            right[shrinkage, weight] = scores.argmax(axis=1) == y
            if (shrinkage, weight) == chosen:
                log_losses += [_log_loss(scores / divisor, y) for divisor in TEMPERATURES]
        if shrinkage == reference[0] and len(components) > 1:
            scores = tied + reference[1] * own
            relative = score_against_background(scores, tied, components, pool, spec)
    by_setting = np.stack([right[setting] for setting in settings])
    usual = by_setting[SETTINGS.index(REFERENCE)]
    votes = np.stack([(by_setting & ~usual).sum(axis=1), (usual & ~by_setting).sum(axis=1)])
    return HeldOutResult(votes, log_losses, relative)


def _log_loss(scores: Doubles, y: NDArray[np.int64]) -> float:
    """Sum of −log p(right class)."""
    p = softmax(scores)[np.arange(len(y)), y]
    return float(-np.log(np.maximum(p, 1e-12)).sum())
