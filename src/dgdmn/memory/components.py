"""Components of the mixture memory, the pool they share, and how they score features.

Formulas are in docs/mixture.md. All values are immutable: a change makes a new one. What is derived from them
is cached beside them and never saved.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas, cho_solve, lapack, solve_triangular

from dgdmn.config import Config
from dgdmn.core.errors import DgdmnError
from dgdmn.memory.code import (
    DECODED,
    SETTINGS,
    SHRINKAGES,
    TEMPERATURES,
    MixtureSpec,
    code_covariance,
    encode,
    settings_for,
    triangle_bytes,
)
from dgdmn.memory.gaussian import FLOOR, Doubles, Moments, pack, shrink, unpack
from dgdmn.memory.unknown import BINS, SKETCH_BYTES, Counts, no_counts
from dgdmn.storage import State, to_numpy, typed, whole
from dgdmn.storage.checks import MAX_COUNT

CLEAR = 3.0
"""A pair is clearly better if it gains so many deviations of the number of rows on which it differs. On validation
rows of Digits, HAPT and CLINC150 anything from 1.5 up is equal, so the expected pair is enough there."""
CAUTION = 3.0
"""λ is this multiple of the amount that estimates the covariance best: classes lie closer together than rows
(validation rows of Digits, HAPT and CLINC150, all and few of them)."""
TRUST = 0.6
"""α of many rows: share of its own scatter in a component's covariance."""
HELD_OUT = 8
"""One row in this many is tested before it is learned."""
TEST_EVERY = 200
"""Rows learned between two tests: a test needs all components factorized for each λ."""
MAX_TESTED = 400
"""Rows of one test."""
CHUNK = 1_000
"""Rows scored at a time."""
DREAM_DEVIATION = 0.7
"""Deviations of dreams that are decoded. A linear decoder blurs unusual samples: with 1.0, five nearest test rows
agree with the label of 79 % of the dreams of Digits, with 0.8 of 86 %, with 0.6 of 93 %."""
NOT_POSITIVE = "a covariance is not positive; the memory is damaged, or values are too large"
LARGEST = 1e15
"""Largest feature: sums of squares still fit float32."""
NOISE = 1e-10
"""Variance of a constant column, as a share of its squared mean: with less, rounding would decide."""
STALE = 1.1
"""St is made again between two sleeps when the rows have grown by this factor: a covariance of few rows says
little about the next ones."""
Factor = tuple[Doubles, Doubles, float]
"""Center, inverse covariance minus I, and log determinant of a component in whitened code."""


@dataclass(frozen=True, eq=False)
class Component:
    """What is kept of one class within a task."""

    task: str
    label: int
    """Class index."""
    n: int
    """Rows."""
    mean: NDArray[Any]
    """Mean of the features, shape (d,); float32 once the budget has bound."""
    scatter: NDArray[Any]
    """Scatter of the leading code about the mean, shape (q', q')."""
    sketch: Counts = field(default_factory=no_counts)
    """How well its rows were known before they were learned: counts of relative scores."""

    def merge(self, other: "Component", code: Doubles) -> Self:
        """Both components as one; the code maps features to code (Chan's formula)."""
        n, q = self.n + other.n, min(len(self.scatter), len(other.scatter))
        apart = other.mean.astype(np.float64) - self.mean
        between = math.sqrt(self.n * other.n / n) * encode(apart[None], code)[0, :q]
        scatter = self.scatter[:q, :q].astype(np.float64) + other.scatter[:q, :q]
        return replace(
            self,
            n=n,
            mean=self.mean + (other.n / n) * apart,
            scatter=scatter + np.outer(between, between),
            sketch=self.sketch + other.sketch,
        )

    def between(self, other: "Component") -> Doubles:
        """What merging both adds to the pooled scatter: the outer product of this vector."""
        apart = other.mean.astype(np.float64) - self.mean
        found: Doubles = math.sqrt(self.n * other.n / (self.n + other.n)) * apart
        return found

    @property
    def nbytes(self) -> int:
        scatter = triangle_bytes(len(self.scatter), self.scatter.itemsize)
        return int(self.mean.nbytes) + scatter + SKETCH_BYTES

    def state(self) -> State:
        return {**vars(self), "scatter": pack(self.scatter)}

    @classmethod
    def load(cls, state: State, spec: MixtureSpec, n_classes: int) -> Self:
        """The component that `state` described; every value is checked."""
        floats = (np.float64, np.float32)
        label = whole(state, "label", 0, n_classes - 1)
        packed = np.array(to_numpy(state["scatter"]))
        q = int((math.sqrt(1 + 8 * packed.size) - 1) / 2)
        if packed.ndim != 1 or q * (q + 1) // 2 != packed.size or q > spec.q:
            raise ValueError(
                f"scatter has shape {packed.shape}; it must be a triangle of at most {spec.q}"
            )
        if packed.dtype.type not in floats:
            raise ValueError(f"scatter is {packed.dtype}; it must be float64 or float32")
        scatter = unpack(packed.astype(np.float64), q)
        _check_scatter(scatter)
        mean = _load_array(state, "mean", (spec.d,), floats)
        if np.abs(mean).max() > LARGEST * 1.001:
            raise ValueError("a mean is too large")
        return cls(
            typed(state, "task", str),
            label,
            whole(state, "n", 1),
            mean,
            scatter.astype(packed.dtype),
            _load_array(state, "sketch", (BINS,), (np.uint32,)),
        )


