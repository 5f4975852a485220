"""NN: a plain network trained on one task after the other. It shows what forgetting is."""

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
class NN(ContinualClassifier):
    """The paper's "feedforward neural network": the learner alone, six epochs a task (section 4)."""

    category: ClassVar[str] = "none"
    keeps: ClassVar[str] = "weights"
    source: ClassVar[str] = "Kamra 2018, section 4"

    learner_epochs: int | None = None

    def _begin(self, blueprint: Blueprint, n_classes: int, seeds: Seeds) -> Memory:
        return Network(blueprint, n_classes, seeds)
