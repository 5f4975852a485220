"""t-SNE with a fixed seed: the same latents give the same map."""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

MOST_POINTS = 500
"""Samples on a map; of more, as many, evenly chosen: the time grows faster than they do."""


def embed(z: NDArray[np.float64], y: tuple[str, ...]) -> tuple[NDArray[np.float64], tuple[str, ...]]:
    """Places in the plane, (n, 2), and the labels of the samples that were placed."""
    chosen = np.unique(np.linspace(0, len(z) - 1, min(len(z), MOST_POINTS)).round().astype(int))
    rows = np.ascontiguousarray(z[chosen])
    places = np.frombuffer(_placed(rows.tobytes(), rows.shape), dtype=np.float64).reshape(-1, 2)
    return places, tuple(y[i] for i in chosen)


@lru_cache(maxsize=64)
def _placed(content: bytes, shape: tuple[int, int]) -> bytes:
    """Remembered, since a page that follows a run asks for the same map again and again."""
    z = np.frombuffer(content, dtype=np.float64).reshape(shape)
    if len(z) < 5 or not np.ptp(z, axis=0).any():  # too little for neighbours to mean something
        return np.column_stack([z[:, :2], np.zeros((len(z), 2))])[:, :2].tobytes()
    from sklearn.manifold import TSNE
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    perplexity = min(30.0, (len(z) - 1) / 3)
    tsne = TSNE(init="pca" if shape[1] > 1 else "random", perplexity=perplexity, max_iter=300, random_state=0)
    with threadpool_limits(1):  # threads add up in any order, and a rounding error grows
        return np.asarray(tsne.fit_transform(z), dtype=np.float64).tobytes()
