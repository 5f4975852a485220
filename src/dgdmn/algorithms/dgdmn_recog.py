"""DGDMN_recog: the dual memory without task descriptors, recognising tasks by reconstruction."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Self, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dgdmn.algorithms.dual import DualClassifier
from dgdmn.algorithms.learnt import Memory
from dgdmn.networks.blueprint import Blueprint
from dgdmn.seeds import Seeds


@final
@dataclass(eq=False, repr=False, kw_only=True)
class DGDMNRecog(DualClassifier):
    """DGDMN that is never told which task it sees, "only (X, Y) while training and only X while testing".

    A memory knows samples if its recognition loss is below γ; its generator is trained on until that is
    so for what it learnt (appendix A). A task that is named all the same is not looked at.
    """

    category: ClassVar[str] = "replay"
    keeps: ClassVar[str] = "weights; with `best` codes until it sleeps"
    source: ClassVar[str] = "Kamra 2018, appendix A"
    by_descriptor: ClassVar[bool] = False

    recog_trainings: int | None = None

    def partial_fit(
        self, X: ArrayLike, y: ArrayLike, classes: ArrayLike | None = None, *, task: str | None = None
    ) -> Self:
        """Learn one more task, or revise the one it is recognised as; `task` is ignored."""
        return super().partial_fit(X, y, classes)

    def predict_proba(self, X: ArrayLike, task: str | None = None) -> NDArray[np.float64]:
        """Probability of each of `classes_`, by the memory that recognises X; `task` is ignored."""
        return super().predict_proba(X)

    def _begin(self, blueprint: Blueprint, n_classes: int, seeds: Seeds) -> Memory:
        return super()._begin(replace(blueprint, until_known=True), n_classes, seeds)
