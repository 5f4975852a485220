"""Sums over rows and Gaussians made of them. Pure functions in float64; no torch.

All statistics are counts, means and scatters about means. They are exact: the order of rows and their split
into batches do not matter.
"""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

Doubles = NDArray[np.float64]
Indices = NDArray[np.int64]

MIN_RIDGE = 1e-9
"""Smallest ridge, as a share of a column's variance: it keeps Cholesky factors positive."""
MIN_RELATIVE_VARIANCE = 1e-14
"""A column with a smaller variance, as a share of its squared mean, is constant up to rounding."""
COUNT_TOLERANCE = 1e-9
"""A count that falls below this share of itself when rows are removed is zero up to rounding."""
MIN_SHRINKAGE = 1e-3
"""Least shrinkage of the covariance that fills missing values."""
FILL_PASSES = 3
"""Passes over the rows of a first call: each uses the moments of the rows that the pass before has filled."""


@dataclass(frozen=True, eq=False)
class Moments:
    """Count and mean of each group of rows, and one scatter of all rows about the means of their groups."""

    counts: Doubles
    """Rows of each group, shape (k,)."""
    means: Doubles
    """Shape (k, d); 0 for a group without rows."""
    scatter: Doubles
    """Σ (x − mean of its group)(x − mean of its group)', shape (d, d); or its diagonal, shape (d,)."""

    @classmethod
    def empty(cls, k: int, d: int, *, diagonal: bool = False) -> Self:
        return cls(np.zeros(k), np.zeros((k, d)), np.zeros(d if diagonal else (d, d)))

    def add(self, x: Doubles, group: Indices, weight: Doubles | None = None) -> Self:
        """The moments with more rows."""
        diagonal = self.scatter.ndim == 1
        return self.merge(moments_of(x, group, len(self.counts), weight, diagonal=diagonal))

    def merge(self, other: "Moments") -> Self:
        """The moments of both sets of rows together (Chan's formula)."""
        counts = self.counts + other.counts
        share = np.divide(other.counts, counts, out=np.zeros_like(counts), where=counts > 0)
        difference = other.means - self.means
        between = np.sqrt(self.counts * share)[:, None] * difference
        scatter = self.scatter + other.scatter
        scatter = scatter + ((between**2).sum(axis=0) if scatter.ndim == 1 else gram(between))
        return type(self)(counts, self.means + share[:, None] * difference, scatter)

    def grow(self, k: int) -> Self:
        """The moments with groups added until there are k."""
        more = k - len(self.counts)
        means = np.pad(self.means, ((0, more), (0, 0)))
        return type(self)(np.pad(self.counts, (0, more)), means, self.scatter)

    def remove(self, other: "Moments") -> Self:
        """The moments without rows that were merged before, to rounding; diagonal scatters only."""
        counts = self.counts - other.counts
        counts = np.where(counts > COUNT_TOLERANCE * self.counts, counts, 0.0)
        weights, removed = self.counts[:, None], other.counts[:, None]
        left = np.where(counts > 0, counts, 1.0)[:, None]
        means = (weights * self.means - removed * other.means) / left
        between = (removed * left / weights * (other.means - means) ** 2).sum(axis=0)
        return type(self)(counts, means, np.maximum(self.scatter - other.scatter - between, 0))

    @property
    def total(self) -> Doubles:
        """The variance of each column over all rows, whatever their group."""
        n = float(self.counts.sum()) or 1.0
        within = self.scatter if self.scatter.ndim == 1 else np.diag(self.scatter)
        deviations = self.means - (self.counts @ self.means) / n
        variance: Doubles = (within + self.counts @ deviations**2) / n
        return np.where(
            variance > MIN_RELATIVE_VARIANCE * (self.means**2).max(axis=0), variance, 0.0
        )

    def pooled(self, d: int) -> tuple[Doubles, Doubles, float]:
        """Mean and covariance of all rows in the first d columns, whatever their group, and the number of rows."""
        n = max(1.0, float(self.counts.sum()))
        means = self.means[:, :d]
        mean = (self.counts @ means) / n
        between = np.sqrt(self.counts)[:, None] * (means - mean)
        if self.scatter.ndim == 1:
            return mean, (self.scatter[:d] + (between**2).sum(axis=0)) / n, n
        return mean, (self.scatter[:d, :d] + gram(between)) / n, n

    @property
    def covariance(self) -> Doubles:
        """The scatter divided by the number of rows."""
        return self.scatter / (float(self.counts.sum()) or 1.0)


def moments_of(
    x: Doubles, group: Indices, k: int, weight: Doubles | None = None, *, diagonal: bool = False
) -> Moments:
    """The moments of rows that belong to k groups."""
    counts = np.bincount(group, weight, minlength=k).astype(np.float64)
    means, centered = np.zeros((k, x.shape[1])), np.empty_like(x)
    for index in np.flatnonzero(counts):
        rows = group == index
        means[index], centered[rows] = center_rows(
            x[rows], weight if weight is None else weight[rows]
        )
    return Moments(counts, means, (centered**2).sum(axis=0) if diagonal else gram(centered))


def center_rows(x: Doubles, weight: Doubles | None) -> tuple[Doubles, Doubles]:
    """The mean of rows, and the rows minus it; a row of weight w is scaled so that its square counts w times."""
    if weight is None:
        mean: Doubles = x.mean(axis=0)
        return mean, x - mean
    mean = weight @ x / weight.sum()
    return mean, np.sqrt(weight)[:, None] * (x - mean)


