"""Layers as Keras of 2017 made them: Glorot-uniform weights, zero biases, drawn from a passed generator."""

from __future__ import annotations

from typing import TypeVar

import torch
from torch import Tensor, nn

from dgdmn.errors import UsageError

Layer = TypeVar("Layer", nn.Linear, nn.Conv2d, nn.ConvTranspose2d)


def dense(n_in: int, n_out: int, rng: torch.Generator) -> nn.Linear:
    """A fully connected layer."""
    layer: nn.Linear = nn.utils.skip_init(nn.Linear, n_in, n_out)
    return _glorot(layer, rng)


def convolution(
    n_in: int, n_out: int, size: int, rng: torch.Generator, *, stride: int = 1, padding: int = 0
) -> nn.Conv2d:
    """A convolution; without padding unless asked for (Keras's "valid")."""
    layer: nn.Conv2d = nn.utils.skip_init(nn.Conv2d, n_in, n_out, size, stride=stride, padding=padding)
    return _glorot(layer, rng)


def upconvolution(n_in: int, n_out: int, rng: torch.Generator) -> nn.ConvTranspose2d:
    """A transposed 4 × 4 convolution that doubles height and width."""
    layer: nn.ConvTranspose2d = nn.utils.skip_init(nn.ConvTranspose2d, n_in, n_out, 4, stride=2, padding=1)
    return _glorot(layer, rng)


class ToImage(nn.Module):
    """Flat rows (n, h · w · c) to images (n, c, h, w)."""

    def __init__(self, height: int, width: int, channels: int) -> None:
        super().__init__()
        self.shape = (height, width, channels)

    def forward(self, x: Tensor) -> Tensor:
        """(n, h · w · c) → (n, c, h, w)."""
        return x.reshape(len(x), *self.shape).permute(0, 3, 1, 2)


class ToRows(nn.Module):
    """Images (n, c, h, w), cropped to a size, to flat rows (n, h · w · c)."""

    def __init__(self, height: int, width: int) -> None:
        super().__init__()
        self.height, self.width = height, width

    def forward(self, x: Tensor) -> Tensor:
        """(n, c, ≥ h, ≥ w) → (n, h · w · c)."""
        return x[:, :, : self.height, : self.width].permute(0, 2, 3, 1).flatten(1)


def image_shape(shape: tuple[int, ...]) -> tuple[int, int, int]:
    """Height, width and channels of an input shape; a flat row must be a square image."""
    if len(shape) == 3:
        return shape[0], shape[1], shape[2]
    if len(shape) == 2:
        return shape[0], shape[1], 1
    side = round(shape[0] ** 0.5)
    if side * side != shape[0]:
        raise UsageError(
            f"{shape[0]} features are no square image; give convolutions arrays of shape (n, h, w)"
        )
    return side, side, 1


def _glorot(layer: Layer, rng: torch.Generator) -> Layer:
    nn.init.xavier_uniform_(layer.weight, generator=rng)
    assert layer.bias is not None
    nn.init.zeros_(layer.bias)
    return layer
