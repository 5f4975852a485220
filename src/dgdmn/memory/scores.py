"""Scores of features by the components of a mixture memory. Formulas: docs/mixture.md."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

from dgdmn.core.table import MAX_VALUE
from dgdmn.memory.budget import merge_means
from dgdmn.memory.code import MixtureSpec, encode, reference_setting
from dgdmn.memory.components import Component, stack_means
from dgdmn.memory.gaussian import Doubles, gram
from dgdmn.memory.pool import Factor, FrozenSettings, Pool
from dgdmn.memory.unknown import relative_scores

OWN_SHARE = 0.6
"""Share of a component's own scatter in its covariance (α) if it has many rows."""
CHUNK = 1_000
"""Rows scored at a time."""


def score_components(
    x: Doubles,
    components: Sequence[Component],
    pool: Pool,
    frozen: FrozenSettings,
    spec: MixtureSpec,
) -> tuple[Doubles, Doubles]:
    """Total scores L + g (O − T) of each component, and their tied part L, both (n, components)."""
    x = np.clip(x, -MAX_VALUE, MAX_VALUE)  # larger values do not change the result
    if not components:
        return np.zeros((len(x), 0)), np.zeros((len(x), 0))
    parts = [
        score_parts(x[start : start + CHUNK], components, pool, frozen, spec)
        for start in range(0, max(1, len(x)), CHUNK)
    ]
    tied, own = (np.concatenate(part) for part in zip(*parts, strict=True))
    return tied + frozen.setting[1] * own, tied


def score_parts(
    x: Doubles,
    components: Sequence[Component],
    pool: Pool,
    frozen: FrozenSettings,
    spec: MixtureSpec,
) -> tuple[Doubles, Doubles]:
    """Tied scores L and own corrections O − T of each component, both (n, components)."""
    weights, bias = pool.weights(components, frozen.setting[0])
    tied = x @ weights + bias
    own = np.zeros_like(tied)
    code = encode(x, spec.code)
    white = code @ frozen.whitening.T
    for index, component in enumerate(components):
        if q := len(component.scatter):
            center, white_center, inverse, log_det = own_factor(component, frozen, spec.code)
            own_error = (code[:, :q] - center) @ inverse.T
            tied_error = white[:, :q] - white_center
            distance = np.einsum("nq,nq->n", own_error, own_error)
            distance -= np.einsum("nq,nq->n", tied_error, tied_error)
            own[:, index] = -0.5 * (distance + log_det)
    return tied, own


def own_factor(component: Component, frozen: FrozenSettings, code: Doubles) -> Factor:
    """The factor of a component, computed once. Its covariance is α C + (1 − α) St."""
    kept = frozen.factors.get(component)
    if kept is None:
        q = len(component.scatter)
        root, whitening = frozen.root[:q, :q], frozen.whitening[:q, :q]
        center = encode(component.mean.astype(np.float64)[None], code)[0, :q]
        own_share = OWN_SHARE * component.n / (component.n + q)
        covariance = (1 - own_share) * frozen.code_covariance[:q, :q]
        covariance += (own_share / component.n) * component.scatter.astype(np.float64)
        factor, failed = lapack.dpotrf(covariance, lower=1, clean=1)
        if failed:  # float32 of a scatter that whitening would magnify
            whitened = whitening @ covariance @ whitening.T
            values, vectors = np.linalg.eigh((whitened + whitened.T) / 2)
            values = np.maximum(values, 1 - own_share)
            factor = root @ np.linalg.cholesky((vectors * values) @ vectors.T)
        inverse, _ = lapack.dtrtri(factor, lower=1)
        log_det = 2 * float(np.log(np.diag(factor) / np.diag(root)).sum())
        kept = frozen.factors[component] = (center, whitening @ center, inverse, log_det)
    return kept


def size_terms(
    components: Sequence[Component], pool: Pool, shrinkage: float, n_classes: int
) -> Doubles:
    """What the score of each class gains because the mean of few rows is noisy, shape (n_classes,).

    The mean of n rows lies tr(S₀⁻¹ S) / n farther from any row than the mean of the class does, so a class of few
    rows would lose to one of many.
    """
    labels = [component.label for component in components]
    rows = np.bincount(labels, [component.n for component in components], minlength=n_classes)
    half = 0.5 * pool.effective_dimension(shrinkage)
    return np.divide(half, rows, out=np.zeros(n_classes), where=rows > 0)


class ComponentSet(NamedTuple):
    """Components that are scored together, with their pool and frozen settings."""

    components: Sequence[Component]
    pool: Pool
    frozen: FrozenSettings

    @property
    def labels(self) -> NDArray[np.int64]:
        """The class of each component."""
        return np.array([component.label for component in self.components], dtype=np.int64)


def component_sets(tasks: ComponentSet, spec: MixtureSpec) -> list[ComponentSet]:
    """The components of classes within tasks and, if a class has several tasks, those of whole classes.

    A class within a task knows the rows of its task best. The whole class knows how tasks differ, so it says more
    about rows of a task that is still to come.
    """
    whole = merge_tasks(tasks.components, tasks.pool, spec)
    return [tasks] if whole is None else [tasks, whole]


def merge_tasks(
    components: Sequence[Component], pool: Pool, spec: MixtureSpec
) -> ComponentSet | None:
    """Each class as one component over all its tasks; None if no class has several tasks.

    The pool gains the scatter between the tasks of a class. Everything follows from the sums: nothing is saved.
    """
    if len({component.label for component in components}) == len(components):
        return None
    key = ("whole classes", tuple(components))
    if key not in pool._cache:
        merged, between = merge_means(components, 0, spec.code)
        wide = pool.add_scatter(gram(np.stack(between)))
        frozen = wide.freeze(choose_setting(merged, wide, spec), spec.code)
        pool._cache[key] = ComponentSet(merged, wide, frozen)
    level: ComponentSet = pool._cache[key]
    return level


def choose_setting(
    components: Sequence[Component], pool: Pool, spec: MixtureSpec
) -> tuple[float, float]:
    """λ and g. With few rows a component's covariance is mostly the pooled one, so g is 1."""
    few = sum(component.n for component in components) < spec.q * len(components)
    return pool.choose(spec.config, 1.0 if few else 0.35)


def score_classes(
    x: Doubles, levels: Sequence[ComponentSet], spec: MixtureSpec, n_classes: int
) -> Doubles:
    """The mean score of each class over the component sets, shape (n, n_classes)."""
    scores = [
        class_scores(score_components(x, *level, spec)[0], level.labels, n_classes)
        for level in levels
    ]
    return sum(scores[1:], scores[0]) / len(scores)


def class_scores(scores: Doubles, labels: NDArray[np.int64], n_classes: int) -> Doubles:
    """Log-mean-exp over the components of each class, shape (n, n_classes); −∞ for classes without any."""
    by_class = np.full((len(scores), n_classes), -np.inf)
    if len(set(labels.tolist())) == len(labels):  # the usual case, and much faster
        by_class[:, labels] = scores
        return by_class
    for label in np.unique(labels):
        own = scores[:, labels == label]
        by_class[:, label] = np.logaddexp.reduce(own, axis=1) - np.log(own.shape[1])
    return by_class


def score_against_background(
    scores: Doubles, tied: Doubles, components: Sequence[Component], pool: Pool, spec: MixtureSpec
) -> Doubles:
    """How much better the best component explains each row than the background does, shape (n,).

    The scores are those of the reference setting.
    """
    counts, means = stack_means(components)
    weights = pool.weights(components, reference_setting(spec.config)[0])[0]
    return relative_scores(scores, tied, means, weights, counts)
