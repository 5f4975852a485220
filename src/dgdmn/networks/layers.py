"""Layers as in Keras of 2017: Glorot-uniform weights and zero biases from a given generator."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

import torch
from torch import Tensor, nn

from dgdmn.core.errors import UsageError

Layer = TypeVar("Layer", nn.Linear, nn.Conv2d, nn.ConvTranspose2d)
Network = TypeVar("Network", bound=nn.Module)


def dense(n_in: int, n_out: int, rng: torch.Generator) -> nn.Linear:
    """A fully connected layer."""
    return make_layer(nn.Linear, rng, n_in, n_out)


def mlp(
    widths: tuple[int, ...], rng: torch.Generator, drop: Sequence[nn.Module] = ()
) -> list[nn.Module]:
    """Fully connected layers between these widths, each with a ReLU and perhaps dropout."""
    layers: list[nn.Module] = []
    for n_in, n_out in itertools.pairwise(widths):
        layers += [dense(n_in, n_out, rng), nn.ReLU(inplace=True), *drop]
    return layers


class Dropout(nn.Module):
    """Dropout that draws from a given generator; torch's uses the global random numbers."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, x: Tensor, rng: torch.Generator | None = None) -> Tensor:
        if rng is None:
            return x
        kept = torch.rand(x.shape, generator=rng).to(x.device) >= self.rate
        return x * kept / (1 - self.rate)


class _Reshape(nn.Module):
    def __init__(self, *shape: int) -> None:
        super().__init__()
        self.shape = shape


class ToImage(_Reshape):
    """Flat rows (n, h · w · c) to images (n, c, h, w), for the shape (h, w, c)."""

    def forward(self, x: Tensor) -> Tensor:
        return x.reshape(x.shape[0], *self.shape).permute(0, 3, 1, 2)


class ToRows(_Reshape):
    """Images (n, c, ≥ h, ≥ w), cropped to the shape (h, w), to flat rows (n, h · w · c)."""

    def forward(self, x: Tensor) -> Tensor:
        height, width = self.shape
        return x[:, :, :height, :width].permute(0, 2, 3, 1).flatten(1)


class ToFeatures(_Reshape):
    """Flat rows (n, c · h · w) to images; transposed convolutions are faster where the channels lie last."""

    def forward(self, x: Tensor) -> Tensor:
        return x.reshape(x.shape[0], *self.shape).contiguous(memory_format=torch.channels_last)


def image_shape(shape: tuple[int, ...]) -> tuple[int, int, int]:
    """Height, width and channels of an input shape; a flat row must be a square image."""
    if len(shape) > 1:
        height, width, channels = (*shape, 1)[:3]
        return height, width, channels
    side = round(shape[0] ** 0.5)
    if side * side != shape[0]:
        problem = f"{shape[0]} features are not a square image"
        raise UsageError(f"{problem}; convolutions need arrays of shape (n, h, w)")
    return side, side, 1


@contextmanager
def meta_weights() -> Iterator[None]:
    """Make layers without weights inside this block; they are loaded later.

    They take no memory, so a manifest with wrong sizes costs nothing.
    """
    token = _meta_weights.set(True)
    try:
        yield
    finally:
        _meta_weights.reset(token)


def to_device(network: Network, device: str) -> Network:
    """Move a network to its device, unless its weights are still to be loaded."""
    return network if _meta_weights.get() else network.to(device)


_meta_weights: ContextVar[bool] = ContextVar("meta_weights", default=False)


def make_layer(kind: Callable[..., Layer], rng: torch.Generator, *sizes: int) -> Layer:
    """A layer of this kind and these sizes, with random weights unless they are still to be loaded."""
    layer = kind(*sizes, device="meta")
    if _meta_weights.get():
        return layer
    layer.to_empty(device="cpu")
    nn.init.xavier_uniform_(layer.weight, generator=rng)
    assert layer.bias is not None
    nn.init.zeros_(layer.bias)
    return layer
