"""Scores of features by the components of a mixture memory. Formulas: docs/mixture.md."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

from dgdmn.memory.code import MixtureSpec, encode, reference_setting
from dgdmn.memory.components import MAX_FEATURE, Component, stack_means
from dgdmn.memory.gaussian import Doubles
from dgdmn.memory.pool import Factor, Frozen, Pool
from dgdmn.memory.unknown import relative_scores

OWN_SHARE = 0.6
"""Share of a component's own scatter in its covariance (α) if it has many rows."""
CHUNK = 1_000
"""Rows scored at a time."""


def score_components(
    x: Doubles, components: Sequence[Component], pool: Pool, frozen: Frozen, spec: MixtureSpec
) -> tuple[Doubles, Doubles]:
    """Total scores L + g (O − T) of each component, and their tied part L, both (n, components)."""
    x = np.clip(x, -MAX_FEATURE, MAX_FEATURE)  # farther away is not different
    if not components:
        return np.zeros((len(x), 0)), np.zeros((len(x), 0))
    parts = [
        score_parts(x[start : start + CHUNK], components, pool, frozen, spec)
        for start in range(0, max(1, len(x)), CHUNK)
    ]
    tied, own = (np.concatenate(part) for part in zip(*parts, strict=True))
    return tied + frozen.setting[1] * own, tied


def score_parts(
    x: Doubles, components: Sequence[Component], pool: Pool, frozen: Frozen, spec: MixtureSpec
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


def own_factor(component: Component, frozen: Frozen, code: Doubles) -> Factor:
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


def class_scores(scores: Doubles, labels: NDArray[np.int64], n_classes: int) -> Doubles:
    """Log-sum-exp over the components of each class, shape (n, n_classes); −∞ for classes without any."""
    by_class = np.full((len(scores), n_classes), -np.inf)
    if len(set(labels.tolist())) == len(labels):  # the usual case, and much faster
        by_class[:, labels] = scores
        return by_class
    for label in np.unique(labels):
        by_class[:, label] = np.logaddexp.reduce(scores[:, labels == label], axis=1)
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
