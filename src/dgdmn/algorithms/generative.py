"""What DGDMN and DGR have in common: they sleep, sample and reconstruct."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from numbers import Integral
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from dgdmn.algorithms.checks import Array, Weights, check_labels, check_priors, check_same_kind
from dgdmn.algorithms.closed_form import fill_columns, limit_threads
from dgdmn.algorithms.estimator import WeightedClassifier, exclusive_learning, seed_stream
from dgdmn.algorithms.fitted import EstimatorInfo, FittedState, Inputs, Memory
from dgdmn.algorithms.network import NetworkClassifier
from dgdmn.config import Config
from dgdmn.config.registry import generator_info, load_target
from dgdmn.core.batch import Batch
from dgdmn.core.errors import UsageError
from dgdmn.core.rng import SeedStream
from dgdmn.core.text import count_noun, join_names
from dgdmn.features import FeatureFunction, FrontEnd
from dgdmn.memory.code import MixtureSpec
from dgdmn.memory.components import Component
from dgdmn.memory.dual import DualMemory
from dgdmn.memory.held_out import PARTS, TEST_EVERY
from dgdmn.memory.mixture import MixtureMemory, gather
from dgdmn.memory.protocols import GenerativeMemory, MemoryFactory, Role, UserMemoryFactory
from dgdmn.memory.unknown import MIN_TESTED
from dgdmn.storage import State, bytes_in

if TYPE_CHECKING:
    from dgdmn.networks.factory import NetworkFactory
    from dgdmn.networks.protocols import GeneratorFactory


@dataclass(eq=False, repr=False, kw_only=True)
class GenerativeClassifier(WeightedClassifier, NetworkClassifier):
    """A classifier with a generative memory."""

    n_max: int | None = None
    kappa: float | None = None
    kappa_per: Literal["replay", "task"] | None = None
    age: Literal["seen", "n_total"] | None = None
    reconstruct_inputs: Literal["new", "all", "none"] | None = None
    latent_dim: int | None = None
    generator_layers: tuple[int, ...] | None = None
    generator_convolutions: tuple[int, ...] | None = None
    generator_epochs: int | None = None
    learner_epochs: int | None = None
    beta: float | None = None
    prior_components: int | None = None
    resample_dreams: bool | None = None
    latent_noise: float | None = None
    predict_with: Literal["learner", "learner+prior"] | None = None
    memory_budget: int | None = None
    code_dim: int | None = None
    own_covariance: float | None = None
    priors: Literal["uniform", "empirical"] | Mapping[Any, float] | None = None
    """Class priors of the mixture memory: `uniform`, `empirical` (rows of a class), or {label: weight}; other
    labels weigh 1."""
    shrinkage: float | None = None
    features: str | FeatureFunction | None = None
    """Front end of the mixture memory: `auto`, `gabor`, `relu`, `none`, or a function (docs/features.md)."""
    code_seed: int | None = None
    image_shape: tuple[int, ...] | None = None
    """(height, width) or (height, width, channels) of flat rows that are images, for the mixture memory."""
    scale: Any = None
    """(center, spread) of the columns for the features `relu`; by default those of the first call."""
    generator: str | GeneratorFactory | None = None
    """`mixture`, `vae`, the name of a registered generator, or a factory (`dgdmn.networks.protocols`)."""
    memory: UserMemoryFactory | None = None
    """Makes your own generative memories (`dgdmn.memory.protocols`) instead of the deep one."""

    _long_term_only: ClassVar[bool] = False
    """Whether the long-term memory learns each task itself, without a short-term memory."""

    def _new_memory(self, factory: Any, n_classes: int, rng: SeedStream) -> Memory:
        make = self._memory_factory(factory)
        return DualMemory(make, factory.config, n_classes, rng, long_term_only=self._long_term_only)

    def awake_tasks(self) -> tuple[str, ...]:
        """The tasks that the short-term memory holds and a sleep would consolidate; none in DGR."""
        check_is_fitted(self)
        return tuple(held.task for held in dual_of(self.fitted_).stm.awake)

    @property
    def not_applicable(self) -> frozenset[str]:
        """The mixture memory has no epochs and no randomness."""
        mixture = self._uses_mixture(self.resolve_config())
        return frozenset({"epochs", "randomness"} if mixture else ())

    def sleep(self) -> Self:
        """Consolidate now what the short-term memory holds."""
        check_is_fitted(self)
        with self._limits(), exclusive_learning(self):
            fitted = self.fitted_.snapshot()
            fitted.memory.sleep(self._context(fitted))
        return self._commit(fitted)

    def sample(self, n: int = 1, random_state: Any = None) -> tuple[NDArray[np.float32], Array]:
        """Generate n samples of the long-term memory: inputs in the shape and range learned, and labels.

        Sampling does not affect what is learned later.
        """
        fitted, long_term = self.require_long_term()
        if not isinstance(n, Integral) or n < 1:
            raise UsageError(f"n is {n!r}; it must be a whole number of at least 1")
        rng = fitted.rng.side_stream() if random_state is None else seed_stream(random_state)
        with self._limits():
            batch = long_term.sample(int(n), rng)
            units = np.array(batch.y)
            unnamed = units >= len(fitted.labels)  # an output that no class uses yet
            if unnamed.any():
                answers = long_term.predict_proba(batch.x[unnamed])
                units[unnamed] = answers[:, : len(fitted.labels)].argmax(axis=1)
        return fitted.inputs.invert(batch.x, fitted.shape), np.asarray(fitted.labels)[units]

    def reconstruct(self, X: ArrayLike) -> NDArray[np.float32]:
        """X as the long-term memory models it, in the range learned (uint8 as floats in [0, 1])."""
        fitted, long_term = self.require_long_term()
        with self._limits():
            rows = long_term.recall(self._to_inputs(X)).x
        return fitted.inputs.invert(rows, fitted.shape)

    def has_latents(self) -> bool:
        """Whether the long-term memory has a latent space, or a code."""
        check_is_fitted(self)
        return bool(getattr(dual_of(self.fitted_).ltm, "has_latents", False))

    def has_dreams(self) -> bool:
        """Whether the long-term memory can generate inputs; inputs that are too large are never generated."""
        check_is_fitted(self)
        return bool(getattr(dual_of(self.fitted_).ltm, "has_dreams", True))

    def latents(self, X: ArrayLike) -> NDArray[np.float32]:
        """The means of q(z | x) in the latent space of the long-term memory, or its code, shape (n, size)."""
        long_term = self.require_long_term()[1]
        if not self.has_latents():
            name = type(getattr(long_term, "generator", long_term)).__name__
            raise UsageError(f"{name} has no latents; use a generator that is a LatentGenerator")
        with self._limits():
            found: NDArray[np.float32] = long_term.encode(self._to_inputs(X))  # type: ignore[attr-defined]
        return found

    def predict_long_term(self, X: ArrayLike) -> Array:
        """The labels that the long-term memory alone would give."""
        long_term = self.require_long_term()[1]
        return self._most_likely(self._predict_with(X, lambda _, x: long_term.predict_proba(x)))

    def score_samples(self, X: ArrayLike) -> NDArray[np.float64]:
        """The log density of the features of X if all components are equally likely, shape (n,).

        A component is a class within a task. No constant is left out: the density is normalized if g, the weight
        of a component's own covariance, is 1, but not if g < 1. Only the mixture memory has one.
        """
        check_is_fitted(self)
        ltm, *awake = self._mixtures(self.fitted_.snapshot(), "score samples")
        with self._limits():
            return ltm.log_density(self._to_inputs(X), awake)

    def unknown(self, X: ArrayLike, rate: float = 0.01) -> NDArray[np.bool_]:
        """Whether each row is unlike anything learned, shape (n,); `rate` is the share of false alarms.

        Thresholds come from held-out rows (docs/decisions/unknown.md).
        Only the mixture memory can; the deep one has `recognize`.
        """
        check_is_fitted(self)
        if not 0 < rate < 1:
            raise UsageError(f"rate is {rate!r}; it must lie between 0 and 1, both excluded")
        ltm, *awake = self._mixtures(self.fitted_.snapshot(), "detect unknown inputs")
        with self._limits():
            share = ltm.score_quantile(self._to_inputs(X), awake)
        if share is None:
            left = max(PARTS, TEST_EVERY - ltm.pool.untested)
            second = " and a second class" if len(gather([ltm, *awake])) < 2 else ""
            advice = f"learn {count_noun(left, 'more row')}{second}"
            if tested := ltm.count_tested(awake):
                advice = f"{tested} of {MIN_TESTED} rows are tested, learn more in one call"
            raise UsageError(f"no input can be marked as unknown yet; {advice}")
        found: NDArray[np.bool_] = share < rate
        return found

    def answering_tasks(self, X: ArrayLike, task: str | None = None) -> Array:
        """For each row, the task whose component scores highest for the predicted label, shape (n,).

        Only the mixture memory keeps tasks apart.
        """
        check_is_fitted(self)
        ltm, *awake = self._mixtures(self.fitted_.snapshot(), "say which task answers")
        held = dict(zip(self.awake_tasks(), awake, strict=True))
        memories = [ltm, *awake]
        if task is not None and self.uses_task_names:
            memories = [held.get(str(task), ltm)]
        x = self.prepare(X)
        answers = self.predict_proba(x, task).argmax(axis=1)
        units = self.fitted_.sorted_labels()[1][answers]
        with self._limits():
            return np.array(memories[0].answering_tasks(x.inputs, memories[1:], units))

    def consolidated_tasks(self) -> tuple[str, ...]:
        """The tasks in the long-term memory; none before the first sleep."""
        check_is_fitted(self)
        return tuple(dual_of(self.fitted_).ltm.tasks)

    def forget(
        self, *, labels: Iterable[Any] | None = None, tasks: Iterable[str] | None = None
    ) -> Self:
        """Remove what was learned of these labels, of these tasks, or of these labels within these tasks.

        Only the mixture memory can. docs/mixture.md says what remains.
        """
        check_is_fitted(self)
        with self._limits(), exclusive_learning(self):
            fitted = self.fitted_.snapshot()
            memories = self._mixtures(fitted, "forget")
            chosen = None if labels is None else {fitted.index_of(label) for label in labels}
            named = None if tasks is None else {str(task) for task in tasks}
            if chosen is None and named is None:
                raise UsageError("forget needs labels or tasks")

            def matches(one: Component) -> bool:
                by_label = chosen is None or one.label in chosen
                return by_label and (named is None or one.task in named)

            components = [one for memory in memories for one in memory.components]
            known, pool = {one.task for one in components}, memories[0].pool
            for task in sorted((named or set()) - known):
                if any(task in memory.tasks for memory in memories):
                    reason = "was merged with later ones to fit memory_budget"
                    raise UsageError(f"task {task!r} {reason}; forget labels instead")
                raise UsageError(f"no task {task!r}; there are {join_names(sorted(known))}")
            left = {one.label for one in components if not matches(one)}
            if not left:
                raise UsageError("that would forget everything; begin with a new model instead")
            indices = range(len(fitted.labels))
            order = [index for index in indices if fitted.closed or index in left]
            if not any(matches(one) for one in components):
                raise UsageError("nothing of these labels was learned in these tasks")
            for memory in memories:  # each subtracts from the pool that they share
                memory.pool = pool
                memory.forget(matches, order)
                pool = memory.pool
            memories[0].pool = pool
            fitted.labels = [fitted.labels[index] for index in order]
            fitted.outputs = max(fitted.config.n_classes, len(order))
            dual_of(fitted).refresh(fitted.outputs, self._context(fitted))
        return self._commit(fitted)

    def _mixtures(self, fitted: FittedState, verb: str) -> list[MixtureMemory]:
        """The memories of a snapshot, the long-term memory first; only mixtures can forget and merge."""
        memories = dual_of(fitted).copy_memories()
        mixtures = [memory for memory in memories if isinstance(memory, MixtureMemory)]
        if len(mixtures) < len(memories):
            name = type(memories[0]).__name__
            raise UsageError(f"{name} cannot {verb}; only the mixture memory can (preset 'best')")
        return mixtures

    def info(self) -> EstimatorInfo:
        """A summary: algorithm, tasks, options, bytes."""
        check_is_fitted(self)
        memory, chosen = dual_of(self.fitted_), dict[str, float]()
        if isinstance(memory.ltm, MixtureMemory):
            ltm, *awake = self._mixtures(self.fitted_.snapshot(), "choose settings")
            chosen = ltm.chosen_settings(awake)
        return replace(
            super().info(),
            generative=True,
            by_task_name=self.uses_task_names,
            consolidated=dict(memory.ltm.tasks),
            age=getattr(memory.ltm, "age", 0),
            chosen=chosen,
        )

    def require_long_term(self) -> tuple[FittedState, GenerativeMemory]:
        check_is_fitted(self)
        long_term = dual_of(self.fitted_).ltm
        if not long_term.tasks:
            raise UsageError("the long-term memory is empty; call sleep(), or learn more tasks")
        return self.fitted_, long_term

    def _given_options(self) -> dict[str, Any]:
        """A generator or learner of the user's, or another registered one, belongs to the deep memory."""
        given = super()._given_options()
        if isinstance(self.priors, Mapping):
            given["priors"] = None  # `_begin` takes them
        if self.generator not in (None, "mixture") or self.learner is not None:
            given["generator"] = "vae"
        return given

    def _begin(self, X: Array, y: Array, classes: Any, weight: Weights = None) -> FittedState:
        fitted = super()._begin(X, y, classes, weight)
        given = {"value_range": self.value_range is not None, "device": self.device != "cpu"}
        for name in given if isinstance(fitted.inputs, FrontEnd) else ():
            if given[name]:
                advice = "leave it out, or use preset 'deep'"
                warnings.warn(f"{name} has no effect on the mixture memory; {advice}", stacklevel=4)
        if self.priors not in (None, "uniform") and not isinstance(fitted.inputs, FrontEnd):
            raise UsageError("priors are for the mixture memory (preset 'best'); leave them out")
        if isinstance(self.priors, Mapping):
            fitted.priors = check_priors(self.priors)
            for label in fitted.priors:
                check_same_kind(f"label {label!r} of priors", label, fitted.labels[0])
        return fitted

    def _commit(self, fitted: FittedState) -> Self:
        if fitted.priors:
            weights = np.ones(fitted.outputs)
            known = [fitted.priors.get(label, 1.0) for label in fitted.labels]
            weights[: len(known)] = known
            for memory in self._mixtures(fitted, "have priors"):
                memory.class_weights = weights
        return super()._commit(fitted)

    def _uses_mixture(self, config: Config) -> bool:
        return config.generator == "mixture" and self.memory is None

    def _has_features(self, fitted: FittedState | None) -> bool:
        """Whether the memory sees features, as a mixture does; None: whether it will."""
        return (
            isinstance(fitted.inputs, FrontEnd)
            if fitted
            else self._uses_mixture(self.resolve_config())
        )

    def _new_inputs(self, X: Array, config: Config, weight: Weights = None) -> Inputs:
        if not self._uses_mixture(config):
            return super()._new_inputs(X, config)
        features = self.features if callable(self.features) else config.features
        given: dict[str, Any] = {"image_shape": self.image_shape, "scale": self.scale}
        return FrontEnd.fit(X, features, seed=config.code_seed, weight=weight, **given)

    def _to_batch(self, fitted: FittedState, X: Array, y: Array, weight: Weights) -> Batch:
        if weight is not None and not isinstance(fitted.inputs, FrontEnd):
            needed = "the mixture memory (preset 'best')"
            raise UsageError(f"sample_weight needs {needed}; networks do not support it")
        return super()._to_batch(fitted, X, y, weight)

    def _fill(self, X: Array, fitted: FittedState | None) -> Array:
        return fill_columns(X, fitted) if self._has_features(fitted) else super()._fill(X, fitted)

    def _load_inputs(self, state: State, shape: tuple[int, ...], config: Config) -> Inputs:
        if not self._uses_mixture(config):
            return super()._load_inputs(state, shape, config)
        own = self.features if callable(self.features) else None
        return FrontEnd.restore(state.pop("features"), shape, own)

    def _factory(
        self, config: Config, inputs: Inputs, shape: tuple[int, ...]
    ) -> NetworkFactory | MixtureSpec:
        if isinstance(inputs, FrontEnd):
            kept = bytes_in(inputs.state())
            spec = MixtureSpec(config, inputs.n_features, inputs.n_decoded, inputs.inverse, kept)
            spec.check()
            return spec
        generator = self.generator
        if isinstance(generator, str):
            info = generator_info(generator)
            built_in = info.target == generator_info("vae").target
            generator = None if built_in else load_target(info.target)
        made: NetworkFactory = super()._factory(config, inputs, shape)
        return replace(made, own_generator=generator)

    def _memory_factory(self, factory: NetworkFactory | MixtureSpec) -> MemoryFactory:
        """A picklable factory of this estimator's memories: the user's class, mixtures, or deep ones."""
        if isinstance(factory, MixtureSpec):
            return partial(MixtureMemory, factory)
        if self.memory is not None:
            return partial(_make_own, self.memory, factory.shape)
        from dgdmn.memory.generative import DeepGenerativeMemory

        return partial(DeepGenerativeMemory, factory, until_known=not self.uses_task_names)

    def _empty_weights(self) -> AbstractContextManager[None]:
        return (
            nullcontext() if self._uses_mixture(self.resolve_config()) else super()._empty_weights()
        )

    @contextmanager
    def _limits(self) -> Iterator[None]:
        has_features = self._has_features(vars(self).get("fitted_"))
        with limit_threads(self.threads), nullcontext() if has_features else super()._limits():
            yield


