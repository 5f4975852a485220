"""NCM: the class with the nearest mean (Mensink 2013)."""

from typing import final

from dgdmn.algorithms.closed_form import (
    ClosedFormClassifier,
    FeatureSpec,
    GaussianSums,
    SumsMemory,
)
from dgdmn.algorithms.estimator import WeightedClassifier
from dgdmn.algorithms.fitted import Memory
from dgdmn.core.rng import SeedStream
from dgdmn.memory.gaussian import Moments


@final
class NCM(WeightedClassifier, ClosedFormClassifier):
    """A mean per class. Distances are in standard deviations of each feature, so units do not matter."""

    def _new_memory(self, factory: FeatureSpec, n_classes: int, rng: SeedStream) -> Memory:
        moments = Moments.empty(n_classes, factory.shape[0], diagonal=True)
        return SumsMemory(GaussianSums(moments), settings=(0.0,))
