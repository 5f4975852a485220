"""Features of images: two layers of fixed random filters, pooled over 4 × 4 Gaussian windows. Nothing is learned.

Every product is computed image by image with the same sizes, so an image has the same bits in a batch of
one and in a batch of a million.
"""

from functools import cached_property

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

Floats = NDArray[np.float32]

MIN_SIDE, MAX_SIDE = 12, 32
"""Smaller images are treated as tables; larger ones are resized so that the longer side has MAX_SIDE pixels."""
FILTERS, FILTER_SIZE = 24, 9
"""First layer: Gabor filters and their side in pixels; each makes two maps, one per sign of its response."""
WAVELENGTHS = (3.0, 9.0)
"""Range of a filter's wavelength in pixels."""
SECOND_FILTERS, SECOND_SIZE = 64, 3
"""Second layer: random filters over all maps of the first; 5 × 5 pixels gained nothing for twice the time."""
GRID = 4
"""The second layer is pooled over GRID × GRID windows: 1,024 features in all."""
HALVE_WIDTH, GRID_WIDTH = 0.7, 0.7
"""Standard deviations of the pooling windows in steps of their grid. Overlapping windows change smoothly when a
stroke crosses the edge of a cell; this gains more accuracy than any other choice here."""
CHUNK = 3
"""Images at a time. Larger chunks leave the processor's cache, and freeing their arrays returns the memory to the
system each time: with 8 images, page faults doubled the time."""