def dual_of(fitted: FittedState) -> DualMemory:
    """The memory of a generative classifier."""
    assert isinstance(fitted.memory, DualMemory)
    return fitted.memory


def _make_own(
    own: UserMemoryFactory, shape: tuple[int, ...], role: Role, n_classes: int, rng: SeedStream
) -> GenerativeMemory:
    return own(shape, n_classes, role, rng)


def merge(a: GenerativeClassifier, b: GenerativeClassifier) -> GenerativeClassifier:
    """Merge two models into a new one. Both sleep first; the result equals one model that learned everything.

    Both need the mixture memory, the same front end, code and, for tables of few columns, the same scale.
    """
    for model in (a, b):
        check_is_fitted(model)
        if type(model) is not type(a):
            raise UsageError(f"cannot merge {type(a).__name__} with {type(model).__name__}")
    with a._limits(), exclusive_learning(a):
        ours, theirs = a.fitted_.snapshot(), b.fitted_.snapshot()
        a._mixtures(ours, "merge"), b._mixtures(theirs, "merge")
        _check_mergeable(a, b)
        labels = [*ours.labels, *(label for label in theirs.labels if label not in ours.labels)]
        check_labels(labels, ours.config.n_classes)
        places = [labels.index(label) for label in theirs.labels]
        outputs = max(ours.config.n_classes, len(labels))
        for model, fitted in ((a, ours), (b, theirs)):
            fitted.memory.sleep(model._context(fitted))
        mine, other = copy.copy(a._mixtures(ours, "merge")[0]), b._mixtures(theirs, "merge")[0]
        mine.add_memory(other.relabel(places))
        dual = dual_of(ours)
        dual.ltm = mine
        dual.refresh(outputs, a._context(ours))
        ours.labels, ours.outputs = labels, outputs
        ours.closed = ours.closed and theirs.closed
        merged: GenerativeClassifier = clone(a)
        merged.n_features_in_ = a.n_features_in_
        if hasattr(a, "feature_names_in_"):
            merged.feature_names_in_ = a.feature_names_in_
        if hasattr(a, "columns_"):
            merged.columns_ = a.columns_.merge(b.columns_)
        return merged._commit(ours)


