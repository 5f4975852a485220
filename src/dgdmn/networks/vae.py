"""G: the variational autoencoder (Kingma & Welling 2014), dense and convolutional."""

from __future__ import annotations

import itertools
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dgdmn.events import Listener
from dgdmn.networks.layers import (
    ToFeatures,
    ToImage,
    ToRows,
    convolution,
    dense,
    image_shape,
    upconvolution,
)
from dgdmn.networks.training import Schedule, TrainedNetwork, in_batches

_WIDEST = 20.0
"""Largest log-variance of a latent, e²⁰: far above any that is learnt, far below what overflows."""


class VAE(TrainedNetwork):
    """Bernoulli pixels given a Gaussian latent z; a dream decodes z ~ N(0, I) to its mean image.

    loss(x) = −E_q[log p(x | z)] + β KL(q(z | x) ‖ N(0, I)),   summed over pixels, mean over the batch
    """

    kind: ClassVar[str] = "generator"

    def __init__(
        self,
        shape: tuple[int, ...],
        *,
        hidden: tuple[int, ...],
        convolutions: tuple[int, ...] = (),
        latent: int,
        beta: float = 1.0,
        schedule: Schedule,
        keep_optimiser: bool = False,
        rng: torch.Generator,
    ) -> None:
        super().__init__(schedule, keep_optimiser=keep_optimiser)
        self.latent = latent
        self.beta = beta
        into, out_of, width = _convolutional(shape, convolutions, rng) if convolutions else _flat(shape)
        there, back = (width, *hidden), (latent, *hidden[::-1])
        self.encoder = nn.Sequential(*into, *_mlp(there, rng), dense(there[-1], 2 * latent, rng))
        self.decoder = nn.Sequential(*_mlp(back, rng), dense(back[-1], width, rng), *out_of)

    def encode(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and log-variance of q(z | x), each (n, latent)."""
        mean, log_variance = self.encoder(x).chunk(2, dim=1)
        # exp overflows at 88. The value is held below that and its gradient is not, so that it can come back.
        return mean, log_variance - (log_variance - _WIDEST).clamp(min=0).detach()

    def decode(self, z: Tensor) -> Tensor:
        """Logits of the pixels, shape (n, d)."""
        logits: Tensor = self.decoder(z)
        return logits

    def loss(self, x: Tensor, generator: torch.Generator) -> Tensor:
        """The negative variational bound of a batch, one draw of z a row."""
        mean, log_variance = self.encode(x)
        noise = torch.randn(mean.shape, generator=generator).to(x.device)
        z = torch.addcmul(mean, noise, torch.exp(0.5 * log_variance))
        reconstruction = F.binary_cross_entropy_with_logits(self.decode(z), x, reduction="sum")
        divergence = -0.5 * (1 + log_variance - mean.square() - log_variance.exp()).sum()
        return (reconstruction + self.beta * divergence) / len(x)

    def fit(self, x: Tensor, rng: torch.Generator, listen: Listener) -> None:
        """Train on these inputs, going on from the present weights."""
        self.train_with(self.loss, (x,), rng, listen)

    def sample(self, n: int, rng: torch.Generator) -> Tensor:
        """Dream n inputs: decode z ~ N(0, I)."""
        z = torch.randn(n, self.latent, generator=rng).to(next(self.parameters()).device)
        return self.decoded(z)

    def posterior(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation of q(z | x), each (n, latent)."""
        mean, log_variance = in_batches(lambda part: torch.cat(self.encode(part), dim=1), x).chunk(2, dim=1)
        return mean, torch.exp(0.5 * log_variance)

    def decoded(self, z: Tensor) -> Tensor:
        """The mean images of these latents."""
        return in_batches(lambda part: self.decode(part).sigmoid(), z)

    def reconstruct(self, x: Tensor) -> Tensor:
        """Decode the mean of q(z | x)."""
        return in_batches(lambda part: self.decode(self.encode(part)[0]).sigmoid(), x)

    def reconstruction_loss(self, x: Tensor) -> Tensor:
        """−log p(x | z) at the mean of q(z | x), in nats, shape (n,)."""

        def loss(part: Tensor) -> Tensor:
            logits = self.decode(self.encode(part)[0])
            return F.binary_cross_entropy_with_logits(logits, part, reduction="none").sum(dim=1)

        return in_batches(loss, x)


def _mlp(widths: tuple[int, ...], rng: torch.Generator) -> list[nn.Module]:
    layers: list[nn.Module] = []
    for n_in, n_out in itertools.pairwise(widths):
        layers += [dense(n_in, n_out, rng), nn.ReLU(inplace=True)]
    return layers


def _flat(shape: tuple[int, ...]) -> tuple[list[nn.Module], list[nn.Module], int]:
    return [], [], int(torch.Size(shape).numel())


def _convolutional(
    shape: tuple[int, ...], kernels: tuple[int, ...], rng: torch.Generator
) -> tuple[list[nn.Module], list[nn.Module], int]:
    """Layers from rows to features and back, each convolution halving the image (rounded up, then cropped)."""
    height, width, channels = image_shape(shape)
    scale = 2 ** len(kernels)
    small = (-(-height // scale), -(-width // scale))
    pad = nn.ZeroPad2d((0, small[1] * scale - width, 0, small[0] * scale - height))
    into: list[nn.Module] = [ToImage(height, width, channels), pad]
    out_of: list[nn.Module] = [nn.ReLU(inplace=True), ToFeatures(kernels[-1], *small)]
    for n_in, n_out in itertools.pairwise((channels, *kernels)):
        into += [convolution(n_in, n_out, 4, rng, stride=2, padding=1), nn.ReLU(inplace=True)]
    for n_in, n_out in itertools.pairwise((*kernels[::-1], channels)):
        out_of += [upconvolution(n_in, n_out, rng), nn.ReLU(inplace=True)]
    return [*into, nn.Flatten()], [*out_of[:-1], ToRows(height, width)], kernels[-1] * small[0] * small[1]