def as_count(n: float) -> float:
    """A number of rows: an int unless it is a sum of weights that is not whole."""
    return int(n) if float(n).is_integer() else float(n)


def gram(x: Doubles) -> Doubles:
    """x'x, symmetric to the bit."""
    product: Doubles = x.T @ x  # numpy computes one triangle and copies it
    return product


def shrink(covariance: Doubles, amount: float, total: Doubles) -> Doubles:
    """(1 − λ) S + λ τ diag(T), where T are the variances of all rows and τ is the mean of S / T.

    This is scikit-learn's shrinkage of columns that were standardized, so units do not matter. A column that
    is constant within every class still gets a variance: without it, one unusual value would decide everything.
    """
    varies = total > 0
    ratio = np.divide(np.diag(covariance), total, out=np.zeros_like(total), where=varies)
    share = ratio[varies].mean() if varies.any() else 1.0
    shrunk = (1 - amount) * covariance
    target = np.where(varies, max(amount * share, MIN_RIDGE) * total, 1.0)
    shrunk[np.diag_indices_from(shrunk)] += target
    return shrunk


def fill_missing(X: NDArray[Any], mean: Doubles, covariance: Doubles, n: float) -> NDArray[Any]:
    """X with each NaN replaced by its mean given the values of its row: μ_m + Σ_mo Σ_oo⁻¹ (x_o − μ_o).

    The covariance of n rows is shrunk by d / (n + d). If only its diagonal is known, shape (d,), a NaN becomes the
    mean of its column.
    """
    missing = np.isnan(X)
    if not missing.any():
        return X
    difference = np.where(missing, 0.0, X - mean)
    if covariance.ndim == 2:
        amount = max(MIN_SHRINKAGE, len(mean) / (n + len(mean)))
        variance = np.diag(covariance)  # of a constant column: the rounding of means in float32
        sigma = shrink(
            covariance, amount, np.where(variance > MIN_RELATIVE_VARIANCE * mean**2, variance, 0.0)
        )
        precision = solve(sigma, np.eye(len(mean)))
        patterns, group = np.unique(np.packbits(missing, axis=1), axis=0, return_inverse=True)
        order = np.argsort(group.ravel(), kind="stable")
        ends = np.cumsum(np.bincount(group.ravel(), minlength=len(patterns)))
        for rows in np.split(order, ends[:-1]):
            m, o = np.flatnonzero(missing[rows[0]]), np.flatnonzero(~missing[rows[0]])
            if not len(m) or not len(o):
                continue
            known = difference[np.ix_(rows, o)]
            if len(m) <= len(o):  # the same from the precision: Λ_mm is the smaller matrix
                difference[np.ix_(rows, m)] = -solve(
                    precision[np.ix_(m, m)], precision[np.ix_(m, o)] @ known.T
                ).T
            else:
                difference[np.ix_(rows, m)] = known @ solve(
                    sigma[np.ix_(o, o)], sigma[np.ix_(o, m)]
                )
    filled = X.copy()
    filled[missing] = (mean + difference)[missing]
    return filled


def column_means(X: NDArray[Any]) -> Doubles:
    """Mean of the values of each column that are not NaN; 0 if there is none."""
    missing = np.isnan(X)
    total = np.where(missing, 0.0, X).sum(axis=0, dtype=np.float64)
    means: Doubles = total / np.maximum((~missing).sum(axis=0), 1)
    return means


def fill_from_rows(X: NDArray[Any]) -> NDArray[Any]:
    """X with each NaN replaced by its mean given its row, from the moments of X itself; 0 in an empty column."""
    missing = np.isnan(X)
    if not missing.any():
        return X
    filled = np.where(missing, column_means(X), X)
    for _ in range(FILL_PASSES):
        mean = filled.mean(axis=0, dtype=np.float64)
        covariance = gram(filled - mean) / len(X)
        filled = fill_missing(X, mean, covariance, len(X))
    return filled


def solve(matrix: Doubles, right: Doubles) -> Doubles:
    """matrix⁻¹ right for a symmetric positive matrix; its columns are scaled to unit diagonal first."""
    unit = 1 / np.sqrt(np.diag(matrix))
    factor = cho_factor(matrix * unit[:, None] * unit, lower=True, check_finite=False)
    solution: Doubles = unit[:, None] * cho_solve(factor, unit[:, None] * right, check_finite=False)
    return solution


def pack(symmetric: Doubles) -> Doubles:
    """The lower triangle of a symmetric matrix, row by row: half the bytes."""
    return symmetric[np.tril_indices(len(symmetric))]


def unpack(triangle: Doubles, d: int) -> Doubles:
    """The symmetric matrix of a packed triangle."""
    full = np.zeros((d, d))
    full[np.tril_indices(d)] = triangle
    return full + np.tril(full, -1).T


def softmax(scores: Doubles) -> Doubles:
    """Rows of scores as probabilities; −∞ gets none."""
    top = scores.max(axis=1, keepdims=True)
    weights = np.exp(scores - np.where(np.isfinite(top), top, 0))
    total = weights.sum(axis=1, keepdims=True)
    probabilities: Doubles = np.full_like(weights, 1 / max(1, scores.shape[1]))
    np.divide(weights, total, out=probabilities, where=total > 0)
    return probabilities
