"""The mixture memory: exact sums in a fixed random code, one Gaussian for each class within a task.

Each component keeps a count, a mean of the features and a scatter in the code. All components of a dual memory
share one pooled scatter. Bayes' rule on these Gaussians gives the class. Sums do not depend on the order of
rows, so nothing is forgotten until the byte budget binds. Formulas: docs/mixture.md.
"""

import math
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Self
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve, solve_triangular

from dgdmn.config import Config
from dgdmn.core.batch import Batch
from dgdmn.core.errors import UsageError
from dgdmn.core.events import Context
from dgdmn.core.rng import SeedStream
from dgdmn.memory.gaussian import Doubles, gram, pack, shrink, softmax, unpack
from dgdmn.memory.protocols import Role
from dgdmn.memory.task_log import TaskInfo, TaskLog
from dgdmn.storage import State, to_numpy, typed, whole

SHRINKAGES = (0.001, 0.01, 0.1, 0.3)
"""λ: weight of the diagonal in the pooled covariance; held-out rows choose."""
OWN_WEIGHTS = (0.0, 0.5, 1.0)
"""g: weight of a component's own covariance; held-out rows choose."""
SETTINGS = tuple((shrinkage, weight) for shrinkage in SHRINKAGES for weight in OWN_WEIGHTS)
DEFAULT_SETTING = (0.01, 0.5)
"""λ and g before any row was held out."""
TRUST = 0.6
"""α of many rows: share of its own scatter in a component's covariance."""
FULL_CODE = 256
"""Up to so many features the code is the features themselves."""
HELD_OUT = 8
"""One row in this many is tested before it is learned."""
TEST_EVERY = 200
"""Rows learned between two tests: a test needs all components factorized for each λ."""
MAX_TESTED = 400
"""Rows of one test."""
TEMPERATURES = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
"""Candidates for the divisor of scores that makes probabilities honest."""
CHUNK = 1_000
"""Rows scored at a time."""
DECODED, MAX_INPUTS = 64, 4_096
"""Numbers of the code that dreams are decoded from, and the largest input that can be decoded."""
Factor = tuple[Doubles, Doubles, float]
"""Center, whitening matrix and log determinant of a component's covariance in whitened code."""


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
        )

    def between(self, other: "Component") -> Doubles:
        """What merging both adds to the pooled scatter: the outer product of this vector."""
        apart = other.mean.astype(np.float64) - self.mean
        found: Doubles = math.sqrt(self.n * other.n / (self.n + other.n)) * apart
        return found

    @property
    def nbytes(self) -> int:
        return int(self.mean.nbytes) + _triangle_bytes(len(self.scatter), self.scatter.itemsize)


@dataclass(frozen=True, eq=False)
class Frozen:
    """What stays fixed from one sleep to the next: λ, g, the divisor of scores and the tied code covariance."""

    setting: tuple[float, float]
    temperature: float
    code_covariance: Doubles
    """St, shape (q, q)."""

    def __post_init__(self) -> None:
        # Derived, never saved. Components that were replaced leave by themselves.
        root = np.linalg.cholesky(self.code_covariance)
        object.__setattr__(self, "root", root)
        object.__setattr__(self, "factors", WeakKeyDictionary())

    root: Doubles = field(init=False, repr=False)
    """The lower Cholesky factor of St; its leading block is the factor of the leading block."""
    factors: "WeakKeyDictionary[Component, Factor]" = field(init=False, repr=False)

    def __reduce__(self) -> tuple[Any, ...]:
        return Frozen, (self.setting, self.temperature, self.code_covariance)