@dataclass(frozen=True, eq=False)
class Frozen:
    """What stays fixed from one sleep to the next: λ, g, the divisor of scores and the tied code covariance."""

    setting: tuple[float, float]
    temperature: float
    code_covariance: Doubles
    """St, shape (q, q)."""
    n: int
    """Rows in the pool when St was made."""

    def __post_init__(self) -> None:
        # Derived, never saved. Components that were replaced leave by themselves.
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
        return Frozen, (self.setting, self.temperature, self.code_covariance, self.n)

    def state(self) -> State:
        return {
            "setting": list(self.setting),
            "temperature": self.temperature,
            "code_covariance": pack(self.code_covariance),
            "n": self.n,
        }

    @classmethod
    def load(cls, state: State, spec: MixtureSpec) -> Self:
        """What `state` described; every value is checked."""
        setting = typed(state, "setting", list)
        right = len(setting) == 2 and all(type(one) is float and 0 <= one <= 1 for one in setting)
        temperature = typed(state, "temperature", float)
        if not right or setting[0] == 0 or not temperature >= 1:
            raise ValueError(
                f"setting {setting!r} and temperature {temperature!r} are not possible"
            )
        size = (spec.q * (spec.q + 1) // 2,)
        covariance = unpack(_load_array(state, "code_covariance", size, (np.float64,)), spec.q)
        return cls((setting[0], setting[1]), temperature, covariance, whole(state, "n"))


@dataclass(frozen=True, eq=False)
class Pool:
    """What all components of a dual memory share."""

    scatter: Doubles
    """S: scatter of all rows about the means of their components, shape (d, d)."""
    total: Moments
    """Mean and variances of all rows, whatever their component: the unit of a column that is constant within
    every component."""
    n: int = 0
    """Rows in S."""
    votes: NDArray[np.int64] = field(default_factory=lambda: np.zeros((2, len(SETTINGS)), np.int64))
    """Rows tested before they were learned: how many only this setting, or only REFERENCE, had right."""
    surprise: Doubles = field(default_factory=lambda: np.zeros(len(TEMPERATURES)))
    """Sum of −log p(right class) of tested rows for each temperature."""
    untested: int = 0
    """Rows learned since the last test."""
    inputs: "CrossMoment | None" = None
    """Inputs and their code together, to decode dreams; None for tables and large inputs."""
    frozen: Frozen | None = None
    """As of the last sleep; None before the first."""
    _cache: dict[Any, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def empty(cls, d: int, inputs: "CrossMoment | None" = None) -> Self:
        """The pool before any row."""
        return cls(np.zeros((d, d)), Moments.empty(1, d, diagonal=True), inputs=inputs)

    def covariance(self, shrinkage: float) -> Doubles:
        """S₀: the pooled covariance, shrunk toward the variances of all rows."""
        total = self.total.total
        shrunk = shrink(self.scatter / max(1, self.n), shrinkage, total)
        constant = np.flatnonzero(total == 0)
        if (
            constant.size
        ):  # almost none of their own: dreams do not vary, and the code does not see them
            least = FLOOR * (float(np.diag(shrunk)[total > 0].sum()) / len(total) or 1.0)
            shrunk[constant, constant] = NOISE * self.total.means[0, constant] ** 2 + least
        return shrunk

    def weights(self, components: Sequence[Component], shrinkage: float) -> tuple[Doubles, Doubles]:
        """S₀⁻¹ m of each component as columns, and −½ m' S₀⁻¹ m; kept until the pool changes."""
        key, kept = ("weights", shrinkage), tuple(components)
        if key not in self._cache or self._cache[key][0] != kept:
            means = np.stack([one.mean for one in components]).astype(np.float64)
            factor, unit = self._factor(shrinkage)
            found = unit * cho_solve(factor, unit * means.T, check_finite=False)
            self._cache[key] = (kept, found, -0.5 * np.einsum("kd,dk->k", means, found))
        return self._cache[key][1], self._cache[key][2]

    def log_common(self, x: Doubles, shrinkage: float) -> Doubles:
        """What tied scores leave out of a log density: log N(x; 0, S₀), shape (n,)."""
        (factor, _), unit = self._factor(shrinkage)
        white = solve_triangular(factor, unit * x.T, lower=True, check_finite=False)
        log_det = 2 * float(np.log(np.diag(factor)).sum() - np.log(unit).sum())
        found: Doubles = -0.5 * (
            (white**2).sum(axis=0) + log_det + len(unit) * math.log(2 * math.pi)
        )
        return found

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
        found: tuple[Any, Doubles] = self._cache[key]
        return found

    def choose(self, config: Config, weight: float) -> tuple[float, float]:
        """λ and g: fixed by the user, else those expected unless others are clearly better on tested rows.

        `weight` is the g that is expected.
        """
        gained, lost = self.votes
        expected = SETTINGS.index((self._expected_shrinkage(), weight))
        net, differ = gained - lost, gained + lost
        better, differ = net - net[expected], differ + differ[expected]
        better = np.where(better >= CLEAR * np.sqrt(differ), better, 0)
        best = int(better.argmax()) if better.max() > 0 else expected
        return settings_for(config)[best]

    def _expected_shrinkage(self) -> float:
        """The λ that suits the number of rows: the oracle approximating shrinkage of Chen et al. (2010), cautiously.

        In units of the variances of all rows, like `shrink`.
        """
        if "shrinkage" not in self._cache:
            total = self.total.total
            unit = np.divide(1, np.sqrt(total), out=np.zeros_like(total), where=total > 0)
            scaled = self.scatter / max(1, self.n) * unit[:, None] * unit
            d, trace, squares = int((unit > 0).sum()), np.trace(scaled), (scaled**2).sum()
            apart = squares - trace**2 / max(1, d)
            amount = (squares + trace**2) / ((self.n + 1) * apart) if apart > 0 else 1.0
            distance = np.abs(np.log(np.array(SHRINKAGES)) - math.log(CAUTION * amount))
            self._cache["shrinkage"] = SHRINKAGES[int(distance.argmin())]
        found: float = self._cache["shrinkage"]
        return found

    def merge(self, other: "Pool") -> Self:
        """The pool of both; what a sleep froze must be frozen again."""
        inputs = self.inputs
        if inputs is not None and other.inputs is not None:
            inputs = inputs.merge(other.inputs)
        return replace(
            self,
            scatter=self.scatter + other.scatter,
            total=self.total.merge(other.total),
            n=self.n + other.n,
            votes=self.votes + other.votes,
            surprise=self.surprise + other.surprise,
            untested=self.untested + other.untested,
            inputs=inputs,
            frozen=None,
            _cache={},
        )

    def remove(self, one: Component, code: Doubles) -> Self:
        """The pool without a component whose scatter is complete (q = d), to rounding."""
        share = code_covariance(one.scatter.astype(np.float64), code.T)
        mean = one.mean.astype(np.float64)[None]
        total = self.total.remove(Moments(np.array([float(one.n)]), mean, np.diag(share)))
        scatter = self.scatter - share
        return replace(self, scatter=scatter, total=total, n=self.n - one.n, _cache={})

    def temperature(self) -> float:
        return TEMPERATURES[int(np.argmin(self.surprise))]

    def freeze(self, setting: tuple[float, float], code: Doubles) -> Frozen:
        return Frozen(setting, self.temperature(), self._code_covariance(setting[0], code), self.n)

    def refresh(self, code: Doubles) -> Self:
        """The pool with a new St if the old one is stale; λ, g and the temperature stay."""
        if self.frozen is None or self.n <= STALE * self.frozen.n:
            return self
        covariance = self._code_covariance(self.frozen.setting[0], code)
        return replace(self, frozen=replace(self.frozen, code_covariance=covariance, n=self.n))

    def _code_covariance(self, shrinkage: float, code: Doubles) -> Doubles:
        """St, shape (q, q)."""
        covariance = code_covariance(self.covariance(shrinkage), code)
        if (
            code.shape[0] > code.shape[1]
        ):  # columns of very different units leave it almost singular
            covariance[np.diag_indices_from(covariance)] += FLOOR * np.diag(covariance).mean()
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
            "surprise": self.surprise,
            "untested": self.untested,
        }
        state |= {} if self.inputs is None else {"inputs": dict(vars(self.inputs))}
        return state | ({} if self.frozen is None else {"frozen": self.frozen.state()})

    @classmethod
    def load(cls, state: State, spec: MixtureSpec) -> Self:
        """The pool that `state` described; every value is checked."""
        doubles = (np.float64,)
        triangle = _load_array(state, "scatter", (spec.d * (spec.d + 1) // 2,), doubles)
        votes = _load_array(state, "votes", (2, len(SETTINGS)), (np.int64,))
        surprise = _load_array(state, "surprise", (len(TEMPERATURES),), doubles)
        scatter = unpack(triangle, spec.d)
        _check_scatter(scatter)
        if (votes < 0).any() or (surprise < 0).any():
            raise ValueError("a count of tested rows is negative")
        frozen, inputs = None, CrossMoment.empty(spec)
        if "frozen" in state:
            frozen = Frozen.load(typed(state, "frozen", dict), spec)
        if inputs is not None:
            sums = typed(state, "inputs", dict)
            names = ("mean_x", "mean_z", "scatter", "bounds")
            shapes = {name: getattr(inputs, name).shape for name in names}
            arrays = {
                name: _load_array(sums, name, shape, doubles) for name, shape in shapes.items()
            }
            inputs = CrossMoment(whole(sums, "n"), **arrays)
        n, untested = whole(state, "n"), whole(state, "untested")
        mean, variation = (
            _load_array(state, name, (spec.d,), doubles) for name in ("mean", "variation")
        )
        if (variation < 0).any():
            raise ValueError("variation has a negative value")
        total = Moments(np.array([float(n)]), mean[None], variation)
        return cls(scatter, total, n, votes, surprise, untested, inputs, frozen)


@dataclass(frozen=True, eq=False)
class CrossMoment:
    """Sums over inputs x and their code z: the linear map from code to input."""

    n: int
    mean_x: Doubles
    mean_z: Doubles
    scatter: Doubles
    """Σ (x − mean)(z − mean)', shape (inputs, code)."""
    bounds: Doubles = field(default_factory=lambda: np.zeros(2))
    """The lowest and the highest value of all inputs: nothing else is decoded."""

    @classmethod
    def empty(cls, spec: MixtureSpec) -> Self | None:
        """The sums before any row; None where inputs are not decoded."""
        if not spec.n_inputs:
            return None
        p, r = spec.n_inputs, min(DECODED, spec.q)
        return cls(0, np.zeros(p), np.zeros(r), np.zeros((p, r)))

    def add(self, x: NDArray[Any], z: Doubles) -> Self:
        """The sums with more rows (Chan's formula)."""
        x = np.asarray(x, np.float64)
        mean_x, mean_z = x.mean(axis=0), z.mean(axis=0)
        scatter, bounds = (x - mean_x).T @ (z - mean_z), np.array([x.min(), x.max()])
        return self.merge(CrossMoment(len(z), mean_x, mean_z, scatter, bounds))

    def merge(self, other: "CrossMoment") -> Self:
        """The sums of both sets of rows."""
        n = self.n + other.n
        share = other.n / max(1, n)
        apart_x, apart_z = other.mean_x - self.mean_x, other.mean_z - self.mean_z
        scatter = self.scatter + other.scatter + self.n * share * np.outer(apart_x, apart_z)
        means = self.mean_x + share * apart_x, self.mean_z + share * apart_z
        both = np.stack([one.bounds for one in (self, other) if one.n] or [self.bounds])
        return type(self)(n, *means, scatter, np.array([both[:, 0].min(), both[:, 1].max()]))

    def decode(self, z: Doubles, code_scatter: Doubles) -> NDArray[np.float32]:
        """Inputs by linear regression on the code."""
        shrunk = shrink(code_scatter, 0.001, np.diag(code_scatter))
        inputs = self.mean_x + (z - self.mean_z) @ np.linalg.solve(shrunk, self.scatter.T)
        return np.clip(inputs, *self.bounds).astype(np.float32)


def score_parts(
    x: Doubles, components: Sequence[Component], pool: Pool, frozen: Frozen, spec: MixtureSpec
) -> tuple[Doubles, Doubles]:
    """Tied scores L and own corrections O − T of each component, both (n, components)."""
    weights, bias = pool.weights(components, frozen.setting[0])
    tied = x @ weights + bias
    own = np.zeros_like(tied)
    white = encode(x, spec.code) @ frozen.whitening.T
    for index, one in enumerate(components):
        if len(one.scatter):
            center, excess, log_det = own_factor(one, frozen, spec.code)
            error = white[:, : len(center)] - center
            own[:, index] = -0.5 * (((error @ excess) * error).sum(axis=1) + log_det)
    return tied, own


def own_factor(one: Component, frozen: Frozen, code: Doubles) -> Factor:
    """The factor of a component, computed once.

    In whitened code St is the identity, and the covariance is α L⁻¹ C L⁻ᵀ + (1 − α) I.
    """
    kept = frozen.factors.get(one)
    if kept is None:
        q = len(one.scatter)
        whitening = frozen.whitening[:q, :q]
        center = whitening @ encode(one.mean.astype(np.float64)[None], code)[0, :q]
        scatter = one.scatter.astype(np.float64) / one.n
        half = blas.dtrmm(1.0, whitening, scatter, lower=1)
        whitened = blas.dtrmm(1.0, whitening, half, side=1, lower=1, trans_a=1)
        trust = TRUST * one.n / (one.n + q)
        covariance = trust * (whitened + whitened.T) / 2
        covariance[np.diag_indices(q)] += 1 - trust
        factor, failed = lapack.dpotrf(covariance, lower=1, clean=1)
        if failed:  # float32 of a scatter that whitening has magnified
            values, vectors = np.linalg.eigh(covariance)
            values = np.maximum(values, 1 - trust)
            factor = np.linalg.cholesky((vectors * values) @ vectors.T)
        inverse, _ = lapack.dpotri(factor, lower=1)
        excess = inverse + inverse.T  # its upper triangle is zero
        excess[np.diag_indices(q)] = np.diag(inverse) - 1
        log_det = 2 * float(np.log(np.diag(factor)).sum())
        kept = frozen.factors[one] = (center, excess, log_det)
    return kept


def class_scores(scores: Doubles, labels: NDArray[np.int64], n_classes: int) -> Doubles:
    """Log-sum-exp over the components of each class, shape (n, n_classes); −∞ for classes without any."""
    found = np.full((len(scores), n_classes), -np.inf)
    if len(set(labels.tolist())) == len(labels):  # the usual case, and much faster
        found[:, labels] = scores
        return found
    for label in np.unique(labels):
        found[:, label] = np.logaddexp.reduce(scores[:, labels == label], axis=1)
    return found


def _load_array(state: State, name: str, shape: tuple[int, ...], kinds: tuple[type, ...]) -> Any:
    array = np.array(to_numpy(state[name]))
    if array.shape != shape or array.dtype.type not in kinds:
        raise ValueError(f"{name} is {array.dtype} of shape {array.shape}; it must be {shape}")
    return array


def _check_scatter(scatter: Doubles) -> None:
    """A scatter is positive, but for the rounding of float32."""
    variance = np.diag(scatter)
    if (variance < 0).any() or (variance > MAX_COUNT * LARGEST**2).any():
        raise ValueError("a scatter is not positive")
    unit = 1 / np.sqrt(np.where(variance > 0, variance, 1))
    scaled = scatter * unit[:, None] * unit
    scaled[np.diag_indices_from(scaled)] += 1e-4
    if len(scaled) and lapack.dpotrf(scaled, lower=1)[1]:
        raise ValueError("a scatter is not positive")
