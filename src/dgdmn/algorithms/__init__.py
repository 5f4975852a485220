"""The algorithms, each a scikit-learn estimator. `dgdmn.config.registry` lists them without torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dgdmn.config.registry import algorithm_info, load_target

if TYPE_CHECKING:
    from dgdmn.algorithms.estimator import ContinualClassifier


def algorithm(name: str) -> type[ContinualClassifier]:
    """The estimator class of that name; torch is imported only now."""
    found: type[ContinualClassifier] = load_target(algorithm_info(name).target)
    return found