class ImageFeatures:
    """Maps images (n, h, w) or (n, h, w, c) to 1,024 features that depend on the seed only."""

    n_features = SECOND_FILTERS * GRID * GRID

    def __init__(self, shape: tuple[int, ...], seed: int) -> None:
        self.shape, self.seed = shape, seed
        self.channels = shape[2] if len(shape) == 3 else 1

    def __call__(self, X: NDArray[np.generic]) -> Floats:
        """Features, shape (n, 1024)."""
        result = np.empty((len(X), self.n_features), dtype=np.float32)
        for start in range(0, len(X), CHUNK):
            part = slice(start, start + CHUNK)
            result[part] = self._features(X[part].astype(np.float32, copy=False))
        return result

    def _features(self, X: Floats) -> Floats:
        images = X.reshape(len(X), *self.shape[:2], self.channels).transpose(0, 1, 3, 2)
        if self.resizing is not None:
            images = pool(images, *self.resizing)  # (n, h, channels, w)
        maps = convolve(images, self.first_filters, FILTER_SIZE)
        maps = pool(split_signs(maps), *self.halving)
        maps = np.sqrt(maps, out=maps)
        maps = convolve(maps, self.second_filters, SECOND_SIZE)
        maps = np.maximum(maps, 0, out=maps)
        energy = pool(np.square(maps, out=maps), *self.to_grid)
        cells: Floats = np.sqrt(np.sqrt(energy))  # the root of the root mean square
        return cells.reshape(len(X), -1)

    @cached_property
    def _side(self) -> tuple[int, int]:
        """Rows and columns after resizing."""
        h, w = self.shape[:2]
        ratio = min(1, MAX_SIDE / max(h, w))
        return max(MIN_SIDE, round(h * ratio)), max(MIN_SIDE, round(w * ratio))

    @cached_property
    def resizing(self) -> tuple[Floats, Floats] | None:
        """Matrices for rows and columns that make an image small enough; None if it is."""
        if max(self.shape[:2]) <= MAX_SIDE:
            return None
        return _averaging_matrices(self.shape[:2], self._side)

    @cached_property
    def halving(self) -> tuple[Floats, Floats]:
        """Matrices that pool the maps of the first layer to half their sides."""
        return _gaussian_matrices(self._side, (self._side[0] // 2, self._side[1] // 2), HALVE_WIDTH)

    @cached_property
    def to_grid(self) -> tuple[Floats, Floats]:
        """Matrices that pool the maps of the second layer over GRID × GRID windows."""
        return _gaussian_matrices(
            (self._side[0] // 2, self._side[1] // 2), (GRID, GRID), GRID_WIDTH
        )

    @cached_property
    def first_filters(self) -> Floats:
        """Gabor filters, each with a direction in color space, as (filters, size · size · channels)."""
        rng = np.random.default_rng([self.seed, 1])
        filters = gabor_filters(FILTERS, FILTER_SIZE, rng)
        colors = rng.standard_normal((FILTERS, self.channels))
        if self.channels == 1:
            colors = np.ones((FILTERS, 1))
        colors /= np.linalg.norm(colors, axis=1, keepdims=True)
        product = filters[:, :, None] * colors[:, None, :]
        return product.reshape(FILTERS, -1).astype(np.float32)

    @cached_property
    def second_filters(self) -> Floats:
        """Random filters over all maps of the first layer, as (filters, size · size · maps)."""
        rng = np.random.default_rng([self.seed, 2])
        filters = rng.standard_normal((SECOND_FILTERS, SECOND_SIZE**2 * 2 * FILTERS))
        filters -= filters.mean(axis=1, keepdims=True)
        filters /= np.linalg.norm(filters, axis=1, keepdims=True)
        return filters.astype(np.float32)


def gabor_filters(n: int, size: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """n filters of zero mean and unit norm, (n, size · size): a wave under a Gaussian window."""
    angle = np.pi * (np.arange(n) + rng.uniform(size=n)) / n
    low, high = np.log(WAVELENGTHS)
    wavelength = np.exp(rng.uniform(low, high, n))
    phase = rng.uniform(0, 2 * np.pi, n)
    width = wavelength * rng.uniform(0.3, 0.6, n)
    at = np.arange(size) - (size - 1) / 2
    y, x = (grid.reshape(-1) for grid in np.meshgrid(at, at, indexing="ij"))
    along = np.outer(np.cos(angle), x) + np.outer(np.sin(angle), y)
    wave = np.cos(2 * np.pi * along / wavelength[:, None] + phase[:, None])
    filters: NDArray[np.float64] = wave * np.exp(-(x**2 + y**2) / (2 * width[:, None] ** 2))
    filters -= filters.mean(axis=1, keepdims=True)
    filters /= np.linalg.norm(filters, axis=1, keepdims=True)
    return filters


def convolve(maps: Floats, filters: Floats, size: int) -> Floats:
    """Correlate maps (n, h, c, w) with filters (f, size · size · c), zeros outside: (n, h, f, w).

    Shifted copies side by side make the window of an output row one matrix without a copy of its own.
    """
    n, h, c, w = maps.shape
    border = size // 2
    padded = np.pad(maps, ((0, 0), (border, border), (0, 0), (border, border)))
    shifted = np.empty((n, h + 2 * border, size, c, w), dtype=np.float32)
    for shift in range(size):
        shifted[:, :, shift] = padded[..., shift : shift + w]
    image, row, _, column, value = shifted.strides
    windows = as_strided(shifted, (n, h, size * size * c, w), (image, row, column, value))
    product: Floats = np.matmul(filters, windows)
    return product


def split_signs(maps: Floats) -> Floats:
    """The positive and the negative parts of maps (n, h, c, w), side by side: (n, h, 2 c, w)."""
    c = maps.shape[2]
    result = np.empty((*maps.shape[:2], 2 * c, maps.shape[3]), dtype=np.float32)
    np.maximum(maps, 0, out=result[:, :, :c])
    np.subtract(result[:, :, :c], maps, out=result[:, :, c:])  # max(-r, 0) = max(r, 0) - r, exactly
    return result


def pool(maps: Floats, rows: Floats, columns: Floats) -> Floats:
    """Weighted means of maps (n, h, c, w): `rows` is (h', h), `columns` (w, w')."""
    n, h, c, w = maps.shape
    narrow = np.matmul(maps.reshape(n, h * c, w), columns)
    pooled: Floats = np.matmul(rows, narrow.reshape(n, h, -1))
    return pooled.reshape(n, len(rows), c, -1)


def averaging_matrix(n_in: int, n_out: int) -> Floats:
    """The (n_out, n_in) matrix that averages one axis over equal parts; a pixel on an edge counts in proportion."""
    ends = np.linspace(0, n_in, n_out + 1)
    low, high = ends[:-1, None], ends[1:, None]
    at = np.arange(n_in)
    overlap = np.clip(np.minimum(high, at + 1) - np.maximum(low, at), 0, None)
    weights: Floats = (overlap / (high - low)).astype(np.float32)
    return weights


def _averaging_matrices(before: tuple[int, ...], after: tuple[int, int]) -> tuple[Floats, Floats]:
    """The matrices of `pool` from one size to another."""
    columns = np.ascontiguousarray(averaging_matrix(before[1], after[1]).T)
    return averaging_matrix(before[0], after[0]), columns


def gaussian_matrix(n_in: int, n_out: int, width: float) -> Floats:
    """The (n_out, n_in) matrix of Gaussian windows at the centers of equal parts; each row sums to one."""
    step = n_in / n_out
    centers = (np.arange(n_out)[:, None] + 0.5) * step - 0.5
    weights = np.exp(-0.5 * ((np.arange(n_in) - centers) / (width * step)) ** 2)
    normed: Floats = (weights / weights.sum(axis=1, keepdims=True)).astype(np.float32)
    return normed


def _gaussian_matrices(
    before: tuple[int, ...], after: tuple[int, int], width: float
) -> tuple[Floats, Floats]:
    """The matrices of `pool` from one size to another, with Gaussian windows."""
    columns = np.ascontiguousarray(gaussian_matrix(before[1], after[1], width).T)
    return gaussian_matrix(before[0], after[0], width), columns
