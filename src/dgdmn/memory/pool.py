"""What the components of a mixture memory share: pooled sums, test counts and what a sleep freezes.

Formulas are in docs/mixture.md. All values are immutable: a change makes a new one. What is derived from them is
cached beside them and never saved.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve, lapack, solve_triangular

from dgdmn.config import Config
from dgdmn.core.errors import DgdmnError
from dgdmn.memory.code import (
    SETTINGS,
    SHRINKAGES,
    TEMPERATURES,
    MixtureSpec,
    allowed_settings,
    code_covariance,
)
from dgdmn.memory.components import Component, CrossMoment, check_scatter, load_array, stack_means
from dgdmn.memory.gaussian import MIN_RIDGE, Doubles, Moments, as_count, pack, shrink, unpack
from dgdmn.storage import State, get_int, get_typed
from dgdmn.storage.checks import row_count

CLEAR_DEVIATIONS = 3.0
"""Another setting replaces the expected one if it leads by this many standard deviations on tested rows. On
validation rows of Digits, HAPT and CLINC150 all values from 1.5 up give the same result: no setting wins."""
SHRINKAGE_FACTOR = 3.0
"""λ is this multiple of the oracle approximating shrinkage, which suits the covariance; telling classes apart needs
more (validation rows of Digits, HAPT and CLINC150, all and few of them)."""
NOT_POSITIVE = "a covariance is not positive; the memory is damaged, or values are too large"
CONSTANT_VARIANCE = 1e-10
"""Variance of a constant column, as a share of its squared mean: with less, rounding would decide."""
REFRESH_FACTOR = 1.1
"""St is computed again between two sleeps when the number of rows has grown by this factor: a covariance of few
rows says little about the next ones."""
Factor = tuple[Doubles, Doubles, Doubles, float]
"""The center of a component in the code and in the whitened code, the inverse Cholesky factor of its covariance, and
the log determinant of that covariance minus that of St."""


@dataclass(frozen=True, eq=False)
class FrozenSettings:
    """What stays fixed from one sleep to the next: λ, g, the divisor of scores and the tied code covariance."""

    setting: tuple[float, float]
    temperature: float
    code_covariance: Doubles
    """St, shape (q, q)."""
    n: float
    """Rows in the pool when St was computed."""

    def __post_init__(self) -> None:
        # Derived, never saved. Factors of components that no memory holds any more are freed.
        root, failed = lapack.dpotrf(self.code_covariance, lower=1, clean=1)
        if failed:
            raise DgdmnError(NOT_POSITIVE)
        whitening, _ = lapack.dtrtri(root, lower=1)
        object.__setattr__(self, "root", root)
        object.__setattr__(self, "whitening", whitening)
        object.__setattr__(self, "factors", WeakKeyDictionary())

    root: Doubles = field(init=False, repr=False)
    """The lower Cholesky factor of St; its leading block is the factor of the leading block."""
    whitening: Doubles = field(init=False, repr=False)
    """The inverse of the root."""
    factors: "WeakKeyDictionary[Component, Factor]" = field(init=False, repr=False)

    def __reduce__(self) -> tuple[Any, ...]:
        return FrozenSettings, (self.setting, self.temperature, self.code_covariance, self.n)

    def state(self) -> State:
        return {
            "setting": list(self.setting),
            "temperature": self.temperature,
            "code_covariance": pack(self.code_covariance),
            "n": self.n,
        }

    @classmethod
    def load(cls, state: State, spec: MixtureSpec) -> Self:
        """Load what `state` returned; every value is checked."""
        setting = get_typed(state, "setting", list)
        right = len(setting) == 2 and all(
            type(value) is float and 0 <= value <= 1 for value in setting
        )
        temperature = get_typed(state, "temperature", float)
        if not right or setting[0] == 0 or not temperature >= 1:
            raise ValueError(
                f"setting {setting!r} and temperature {temperature!r} are not possible"
            )
        size = (spec.q * (spec.q + 1) // 2,)
        covariance = unpack(load_array(state, "code_covariance", size), spec.q)
        return cls((setting[0], setting[1]), temperature, covariance, row_count(state, "n"))


@dataclass(frozen=True, eq=False)
class Pool:
    """What all components of a dual memory share."""

    scatter: Doubles
    """S: scatter of all rows about the means of their components, shape (d, d)."""
    total: Moments
    """Mean and variances of all rows, whatever their component: the unit of a column that is constant within
    every component."""
    n: float = 0
    """Rows in S, or the sum of their weights."""
    votes: NDArray[np.int64] = field(default_factory=lambda: np.zeros((2, len(SETTINGS)), np.int64))
    """Tested rows that only this setting, or only REFERENCE, had right, for each of SETTINGS (`compare_settings`)."""
    log_losses: Doubles = field(default_factory=lambda: np.zeros(len(TEMPERATURES)))
    """Sum of −log p(right class) of tested rows for each temperature."""
    untested: int = 0
    """Rows learned since the last test."""
    inputs: CrossMoment | None = None
    """Inputs and their code together, to decode dreams; None for tables and large inputs."""
    frozen: FrozenSettings | None = None
    """As of the last sleep; None before the first."""
    _cache: dict[Any, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def empty(cls, d: int, inputs: CrossMoment | None = None) -> Self:
        """The pool before any row."""
        return cls(np.zeros((d, d)), Moments.empty(1, d, diagonal=True), inputs=inputs)

    def covariance(self, shrinkage: float) -> Doubles:
        """S₀: the pooled covariance, shrunk toward the variances of all rows."""
        total = self.total.total
        shrunk = shrink(self.scatter / (self.n or 1), shrinkage, total)
        constant = np.flatnonzero(total == 0)
        if (
            constant.size
        ):  # a tiny variance: dreams do not vary there, and the code does not see these columns
            least = MIN_RIDGE * (float(np.diag(shrunk)[total > 0].sum()) / len(total) or 1.0)
            shrunk[constant, constant] = (
                CONSTANT_VARIANCE * self.total.means[0, constant] ** 2 + least
            )
        return shrunk

    def weights(self, components: Sequence[Component], shrinkage: float) -> tuple[Doubles, Doubles]:
        """S₀⁻¹ m of each component as columns, and −½ m' S₀⁻¹ m; kept until the pool changes."""
        key, kept = ("weights", shrinkage), tuple(components)
        if key not in self._cache or self._cache[key][0] != kept:
            _, means = stack_means(components)
            factor, unit = self._factor(shrinkage)
            columns = unit * cho_solve(factor, unit * means.T, check_finite=False)
            self._cache[key] = (kept, columns, -0.5 * np.einsum("kd,dk->k", means, columns))
        return self._cache[key][1], self._cache[key][2]

    def log_common(self, x: Doubles, shrinkage: float) -> Doubles:
        """The part of the log density that tied scores omit: log N(x; 0, S₀), shape (n,)."""
        (factor, _), unit = self._factor(shrinkage)
        white = solve_triangular(factor, unit * x.T, lower=True, check_finite=False)
        log_det = 2 * float(np.log(np.diag(factor)).sum() - np.log(unit).sum())
        density: Doubles = -0.5 * (
            (white**2).sum(axis=0) + log_det + len(unit) * math.log(2 * math.pi)
        )
        return density

    def _factor(self, shrinkage: float) -> tuple[Any, Doubles]:
        """The Cholesky factor of S₀ scaled to unit diagonal, and the scale as a column."""
        key = ("factor", shrinkage)
        if key not in self._cache:
            covariance = self.covariance(shrinkage)
            unit = 1 / np.sqrt(np.diag(covariance))[:, None]
            root, failed = lapack.dpotrf(covariance * unit * unit.T, lower=1)
            if failed:
                raise DgdmnError(NOT_POSITIVE)
            self._cache[key] = ((root, True), unit)
        factor: tuple[Any, Doubles] = self._cache[key]
        return factor

    def effective_dimension(self, shrinkage: float) -> float:
        """tr(S₀⁻¹ S / n): the expected squared distance between a row and the mean of its class."""
        key = ("dimension", shrinkage)
        if key not in self._cache:
            (root, _), unit = self._factor(shrinkage)
            kept = 1 - shrinkage  # share of S / n in S₀
            # In units in which the diagonal of S₀ is 1; without shrinkage the trace is the number of features.
            variance = np.diag(self.scatter) / (self.n or 1) * unit[:, 0] ** 2
            inverse = np.tril(lapack.dtrtri(root, lower=1)[0])
            precision = np.einsum("ij,ij->j", inverse, inverse)
            trace = (
                (len(unit) - (1 - kept * variance) @ precision) / kept if kept else variance.sum()
            )
            self._cache[key] = float(trace)
        dimension: float = self._cache[key]
        return dimension

    def correlate(self, noise: Doubles, shrinkage: float) -> Doubles:
        """Standard normal rows as draws from N(0, S₀)."""
        (factor, _), unit = self._factor(shrinkage)
        draws: Doubles = noise @ (np.tril(factor) / unit).T
        return draws

    def choose(self, config: Config, weight: float) -> tuple[float, float]:
        """λ and g: those the user has fixed, else the expected ones unless others are clearly better on tested rows.

        `weight` is the expected g.
        """
        gained, lost = self.votes
        expected = SETTINGS.index((self._expected_shrinkage(), weight))
        net, differ = gained - lost, gained + lost
        better, differ = net - net[expected], differ + differ[expected]
        better = np.where(better >= CLEAR_DEVIATIONS * np.sqrt(differ), better, 0)
        best = int(better.argmax()) if better.max() > 0 else expected
        return allowed_settings(config)[best]

    def _expected_shrinkage(self) -> float:
        """The candidate nearest to a multiple of the oracle approximating shrinkage (OAS, Chen et al. 2010).

        In units of the variances of all rows, like `shrink`. Fewer rows give a larger λ.
        """
        if "shrinkage" not in self._cache:
            total = self.total.total
            unit = np.divide(1, np.sqrt(total), out=np.zeros_like(total), where=total > 0)
            scaled = self.scatter / (self.n or 1) * unit[:, None] * unit
            d, trace, squares = int((unit > 0).sum()), np.trace(scaled), (scaled**2).sum()
            spread = squares - trace**2 / max(1, d)
            amount = (squares + trace**2) / ((self.n + 1) * spread) if spread > 0 else 1.0
            distance = np.abs(np.log(np.array(SHRINKAGES)) - math.log(SHRINKAGE_FACTOR * amount))
            self._cache["shrinkage"] = SHRINKAGES[int(distance.argmin())]
        shrinkage: float = self._cache["shrinkage"]
        return shrinkage

    def merge(self, other: "Pool") -> Self:
        """The pool of both; nothing is frozen in it."""
        inputs = self.inputs
        if inputs is not None and other.inputs is not None:
            inputs = inputs.merge(other.inputs)
        return replace(
            self,
            scatter=self.scatter + other.scatter,
            total=self.total.merge(other.total),
            n=as_count(self.n + other.n),
            votes=self.votes + other.votes,
            log_losses=self.log_losses + other.log_losses,
            untested=self.untested + other.untested,
            inputs=inputs,
            frozen=None,
            _cache={},
        )

    def remove(self, component: Component, code: Doubles) -> Self:
        """The pool without a component whose scatter is complete (q = d), up to rounding."""
        share = code_covariance(component.scatter.astype(np.float64), code.T)
        mean = component.mean.astype(np.float64)[None]
        total = self.total.remove(Moments(np.array([float(component.n)]), mean, np.diag(share)))
        n = as_count(float(total.counts[0]))
        return replace(self, scatter=self.scatter - share, total=total, n=n, _cache={})

    def temperature(self) -> float:
        """The divisor of scores with the lowest log loss on tested rows."""
        return TEMPERATURES[int(np.argmin(self.log_losses))]

    def freeze(self, setting: tuple[float, float], code: Doubles) -> FrozenSettings:
        """What a sleep would freeze now with these λ and g."""
        key = ("frozen", setting, self.temperature())
        if key not in self._cache:
            covariance = self._code_covariance(setting[0], code)
            self._cache[key] = FrozenSettings(setting, self.temperature(), covariance, self.n)
        frozen: FrozenSettings = self._cache[key]
        return frozen

    def add_scatter(self, scatter: Doubles, n: float = 0) -> Self:
        """The pool with a scatter of n more rows."""
        return replace(self, scatter=self.scatter + scatter, n=as_count(self.n + n), _cache={})

    def refresh(self, code: Doubles) -> Self:
        """The pool with a new St if the old one is stale; λ, g and the temperature stay."""
        if self.frozen is None or self.n <= REFRESH_FACTOR * self.frozen.n:
            return self
        covariance = self._code_covariance(self.frozen.setting[0], code)
        return replace(self, frozen=replace(self.frozen, code_covariance=covariance, n=self.n))

    def _code_covariance(self, shrinkage: float, code: Doubles) -> Doubles:
        """St, shape (q, q)."""
        covariance = code_covariance(self.covariance(shrinkage), code)
        if (
            code.shape[0] > code.shape[1]
        ):  # columns of very different units leave it almost singular
            covariance[np.diag_indices_from(covariance)] += MIN_RIDGE * np.diag(covariance).mean()
        return covariance

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_cache": {}}  # derived

    def state(self) -> State:
        state: State = {
            "scatter": pack(self.scatter),
            "mean": self.total.means[0],
            "variation": self.total.scatter,
            "n": self.n,
            "votes": self.votes,
            "surprise": self.log_losses,
            "untested": self.untested,
        }
        state |= {} if self.inputs is None else {"inputs": dict(vars(self.inputs))}
        return state | ({} if self.frozen is None else {"frozen": self.frozen.state()})

    @classmethod
    def load(cls, state: State, spec: MixtureSpec) -> Self:
        """Load what `state` returned; every value is checked."""
        triangle = load_array(state, "scatter", (spec.d * (spec.d + 1) // 2,))
        votes = load_array(state, "votes", (2, len(SETTINGS)), (np.int64,))
        log_losses = load_array(state, "surprise", (len(TEMPERATURES),))
        scatter = unpack(triangle, spec.d)
        check_scatter(scatter)
        if (votes < 0).any() or (log_losses < 0).any():
            raise ValueError("a count of tested rows is negative")
        frozen, inputs = None, CrossMoment.empty(spec)
        if "frozen" in state:
            frozen = FrozenSettings.load(get_typed(state, "frozen", dict), spec)
        if inputs is not None:
            sums = get_typed(state, "inputs", dict)
            names = ("mean_x", "mean_z", "scatter", "bounds")
            shapes = {name: getattr(inputs, name).shape for name in names}
            arrays = {name: load_array(sums, name, shape) for name, shape in shapes.items()}
            inputs = CrossMoment(row_count(sums, "n"), **arrays)
        n, untested = row_count(state, "n"), get_int(state, "untested")
        mean, variation = (load_array(state, name, (spec.d,)) for name in ("mean", "variation"))
        if (variation < 0).any():
            raise ValueError("variation has a negative value")
        total = Moments(np.array([float(n)]), mean[None], variation)
        return cls(scatter, total, n, votes, log_losses, untested, inputs, frozen)
