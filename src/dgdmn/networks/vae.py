"""G: the variational autoencoder (Kingma & Welling 2014), dense and convolutional."""

import itertools
import math
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dgdmn.core.events import Callback
from dgdmn.networks.layers import ToFeatures, ToImage, ToRows, dense, image_shape, make_layer, mlp
from dgdmn.networks.train import Schedule, TrainableNetwork, map_batches

MAX_LOG_VARIANCE = 20.0  # of a latent: far above any learned value, far below overflow


class VAE(TrainableNetwork):
    """Bernoulli pixels given a Gaussian latent z; a sample is the mean image of z ~ N(0, I).

    loss(x) = −E_q[log p(x | z)] + β KL(q(z | x) ‖ N(0, I)),   summed over pixels, mean over the batch
    """

    kind: ClassVar[str] = "generator"

    def __init__(
        self,
        shape: tuple[int, ...],
        *,
        hidden: tuple[int, ...],
        convolutions: tuple[int, ...] = (),
        latent_dim: int,
        beta: float = 1.0,
        schedule: Schedule,
        rng: torch.Generator,
    ) -> None:
        super().__init__(schedule)
        self.latent_dim, self.beta = latent_dim, beta
        into, out_of, width = _convolutional(shape, convolutions, rng)
        down, up = (width, *hidden), (latent_dim, *hidden[::-1])
        self.encoder = nn.Sequential(*into, *mlp(down, rng), dense(down[-1], 2 * latent_dim, rng))
        self.decoder = nn.Sequential(*mlp(up, rng), dense(up[-1], width, rng), *out_of)

    def posterior(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and log-variance of q(z | x), each (n, latent_dim)."""
        mean, log_variance = self.encoder(x).chunk(2, dim=1)
        # exp overflows at 88. The value is clamped but its gradient is not, so that it can recover.
        return mean, log_variance - (log_variance - MAX_LOG_VARIANCE).clamp(min=0).detach()

    def decode(self, z: Tensor) -> Tensor:
        """Logits of the pixels, shape (n, d)."""
        logits: Tensor = self.decoder(z)
        return logits

    def loss(self, x: Tensor, generator: torch.Generator) -> Tensor:
        """The negative variational bound of a batch, one draw of z a row."""
        mean, log_variance = self.posterior(x)
        noise = torch.randn(mean.shape, generator=generator).to(x.device)
        z = torch.addcmul(mean, noise, torch.exp(0.5 * log_variance))
        reconstruction = F.binary_cross_entropy_with_logits(self.decode(z), x, reduction="sum")
        divergence = -0.5 * (1 + log_variance - mean.square() - log_variance.exp()).sum()
        return (reconstruction + self.beta * divergence) / len(x)

    def fit(self, x: Tensor, rng: torch.Generator, callback: Callback) -> None:
        self.train_with(self.loss, (x,), rng, callback)

    def sample(self, n: int, rng: torch.Generator) -> Tensor:
        z = torch.randn(n, self.latent_dim, generator=rng).to(next(self.parameters()).device)
        return self.decode_mean(z)

    def encode(self, x: Tensor) -> tuple[Tensor, Tensor]:
        both = map_batches(lambda part: torch.cat(self.posterior(part), dim=1), x)
        mean, log_variance = both.chunk(2, dim=1)
        return mean, torch.exp(0.5 * log_variance)

    def decode_mean(self, z: Tensor) -> Tensor:
        return map_batches(lambda part: self.decode(part).sigmoid(), z)

    def reconstruct(self, x: Tensor) -> Tensor:
        return map_batches(lambda part: self.decode(self.posterior(part)[0]).sigmoid(), x)

    def reconstruction_loss(self, x: Tensor) -> Tensor:
        """−log p(x | z) at the mean of q(z | x), in nats, shape (n,)."""

        def loss(part: Tensor) -> Tensor:
            logits = self.decode(self.posterior(part)[0])
            return F.binary_cross_entropy_with_logits(logits, part, reduction="none").sum(dim=1)

        return map_batches(loss, x)


def _convolutional(
    shape: tuple[int, ...], kernels: tuple[int, ...], rng: torch.Generator
) -> tuple[list[nn.Module], list[nn.Module], int]:
    """Layers from rows to features and back, each convolution halving the image (rounded up, then cropped)."""
    if not kernels:
        return [], [], math.prod(shape)
    height, width, channels = image_shape(shape)
    scale = 2 ** len(kernels)
    small = (-(-height // scale), -(-width // scale))
    pad = nn.ZeroPad2d((0, small[1] * scale - width, 0, small[0] * scale - height))
    into: list[nn.Module] = [ToImage(height, width, channels), pad]
    out_of: list[nn.Module] = [nn.ReLU(inplace=True), ToFeatures(kernels[-1], *small)]
    halve = (4, 2, 1)  # kernel size, stride and padding of a layer that halves or doubles an image
    for n_in, n_out in itertools.pairwise((channels, *kernels)):
        into += [make_layer(nn.Conv2d, rng, n_in, n_out, *halve), nn.ReLU(inplace=True)]
    for n_in, n_out in itertools.pairwise((*kernels[::-1], channels)):
        layer = make_layer(nn.ConvTranspose2d, rng, n_in, n_out, *halve)
        out_of += [layer, nn.ReLU(inplace=True)]
    out_of[-1] = ToRows(height, width)
    return [*into, nn.Flatten()], out_of, kernels[-1] * math.prod(small)
