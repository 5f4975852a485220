"""Unknown inputs: a score of how well the known classes explain a row, and its usual values.

The score is relative: the log density of the best component minus that of one background Gaussian with the
mean of all rows and the covariance S₀ + A A', where A holds √(n_i / n) (m_i − m). By Woodbury's identity it
follows from the tied scores alone. What all inputs have in common cancels.

Rows that are tested against the memory without them show which scores are usual. Each component counts them in
fixed bins, its sketch. Counts add, so memories merge, and a forgotten component takes its counts along. Scores rise
as classes arrive, because the background widens. So counts of recently learned components weigh more.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dgdmn.memory.gaussian import Doubles

Counts = NDArray[np.uint32]

BINS = 96
"""Bins of a sketch."""
SCORE_SCALE, MIN_BIN, MAX_BIN = 10.0, -9.0, 7.0
"""Bins have equal width in asinh(score / SCORE_SCALE), between these two values: scores from −40,500 to 5,500."""
EDGES = np.linspace(MIN_BIN, MAX_BIN, BINS + 1)
SKETCH_BYTES = 4 * BINS
MIN_TESTED = 50
"""With fewer tested rows a rate of .01 cannot be estimated, and known rows would be marked as unknown."""
RECENCY = 4.0
"""The component learned i-th of k has weight (i / k) to this power."""
FAR = 30.0
"""A row is far if a feature is more than this many standard deviations from its mean; √n if n < 900, because no
learned row can be that far."""
MAX_EXCESS = 2.0
"""A row that may be far is unknown if asinh(score / SCORE_SCALE) exceeds that of every tested row by more than this:
about seven times the highest score. Far from all data, a wide component always scores higher than the background."""


def relative_scores(
    scores: Doubles, tied: Doubles, means: Doubles, weights: Doubles, counts: Doubles
) -> Doubles:
    """The best score of each row minus the background's, shape (n,).

    `tied` are the tied scores L, `means` the means m_i as rows and `weights` S₀⁻¹ m_i as columns.
    """
    share = counts / counts.sum()
    gram = means @ weights
    # With c_ij = m_i' S₀⁻¹ m_j and x_i = m_i' S₀⁻¹ x: everything is about the mean of all rows.
    inputs = tied + 0.5 * np.diag(gram)
    middle = inputs @ share
    root = np.sqrt(share)
    from_mean = gram - (gram @ share)
    centered = from_mean - share @ from_mean
    projected = root * (inputs - middle[:, None] - (gram @ share - share @ gram @ share))
    inner = np.eye(len(share)) + root[:, None] * centered * root
    explained = (projected * np.linalg.solve(inner, projected.T).T).sum(axis=1)
    background = middle - 0.5 * float(share @ gram @ share) + 0.5 * explained
    relative: Doubles = scores.max(axis=1) - background
    return relative


def sketch(scores: Doubles) -> Counts:
    """Count the scores in each bin; scores beyond the ends count in the outer bins."""
    places = np.clip(np.arcsinh(scores / SCORE_SCALE), MIN_BIN, MAX_BIN)
    return np.histogram(places, EDGES)[0].astype(np.uint32)


def empty_sketch() -> Counts:
    return np.zeros(BINS, np.uint32)


def find_far(
    x: Doubles, means: Doubles, counts: Doubles, scatter: Doubles
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which rows are far from all learned ones, and which may be; `scatter` is that within components, shape (d,).

    A feature that hardly varied (a rarely active unit) cannot make a row certainly far: the median variance of all
    features replaces its own if that is larger.
    """
    n = counts.sum()
    mean = counts @ means / n
    limit = (scatter + counts @ (means - mean) ** 2) * min(1.0, FAR**2 / n)
    squares = (x - mean) ** 2
    certain = squares > np.maximum(limit, np.median(limit))
    return certain.any(axis=1), (squares > limit).any(axis=1)


def score_quantile(
    scores: Doubles,
    sketches: Sequence[Counts],
    far: NDArray[np.bool_],
    may_be_far: NDArray[np.bool_],
) -> Doubles:
    """The share of tested rows with a lower score, shape (n,); 1 if no row was tested, 0 if a row is far.

    `sketches` are those of all components; the one learned last comes last.
    """
    weights = (np.arange(1, len(sketches) + 1) / max(1, len(sketches))) ** RECENCY
    counts = weights @ np.reshape(sketches, (len(sketches), BINS)).astype(np.float64)
    if not counts.any():
        return np.ones(len(scores))
    below = np.concatenate([[0.0], np.cumsum(counts)]) / counts.sum()
    places = np.arcsinh(scores / SCORE_SCALE)
    highest = EDGES[np.flatnonzero(counts)[-1] + 1]
    strange = far | (may_be_far & (places > highest + MAX_EXCESS))
    quantile: Doubles = np.where(strange, 0.0, np.interp(places, EDGES, below))
    return quantile
