"""DropNN: dropout, so that tasks share fewer units."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

from dgdmn.algorithms.base import ContinualClassifier
from dgdmn.algorithms.learnt import Memory
from dgdmn.algorithms.network import Network
from dgdmn.networks.blueprint import Blueprint
from dgdmn.seeds import Seeds


@final
@dataclass(eq=False, repr=False, kw_only=True)
class DropNN(ContinualClassifier):
    """NN with dropout after each hidden layer, "to prevent representational overlaps" (section 4)."""

    category: ClassVar[str] = "representational overlap"
    keeps: ClassVar[str] = "weights"
    source: ClassVar[str] = "Goodfellow 2013"

    learner_epochs: int | None = None
    dropout: float | None = None

    def _begin(self, blueprint: Blueprint, n_classes: int, seeds: Seeds) -> Memory:
        return Network(blueprint, n_classes, seeds, dropout=blueprint.preset.dropout)
