"""Small random warps of images: shifted, turned, scaled and sheared copies, all at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

MAX_SHIFT = 2.0
"""Pixels."""
MAX_TURN = np.deg2rad(10)
MAX_SCALE = 0.1
MAX_SHEAR = 0.1


def random_affine(n: int, rng: np.random.Generator) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """`n` small random maps: matrices (n, 2, 2) and shifts (n, 2), rows before columns."""
    turn, shear = (rng.uniform(-bound, bound, n) for bound in (MAX_TURN, MAX_SHEAR))
    scale = rng.uniform(1 - MAX_SCALE, 1 + MAX_SCALE, (n, 2))
    cos, sin = np.cos(turn), np.sin(turn)
    rotation = np.stack([cos, -sin, sin, cos], axis=1).reshape(n, 2, 2)
    skew = np.stack([np.ones(n), shear, np.zeros(n), np.ones(n)], axis=1).reshape(n, 2, 2)
    return rotation @ skew * scale[:, None, :], rng.uniform(-MAX_SHIFT, MAX_SHIFT, (n, 2))


def warp(images: Floats, matrix: NDArray[np.float64], shift: NDArray[np.float64]) -> Floats:
    """Images (n, h, w) read at `matrix @ (p - centre) + centre + shift`, bilinear, black outside."""
    n, h, w = images.shape
    centre = np.array([(h - 1) / 2, (w - 1) / 2])
    grid = np.stack(np.meshgrid(np.arange(h), np.arange(w), indexing="ij")).reshape(2, h * w)
    at = matrix @ (grid - centre[:, None]) + (centre + shift)[:, :, None]  # (n, 2, h * w)
    corner = np.floor(at).astype(np.int64)
    rest = (at - corner).astype(np.float32)
    # One black pixel all around, so that whatever lies outside reads as black without a special case.
    padded = np.pad(images, ((0, 0), (1, 1), (1, 1))).reshape(n, -1)
    result = np.zeros((n, h * w), dtype=np.float32)
    for down in (0, 1):
        for right in (0, 1):
            row = np.clip(corner[:, 0] + down, -1, h) + 1
            column = np.clip(corner[:, 1] + right, -1, w) + 1
            weight = np.abs(1 - down - rest[:, 0]) * np.abs(1 - right - rest[:, 1])
            result += weight * np.take_along_axis(padded, row * (w + 2) + column, axis=1)
    return np.clip(result, 0, 1).reshape(n, h, w)


def enlarge(images: Floats, n: int, rng: np.random.Generator) -> Floats:
    """The images, and warped copies of them until there are `n`; each is copied about equally often."""
    missing = n - len(images)
    if missing <= 0:
        return images
    rounds = -(-missing // len(images))
    models = np.concatenate([rng.permutation(len(images)) for _ in range(rounds)])[:missing]
    return np.concatenate([images, warp(images[models], *random_affine(missing, rng))])
