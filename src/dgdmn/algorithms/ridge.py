"""Ridge: random ReLU units and a closed-form linear head (RanPAC, McDonnell 2023; ACIL, Zhuang 2022)."""

import copy
from dataclasses import dataclass, replace
from typing import Any, Self, final

import numpy as np
from numpy.typing import NDArray

from dgdmn.algorithms.closed_form import ClosedFormClassifier, FeatureSpec, SumsMemory
from dgdmn.algorithms.estimator import WeightedClassifier
from dgdmn.algorithms.fitted import Inputs, Memory
from dgdmn.config import Config
from dgdmn.core.batch import Batch
from dgdmn.core.events import Context
from dgdmn.core.rng import SeedStream
from dgdmn.features import FrontEnd, choose
from dgdmn.features.tables import ReluUnits, Scale
from dgdmn.memory.components import load_array
from dgdmn.memory.gaussian import Doubles, gram, pack, solve, unpack
from dgdmn.storage import State

PENALTIES = (1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2)
"""Candidates if `shrinkage` is 0: penalty as a share of the mean square of a unit."""


@final
@dataclass(eq=False, repr=False, kw_only=True)
class Ridge(WeightedClassifier, ClosedFormClassifier):
    """Least squares on `ridge_units` random ReLU units of the features; equal to the joint solution.

    The units have the scale of the first call. For a small
    table `auto` means `none`: Ridge has ReLU units of its own.
    """

    shrinkage: float | None = None
    ridge_units: int | None = None

    def _new_inputs(self, X: NDArray[Any], config: Config, weight: Doubles | None = None) -> Inputs:
        features = self.features if callable(self.features) else config.features
        if features == "auto":
            shape = X.shape[1:] if self.image_shape is None else tuple(self.image_shape)
            features = "gabor" if choose("auto", shape) == "gabor" else "none"
        given: dict[str, Any] = {"image_shape": self.image_shape, "weight": weight}
        return FrontEnd.fit(X, features, seed=config.code_seed, **given)

    def _new_memory(self, factory: FeatureSpec, n_classes: int, rng: SeedStream) -> Memory:
        return RidgeMemory(factory, n_classes, self.scale)


class RidgeMemory:
    """The scale and sums of the units; the scale is frozen at the first call."""

    def __init__(self, factory: FeatureSpec, n_classes: int, scale: Any) -> None:
        config, self.d = factory.config, factory.shape[0]
        self.units = ReluUnits(self.d, config.ridge_units, config.code_seed)
        self.scale = None if scale is None else Scale.parse(scale, self.d)
        fixed = config.shrinkage
        sums = RidgeSums.empty(n_classes, config.ridge_units + 1)
        self.sums = SumsMemory(sums, settings=(fixed,) if fixed else PENALTIES)

    def _hidden(self, x: NDArray[Any]) -> Doubles:
        """The units, and a constant."""
        assert self.scale is not None
        units = self.units(self.scale.apply(np.asarray(x, np.float64)))
        return np.concatenate([units, np.ones((len(x), 1))], axis=1)

    def learn(self, task: str | None, new: Batch, ctx: Context) -> None:
        if self.scale is None:
            self.scale = Scale.fit(np.asarray(new.x, np.float64), self.units.seed, new.weight)
        self.sums = copy.copy(self.sums)
        self.sums.learn(task, Batch(self._hidden(new.x), new.y, weight=new.weight), ctx)

    def sleep(self, ctx: Context) -> None:
        """Do nothing: there is no short-term memory."""

    def predict_proba(self, x: NDArray[Any], task: str | None) -> Doubles:
        return self.sums.predict_proba(self._hidden(x), task)

    def column_moments(self, d: int) -> tuple[Doubles, Doubles, float]:
        """Mean and variances of the first d features in the first call; the number of rows plays no role."""
        assert self.scale is not None
        return self.scale.center[:d], self.scale.spread[:d] ** 2, 1.0

    def grow(self, n_classes: int) -> None:
        self.sums = copy.copy(self.sums)
        self.sums.grow(n_classes)

    def state(self) -> State:
        assert self.scale is not None
        return {**self.scale.state(), **self.sums.state()}

    def load_state(self, state: State) -> None:
        self.scale = Scale.restore(state, self.d)
        self.sums.load_state(state)


@dataclass(frozen=True, eq=False)
class RidgeSums:
    """H'H and H'Y of units H and one-hot labels Y."""

    gram: Doubles
    targets: Doubles
    counts: Doubles

    @classmethod
    def empty(cls, k: int, d: int) -> Self:
        return cls(np.zeros((d, d)), np.zeros((d, k)), np.zeros(k))

    def add(self, x: Doubles, y: NDArray[np.int64], weight: Doubles | None) -> Self:
        members = np.eye(len(self.counts))[y]
        counts = self.counts + (members.sum(axis=0) if weight is None else weight @ members)
        if weight is not None:
            root = np.sqrt(weight)[:, None]
            x, members = root * x, root * members
        return type(self)(self.gram + gram(x), self.targets + x.T @ members, counts)

    def head(self, setting: float) -> tuple[Doubles, Doubles]:
        """The solution with penalty `setting` times the mean square of a unit."""
        penalized = self.gram.copy()
        square = float(np.diag(self.gram).mean())
        penalized[np.diag_indices_from(penalized)] += setting * (square or 1.0)
        return solve(penalized, self.targets), np.where(self.counts > 0, 0.0, -np.inf)

    def grow(self, k: int) -> Self:
        more = k - len(self.counts)
        targets = np.pad(self.targets, ((0, 0), (0, more)))
        return replace(self, targets=targets, counts=np.pad(self.counts, (0, more)))

    def state(self) -> State:
        return {"gram": pack(self.gram), "targets": self.targets, "counts": self.counts}

    def load(self, state: State) -> Self:
        d, k = self.targets.shape
        products = load_array(state, "gram", (d * (d + 1) // 2,))
        counts = load_array(state, "counts", (k,))
        if (counts < 0).any():
            raise ValueError("a count is negative")
        return type(self)(unpack(products, d), load_array(state, "targets", (d, k)), counts)
