"""SLDA: streaming linear discriminant analysis (Hayes and Kanan 2020), with exact sums."""

from dataclasses import dataclass
from typing import final

from dgdmn.algorithms.closed_form import ClosedFormClassifier, FeatureSpec, GaussianSums, SumsMemory
from dgdmn.algorithms.estimator import WeightedClassifier
from dgdmn.algorithms.fitted import Memory
from dgdmn.core.rng import SeedStream
from dgdmn.memory.gaussian import Moments

SHRINKAGES = (1e-4, 1e-3, 1e-2, 0.1, 0.3)
"""The settings that compete if `shrinkage` is 0."""


@final
@dataclass(eq=False, repr=False, kw_only=True)
class SLDA(WeightedClassifier, ClosedFormClassifier):
    """Streaming linear discriminant analysis (Hayes & Kanan 2020), no class priors.

    The covariance is pooled and shrunk toward the variances of the columns. With classes of equal size and
    standardized columns, it is scikit-learn's LinearDiscriminantAnalysis of all rows with solver "lsqr", uniform
    priors and the same shrinkage. The published update divides by the number of all rows and is not exact.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> model = SLDA()
    >>> for label in (0, 1):
    ...     X = rng.normal([4 * label, -4 * label], 1, size=(80, 2))
    ...     model = model.partial_fit(X, np.full(80, label))
    >>> model.predict([[0, 0], [4, -4]]).tolist()
    [0, 1]
    """

    shrinkage: float | None = None

    def _new_memory(self, factory: FeatureSpec, n_classes: int, rng: SeedStream) -> Memory:
        fixed = factory.config.shrinkage
        sums = GaussianSums(Moments.empty(n_classes, factory.shape[0]))
        return SumsMemory(sums, settings=(fixed,) if fixed else SHRINKAGES)