@dataclass(frozen=True, eq=False)
class Pool:
    """What all components of a dual memory share."""

    scatter: Doubles
    """S: scatter of all rows about the means of their components, shape (d, d)."""
    n: int = 0
    """Rows in S."""
    right: NDArray[np.int64] = field(default_factory=lambda: np.zeros(len(SETTINGS), np.int64))
    """Right answers of each setting on rows tested before they were learned."""
    surprise: Doubles = field(default_factory=lambda: np.zeros(len(TEMPERATURES)))
    """Sum of −log p(right class) of tested rows for each temperature."""
    untested: int = 0
    """Rows learned since the last test."""
    inputs: "CrossMoment | None" = None
    """Inputs and their code together, to decode dreams; None for tables and large inputs."""
    frozen: Frozen | None = None
    """As of the last sleep; None before the first."""
    _cache: dict[Any, Any] = field(default_factory=dict, repr=False)

    def covariance(self, shrinkage: float) -> Doubles:
        """S₀: the pooled covariance, shrunk toward its diagonal."""
        return shrink(self.scatter / max(1, self.n), shrinkage)

    def weights(self, components: Sequence[Component], shrinkage: float) -> tuple[Doubles, Doubles]:
        """S₀⁻¹ m of each component as columns, and −½ m' S₀⁻¹ m; kept until the pool changes."""
        key, kept = ("weights", shrinkage), tuple(components)
        if key not in self._cache or self._cache[key][0] != kept:
            means = np.stack([one.mean for one in components]).astype(np.float64)
            factor, unit = self._factor(shrinkage)
            found = unit * cho_solve(factor, unit * means.T, check_finite=False)
            self._cache[key] = (kept, found, -0.5 * np.einsum("kd,dk->k", means, found))
        return self._cache[key][1], self._cache[key][2]

    def _factor(self, shrinkage: float) -> tuple[Any, Doubles]:
        """The Cholesky factor of S₀ scaled to unit diagonal, and the scale as a column."""
        key = ("factor", shrinkage)
        if key not in self._cache:
            covariance = self.covariance(shrinkage)
            unit = 1 / np.sqrt(np.diag(covariance))[:, None]
            scaled = covariance * unit * unit.T
            self._cache[key] = (cho_factor(scaled, lower=True, check_finite=False), unit)
        found: tuple[Any, Doubles] = self._cache[key]
        return found

    def choose(self, config: Config) -> tuple[float, float]:
        """λ and g: fixed by the user, else the pair with most right answers; of equal ones the middle."""
        fits = [
            config.shrinkage in (0, shrinkage) and config.own_covariance in (-1, weight)
            for shrinkage, weight in SETTINGS
        ]
        counts = np.where(fits, self.right, -1)
        best = np.flatnonzero(counts == counts.max())
        shrinkage, weight = DEFAULT_SETTING
        if counts.max() > 0:
            shrinkage, weight = SETTINGS[int(best[len(best) // 2])]
        return config.shrinkage or shrinkage, (
            weight if config.own_covariance == -1 else config.own_covariance
        )

    def temperature(self) -> float:
        return TEMPERATURES[int(np.argmin(self.surprise))]

    def freeze(self, setting: tuple[float, float], code: Doubles) -> Frozen:
        covariance = self.covariance(setting[0])
        return Frozen(setting, self.temperature(), code_covariance(covariance, code))

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_cache": {}}  # derived


@dataclass(frozen=True, eq=False)
class CrossMoment:
    """Sums over inputs x and their code z: the linear map from code to input."""

    n: int
    mean_x: Doubles
    mean_z: Doubles
    scatter: Doubles
    """Σ (x − mean)(z − mean)', shape (inputs, code)."""

    def add(self, x: NDArray[Any], z: Doubles) -> Self:
        """The sums with more rows (Chan's formula)."""
        x, n = np.asarray(x, np.float64), self.n + len(z)
        mean_x, mean_z = x.mean(axis=0), z.mean(axis=0)
        apart_x, apart_z = mean_x - self.mean_x, mean_z - self.mean_z
        scatter = self.scatter + (x - mean_x).T @ (z - mean_z)
        scatter += (self.n * len(z) / n) * np.outer(apart_x, apart_z)
        share = len(z) / n
        return type(self)(n, self.mean_x + share * apart_x, self.mean_z + share * apart_z, scatter)

    def decode(self, z: Doubles, code_scatter: Doubles) -> NDArray[np.float32]:
        """Inputs by linear regression on the code."""
        shrunk = shrink(code_scatter, 0.001)
        inputs = self.mean_x + (z - self.mean_z) @ np.linalg.solve(shrunk, self.scatter.T)
        return inputs.astype(np.float32)


class MixtureMemory:
    """Components of one task (short term) or of all tasks (long term), and the pool that they share."""

    def __init__(self, spec: "MixtureSpec", role: Role, n_classes: int, rng: SeedStream) -> None:
        self.spec, self.config, self.role, self.n_classes = spec, spec.config, role, n_classes
        self.tasks, self.age = TaskLog(), 0
        self.components: tuple[Component, ...] = ()
        """In the order in which they were last met."""
        size = spec.d if role == "ltm" else 0
        self.pool = Pool(np.zeros((size, size)), inputs=spec.empty_inputs())
        """A task memory gets the pool of the long-term memory before each use."""

    # Learning

    def learn(
        self,
        new: Batch,
        tasks: Mapping[str, TaskInfo],
        ctx: Context,
        recalled: Batch | None = None,
        *,
        others: Sequence[Self] = (),
    ) -> None:
        """Add rows of one task to its components and to the pool; test some of them first.

        Tested rows are scored against all components, those of the `others` included.
        """
        (task,) = tasks
        x, y = np.asarray(new.x, np.float64), np.asarray(new.y)
        self.tasks = self.tasks.add(tasks)
        self.age += len(y)
        if new.raw is not None and self.pool.inputs is not None:
            code = encode(x, self.spec.code[:, :DECODED])
            self.pool = replace(self.pool, inputs=self.pool.inputs.add(new.raw, code))
        tested = np.arange(len(y)) % HELD_OUT == HELD_OUT - 1
        due = self.pool.untested + len(y) >= TEST_EVERY and self._chooses()
        if due and tested.any():
            self._add(x[~tested], y[~tested], task)
            self._test(x[tested][:MAX_TESTED], y[tested][:MAX_TESTED], others)
            x, y = x[tested], y[tested]
        self._add(x, y, task)

    def _chooses(self) -> bool:
        return self.config.shrinkage == 0 or self.config.own_covariance == -1

    def _add(self, x: Doubles, y: NDArray[np.int64], task: str) -> None:
        """Add rows to the components of a task and to the pool."""
        code, found = self.spec.code, {(one.task, one.label): one for one in self.components}
        centered, between = np.empty_like(x), []
        for label in np.unique(y).tolist():
            rows = y == label
            mean = x[rows].mean(axis=0)
            centered[rows] = x[rows] - mean
            scatter = gram(encode(centered[rows], code))
            one = Component(task, label, int(rows.sum()), mean, scatter)
            old = found.pop((task, label), None)
            if old is not None:
                between.append(old.between(one)[None])
                one = old.merge(one, code)
            found[task, label] = one  # the component met last comes last
        self._pool_scatter(gram(np.concatenate([centered, *between])), len(y))
        self.components = tuple(found.values())

    def _pool_scatter(self, scatter: Doubles, n: int) -> None:
        pool = self.pool
        self.pool = replace(
            pool,
            scatter=pool.scatter + scatter,
            n=pool.n + n,
            untested=pool.untested + n,
            _cache={},
        )

    def _test(self, x: Doubles, y: NDArray[np.int64], others: Sequence[Self]) -> None:
        """Count right answers of every setting on rows that are not learned yet."""
        components = gather([self, *others])
        labels = np.array([one.label for one in components])
        right = np.zeros(len(SETTINGS), np.int64)
        surprise = np.zeros(len(TEMPERATURES))
        chosen = self.pool.choose(self.config)
        for shrinkage in SHRINKAGES:
            frozen = self.pool.freeze((shrinkage, 1.0), self.spec.code)
            tied, own = score_parts(x, components, self.pool, frozen, self.spec)
            for index, setting in enumerate(SETTINGS):
                if setting[0] != shrinkage:
                    continue
                scores = class_scores(tied + setting[1] * own, labels, self.n_classes)
                right[index] = int((scores.argmax(axis=1) == y).sum())
                if setting == chosen:
                    surprise += [_surprise(scores / divisor, y) for divisor in TEMPERATURES]
        pool = self.pool
        self.pool = replace(
            pool, right=pool.right + right, surprise=pool.surprise + surprise, untested=0
        )

    def consolidate(self, task_memories: Sequence[Self], ctx: Context) -> None:
        """Take over the components of task memories, fit the budget, choose λ and g, and freeze."""
        found, fresh = {(one.task, one.label): one for one in self.components}, set()
        for memory in task_memories:
            for one in memory.components:
                old = found.pop((one.task, one.label), None)
                if old is not None:
                    self._pool_scatter(gram(old.between(one)[None]), 0)
                    one = old.merge(one, self.spec.code)
                found[one.task, one.label] = one
                fresh.add((one.task, one.label))
            self.tasks = self.tasks.add(memory.tasks)
        self.components = tuple(found.values())
        n_new = sum(memory.age for memory in task_memories)
        self.fit_budget((), fresh, n_new)
        self.age += n_new
        setting = self.pool.choose(self.config)
        self.pool = replace(self.pool, frozen=self.pool.freeze(setting, self.spec.code))

    # Budget

    def fit_budget(
        self, awake: Sequence[Self], fresh: Set[tuple[str, int]] = frozenset(), n_new: int = 0
    ) -> None:
        """Shrink scatters until this memory and the awake ones fit `memory_budget`.

        Let B be the bytes for scatters. Fresh and awake components get max(κ, n_new / (n_new + age)) of it
        (Algorithm 1), the past the rest, split by how often a task was met. A component keeps the largest
        leading block that fits. If means alone do not fit, components of a class merge, oldest first.
        """
        budget = self.config.memory_budget - self.spec.fixed_bytes
        if sum(one.nbytes for one in gather([self, *awake])) <= budget:
            return
        self._merge_means(budget - 4 * self.spec.d * len(gather(awake)))
        everything = gather([self, *awake])
        n_new += sum(memory.age for memory in awake)
        share = max(self.config.kappa, n_new / max(1, n_new + self.age))
        new = np.array([i >= len(self.components) for i in range(len(everything))])
        new |= [(one.task, one.label) in fresh for one in everything]
        times = {**self.tasks, **{task: info for m in awake for task, info in m.tasks.items()}}
        weights = np.array([float(times[one.task].times) for one in everything])
        for part, amount in ((new, share), (~new, 1 - share)):
            if part.any():
                weights[part] *= amount / weights[part].sum()
        blocks = fit_blocks(
            budget - 4 * self.spec.d * len(everything),
            weights,
            [len(one.scatter) for one in everything],
        )
        small = iter([_cut(one, q) for one, q in zip(everything, blocks, strict=True)])
        for memory in (self, *awake):
            memory.components = tuple(next(small) for _ in memory.components)

    def _merge_means(self, budget: int) -> None:
        """Merge components of the same class, oldest first, until their means fit."""
        components = list(self.components)
        while 4 * self.spec.d * len(components) > budget:
            labels = [one.label for one in components]
            index = next((i for i, label in enumerate(labels) if label in labels[i + 1 :]), None)
            if index is None:
                needed = 4 * self.spec.d * len(components) - budget + self.config.memory_budget
                warnings.warn(
                    f"memory_budget is {self.config.memory_budget:,}; one mean per class needs "
                    f"{needed:,} bytes, so the memory grows beyond it",
                    stacklevel=2,
                )
                break
            old = components.pop(index)
            into = labels.index(old.label, index + 1) - 1
            self._pool_scatter(gram(old.between(components[into])[None]), 0)
            components[into] = components[into].merge(old, self.spec.code)
        self.components = tuple(components)

    # Answers

    def joint_scores(
        self, x: Any, others: Sequence[Self]
    ) -> tuple[Doubles, NDArray[np.int64], NDArray[np.int64]]:
        """log p(x, component) up to a term that all share; the class and the memory of each component."""
        memories = [self, *others]
        components = gather(memories)
        labels = np.array([one.label for one in components], dtype=np.int64)
        owner = np.repeat(np.arange(len(memories)), [len(one.components) for one in memories])
        x = np.asarray(x, np.float64)
        if not components:
            return np.zeros((len(x), 0)), labels, owner
        frozen = self._frozen()
        parts = [
            score_parts(x[at : at + CHUNK], components, self.pool, frozen, self.spec)
            for at in range(0, max(1, len(x)), CHUNK)
        ]
        tied, own = (np.concatenate(part) for part in zip(*parts, strict=True))
        return tied + frozen.setting[1] * own, labels, owner

    def predict_proba(self, x: Any) -> Doubles:
        """Class probabilities by the components of this memory."""
        return self.joint_proba(x, ())

    def joint_proba(self, x: Any, others: Sequence[Self]) -> Doubles:
        """Class probabilities by the components of all these memories together."""
        scores, labels, _ = self.joint_scores(x, others)
        by_class = class_scores(scores, labels, self.n_classes)
        return softmax(by_class / self._frozen().temperature)

    def recognition_loss(self, x: Any) -> Doubles:
        """Minus the log of the summed component scores."""
        scores = self.joint_scores(x, ())[0]
        found: Doubles = -np.logaddexp.reduce(scores, axis=1, initial=-np.inf)
        return found

    def newest_task(self, label: int) -> str | None:
        """The task of the component of a class that was met last."""
        return next((one.task for one in reversed(self.components) if one.label == label), None)

    def recall(self, x: Any) -> Batch:
        """The inputs as their code remembers them, labeled by this memory."""
        return Batch(self.decode(np.asarray(x, np.float64)), self.predict_proba(x).argmax(axis=1))

    def sample(self, n: int, rng: SeedStream) -> Batch:
        """Draw a component by its number of rows, then features by its Gaussian, decoded to inputs."""
        generator = rng.next_numpy()
        counts = np.array([one.n for one in self.components], dtype=np.float64)
        chosen = generator.choice(len(counts), n, p=counts / counts.sum())
        noise = generator.standard_normal((n, self.spec.d))
        x = np.empty_like(noise)
        for index in np.unique(chosen):
            rows = chosen == index
            x[rows] = self._draw(self.components[index], noise[rows])
        return Batch(self.decode(x), np.array([self.components[i].label for i in chosen]))

    def _draw(self, one: Component, noise: Doubles) -> Doubles:
        """Features of a component: its own covariance in the code, the pooled one outside of it."""
        frozen = self._frozen()
        factor, unit = self.pool._factor(frozen.setting[0])
        apart = noise @ (np.tril(factor[0]) / unit).T
        q = len(one.scatter)
        if q:
            root, code = frozen.root[:q, :q], self.spec.code[:, :q]
            white = solve_triangular(root, encode(apart, code).T, lower=True)
            _, inverse, _ = own_factor(one, frozen, self.spec.code)
            own = root @ solve_triangular(inverse.T, white, lower=True)
            covariance = self.pool.covariance(frozen.setting[0])
            gain = cho_solve(
                (root, True), code.T @ covariance
            )  # regression of features on the code
            apart = apart + (own.T - encode(apart, code)) @ gain
        found: Doubles = one.mean + apart
        return found

    def decode(self, x: Doubles) -> NDArray[Any]:
        """Inputs of features: exact for tables, linear in the code for images."""
        if self.spec.invert is not None:
            return self.spec.invert(x)
        if self.pool.inputs is None:
            raise UsageError("inputs are too large to be generated; use smaller images")
        code = self.spec.code[:, :DECODED]
        means = np.stack([one.mean for one in self.components]).astype(np.float64)
        counts = np.array([one.n for one in self.components], dtype=np.float64)
        between = np.sqrt(counts)[:, None] * (means - (counts @ means) / counts.sum())
        total = code_covariance(self.pool.scatter + gram(between), code)
        return self.pool.inputs.decode(encode(x, code), total)

    has_latents = True

    def encode(self, x: Any) -> NDArray[np.float32]:
        """The code of features, the latent space of this memory, shape (n, q)."""
        return encode(np.asarray(x, np.float64), self.spec.code).astype(np.float32)

    @property
    def n_seen(self) -> int:
        """Rows learned."""
        return self.age

    def _frozen(self) -> Frozen:
        """What the last sleep froze; before the first sleep, what it would freeze now."""
        if self.pool.frozen is not None:
            return self.pool.frozen
        setting = self.pool.choose(self.config)
        key = ("frozen", setting, self.pool.temperature())
        if key not in self.pool._cache:
            self.pool._cache[key] = self.pool.freeze(setting, self.spec.code)
        found: Frozen = self.pool._cache[key]
        return found

    def grow(self, n_classes: int) -> None:
        self.n_classes = n_classes

    def nbytes(self, *, at_capacity: bool = False) -> int:
        """Bytes of components and, in the long-term memory, of the pool."""
        own = sum(one.nbytes for one in self.components)
        return own + (self.spec.fixed_bytes if self.role == "ltm" else 0)

    def buffer_bytes(self) -> int:
        return 0

    # State

    def state(self) -> State:
        state: State = {
            "tasks": self.tasks.state(),
            "age": self.age,
            "n_classes": self.n_classes,
            "components": [
                {
                    "task": one.task,
                    "label": one.label,
                    "n": one.n,
                    "mean": one.mean,
                    "scatter": pack(one.scatter),
                }
                for one in self.components
            ],
        }
        if self.role == "ltm":
            pool = self.pool
            state["pool"] = {
                "scatter": pack(pool.scatter),
                "n": pool.n,
                "right": pool.right,
                "surprise": pool.surprise,
                "untested": pool.untested,
            }
            if pool.inputs is not None:
                state["pool"]["inputs"] = dict(vars(pool.inputs))
            if pool.frozen is not None:
                state["pool"]["frozen"] = {
                    "setting": list(pool.frozen.setting),
                    "temperature": pool.frozen.temperature,
                    "code_covariance": pack(pool.frozen.code_covariance),
                }
        return state

    def load_state(self, state: State) -> None:
        self.tasks = TaskLog.from_state(typed(state, "tasks", list), self.n_classes)
        self.age = whole(state, "age")
        self.components = tuple(
            _load_component(one, self.spec, self.n_classes)
            for one in typed(state, "components", list)
        )
        if {one.task for one in self.components} - self.tasks.keys():
            raise ValueError("a component belongs to a task that is not in the log")
        if len({(one.task, one.label) for one in self.components}) < len(self.components):
            raise ValueError("two components have the same task and class")
        if self.role == "ltm":
            self.pool = _load_pool(typed(state, "pool", dict), self.spec)


@dataclass(frozen=True)
class MixtureSpec:
    """What mixture memories are made from: the number of features, and options."""

    config: Config
    d: int
    """Features."""
    n_inputs: int = 0
    """Values of an input that dreams are decoded to; 0 where `invert` is given or inputs are too large."""
    invert: Callable[[Doubles], NDArray[Any]] | None = None
    """Inputs of features, where that is exact."""

    @property
    def shape(self) -> tuple[int]:
        return (self.d,)

    @property
    def q(self) -> int:
        """Numbers in the code."""
        return self.d if self.d <= FULL_CODE else min(self.d, self.config.code_dim)

    @property
    def code(self) -> Doubles:
        """U, shape (d, q): orthonormal, from `code_seed`; an order of the features if q = d."""
        return make_code(self.d, self.q, self.config.code_seed)

    @property
    def fixed_bytes(self) -> int:
        """Bytes of the pool: S, St and counts."""
        counts = 8 * (len(SETTINGS) + len(TEMPERATURES))
        decoder = 8 * (self.n_inputs * (DECODED + 1) + DECODED) if self.n_inputs else 0
        return _triangle_bytes(self.d, 8) + _triangle_bytes(self.q, 8) + counts + decoder

    def empty_inputs(self) -> CrossMoment | None:
        """The sums of a decoder, before any row."""
        if not self.n_inputs:
            return None
        p, r = self.n_inputs, min(DECODED, self.q)
        return CrossMoment(0, np.zeros(p), np.zeros(r), np.zeros((p, r)))

    def check(self) -> None:
        """Refuse a budget that the pool alone exceeds."""
        least = self.fixed_bytes + 4 * self.d
        if least > self.config.memory_budget:
            raise UsageError(
                f"memory_budget is {self.config.memory_budget:,}; {self.d:,} features need at least "
                f"{least:,} bytes; raise it, or use fewer features"
            )


@cache
def make_code(d: int, q: int, seed: int) -> Doubles:
    """An orthonormal (d, q) matrix that depends on the seed only."""
    rng = np.random.default_rng([seed, 6])
    if q == d:
        return np.eye(d)[:, rng.permutation(d)]
    found, _ = np.linalg.qr(rng.standard_normal((d, q)))
    return found


def encode(x: Doubles, code: Doubles) -> Doubles:
    """The code of features, shape (n, q)."""
    product: Doubles = x @ code
    return product


def code_covariance(covariance: Doubles, code: Doubles) -> Doubles:
    """U' S₀ U, symmetric to the bit."""
    product = code.T @ covariance @ code
    return (product + product.T) / 2


def gather(memories: Iterable[MixtureMemory]) -> list[Component]:
    return [one for memory in memories for one in memory.components]


def score_parts(
    x: Doubles, components: Sequence[Component], pool: Pool, frozen: Frozen, spec: MixtureSpec
) -> tuple[Doubles, Doubles]:
    """Tied scores L and own corrections O − T of each component, both (n, components)."""
    weights, bias = pool.weights(components, frozen.setting[0])
    tied = x @ weights + bias
    own = np.zeros_like(tied)
    white = solve_triangular(frozen.root, encode(x, spec.code).T, lower=True, check_finite=False).T
    for index, one in enumerate(components):
        if len(one.scatter):
            center, inverse, log_det = own_factor(one, frozen, spec.code)
            error = white[:, : len(center)] - center
            spread = error @ inverse
            distance = np.einsum("nq,nq->n", spread, spread) - np.einsum("nq,nq->n", error, error)
            own[:, index] = -0.5 * (distance + log_det)
    return tied, own


def own_factor(one: Component, frozen: Frozen, code: Doubles) -> Factor:
    """The factor of a component, computed once.

    In whitened code St is the identity, and the covariance is α L⁻¹ C L⁻ᵀ + (1 − α) I.
    """
    kept = frozen.factors.get(one)
    if kept is None:
        q = len(one.scatter)
        root, mean = frozen.root[:q, :q], encode(one.mean.astype(np.float64)[None], code)[0, :q]
        center = solve_triangular(root, mean, lower=True)
        half = solve_triangular(root, one.scatter.astype(np.float64) / one.n, lower=True)
        whitened = solve_triangular(root, half.T, lower=True)
        trust = TRUST * one.n / (one.n + q)
        covariance = trust * (whitened + whitened.T) / 2 + (1 - trust) * np.eye(q)
        factor = np.linalg.cholesky(covariance)
        inverse = solve_triangular(factor, np.eye(q), lower=True).T
        log_det = 2 * float(np.log(np.diag(factor)).sum())
        kept = frozen.factors[one] = (center, np.ascontiguousarray(inverse), log_det)
    return kept


def _surprise(scores: Doubles, y: NDArray[np.int64]) -> float:
    """Sum of −log p(right class)."""
    p = softmax(scores)[np.arange(len(y)), y]
    return float(-np.log(np.maximum(p, 1e-12)).sum())


def _cut(one: Component, q: int) -> Component:
    """The component with the leading block q × q of its scatter, in float32."""
    block = np.ascontiguousarray(one.scatter[:q, :q], dtype=np.float32)
    return replace(one, mean=one.mean.astype(np.float32), scatter=block)


def class_scores(scores: Doubles, labels: NDArray[np.int64], n_classes: int) -> Doubles:
    """Log-sum-exp over the components of each class, shape (n, n_classes); −∞ for classes without any."""
    found = np.full((len(scores), n_classes), -np.inf)
    for label in np.unique(labels):
        found[:, label] = np.logaddexp.reduce(scores[:, labels == label], axis=1)
    return found


def _triangle_bytes(q: int, itemsize: int) -> int:
    return q * (q + 1) // 2 * itemsize


def fit_blocks(budget: float, weights: Doubles, sizes: Sequence[int]) -> list[int]:
    """Sizes q' of scatters that fit a budget: bytes by weight, but no component gets more than it has.

    >>> fit_blocks(4 * (10 + 3), np.array([1.0, 1.0]), [4, 2])
    [4, 2]
    >>> fit_blocks(40, np.array([1.0, 3.0]), [10, 10])
    [1, 3]
    """
    caps = np.array([_triangle_bytes(q, 4) for q in sizes], dtype=np.float64)
    given, left = np.zeros(len(caps)), max(0.0, budget)
    for _ in range(len(caps)):  # each round fills some component or is the last
        part = np.where(given < caps, weights, 0.0)
        if left <= 0 or not part.any():
            break
        step = np.minimum(left * part / part.sum(), caps - given)
        given, left = given + step, left - float(step.sum())
    roots = (np.sqrt(1 + 2 * given + 1e-6) - 1) / 2  # 4 · q (q + 1) / 2 bytes
    blocks: list[int] = np.minimum(np.floor(roots), sizes).astype(int).tolist()
    return blocks


def _load_array(state: State, name: str, shape: tuple[int, ...], kinds: tuple[type, ...]) -> Any:
    array = np.array(to_numpy(state[name]))
    if array.shape != shape or array.dtype.type not in kinds:
        raise ValueError(f"{name} is {array.dtype} of shape {array.shape}; it must be {shape}")
    return array


def _load_component(state: State, spec: MixtureSpec, n_classes: int) -> Component:
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
    return Component(
        typed(state, "task", str),
        label,
        whole(state, "n", 1),
        _load_array(state, "mean", (spec.d,), floats),
        scatter.astype(packed.dtype),
    )


def _load_pool(state: State, spec: MixtureSpec) -> Pool:
    doubles = (np.float64,)
    triangle = _load_array(state, "scatter", (spec.d * (spec.d + 1) // 2,), doubles)
    right = _load_array(state, "right", (len(SETTINGS),), (np.int64,))
    surprise = _load_array(state, "surprise", (len(TEMPERATURES),), doubles)
    scatter = unpack(triangle, spec.d)
    _check_scatter(scatter)
    if (right < 0).any() or (surprise < 0).any():
        raise ValueError("a count of right answers is negative")
    frozen, inputs = None, spec.empty_inputs()
    if "frozen" in state:
        frozen = _load_frozen(typed(state, "frozen", dict), spec)
    if inputs is not None:
        sums = typed(state, "inputs", dict)
        shapes = {name: getattr(inputs, name).shape for name in ("mean_x", "mean_z", "scatter")}
        arrays = {name: _load_array(sums, name, shape, doubles) for name, shape in shapes.items()}
        inputs = CrossMoment(whole(sums, "n"), **arrays)
    n, untested = whole(state, "n"), whole(state, "untested")
    return Pool(scatter, n, right, surprise, untested, inputs, frozen)


def _load_frozen(state: State, spec: MixtureSpec) -> Frozen:
    setting = typed(state, "setting", list)
    right = len(setting) == 2 and all(type(one) is float and 0 <= one <= 1 for one in setting)
    temperature = typed(state, "temperature", float)
    if not right or not temperature >= 1:
        raise ValueError(f"setting {setting!r} and temperature {temperature!r} are not possible")
    size = (spec.q * (spec.q + 1) // 2,)
    covariance = unpack(_load_array(state, "code_covariance", size, (np.float64,)), spec.q)
    try:
        np.linalg.cholesky(covariance)
    except np.linalg.LinAlgError as error:
        raise ValueError("code_covariance is not positive") from error
    return Frozen((setting[0], setting[1]), temperature, covariance)


def _check_scatter(scatter: Doubles) -> None:
    """A scatter has no negative variance, and no covariance larger than its variances allow."""
    variance = np.diag(scatter)
    bound = np.sqrt(np.maximum(variance, 0))
    slack = 1e-6 * (float(variance.max()) if variance.size else 0.0) + 1e-300
    if (variance < 0).any() or (
        np.abs(scatter) > np.outer(bound, bound) * (1 + 1e-6) + slack
    ).any():
        raise ValueError("a scatter is not positive")