def _check_mergeable(a: GenerativeClassifier, b: GenerativeClassifier) -> None:
    ours, theirs = a.fitted_, b.fitted_
    if ours.shape != theirs.shape:
        raise UsageError(f"cannot merge inputs of shape {ours.shape} with {theirs.shape}")
    names = [getattr(model, "feature_names_in_", np.array([])).tolist() for model in (a, b)]
    if names[0] != names[1] or getattr(a, "columns_", None) != getattr(b, "columns_", None):
        raise UsageError("cannot merge: the names or kinds of columns differ")
    for name in ("code_dim", "memory_budget", "priors"):
        one, other = getattr(ours.config, name), getattr(theirs.config, name)
        if one != other:
            raise UsageError(f"cannot merge: {name} is {one} in one model and {other} in the other")
    if ours.priors != theirs.priors:
        raise UsageError("cannot merge: the priors of the two models differ")
    one, other = ours.inputs.state()["features"], theirs.inputs.state()["features"]
    for name in ("kind", "seed", "center", "spread", "fingerprint"):
        if not np.array_equal(one.get(name, 0), other.get(name, 0)):
            what, advice = "front end or its code_seed", "create both with the same one"
            if name in ("center", "spread"):
                same = "the same scale=(center, spread) in Python"
                what, advice = "scale", f"create both with {same}, or with --features none"
            raise UsageError(f"cannot merge: the {what} of the features differs; {advice}")
