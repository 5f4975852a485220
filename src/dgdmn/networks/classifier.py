"""L: dense and convolutional classifiers of appendix B."""

import itertools
import math
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dgdmn.core.batch import Batch
from dgdmn.core.errors import UsageError
from dgdmn.core.events import Callback
from dgdmn.networks.layers import Dropout, ToImage, dense, image_shape, make_layer, mlp
from dgdmn.networks.train import Schedule, TrainableNetwork, map_batches


class Classifier(TrainableNetwork):
    """ReLU hidden layers and a softmax, trained to minimize cross-entropy."""

    kind: ClassVar[str] = "learner"

    def __init__(
        self,
        shape: tuple[int, ...],
        n_classes: int,
        *,
        hidden: tuple[int, ...],
        convolutions: tuple[int, ...] = (),
        dropout: float = 0.0,
        clip_probability: float = 0.0,
        schedule: Schedule,
        rng: torch.Generator,
    ) -> None:
        super().__init__(schedule)
        self.clip_probability = clip_probability
        drop = [Dropout(dropout)] if dropout else []
        layers, width = _convolutional(shape, convolutions, drop, rng)
        widths = (width, *hidden)
        self.body = nn.Sequential(*layers, *mlp(widths, rng, drop))
        self.head = dense(widths[-1], n_classes, rng)

    def forward(self, x: Tensor, rng: torch.Generator | None = None) -> Tensor:
        """Logits, shape (n, n_classes); with a random generator hidden units are dropped."""
        for layer in self.body:
            x = layer(x, rng) if isinstance(layer, Dropout) else layer(x)
        logits: Tensor = self.head(x)
        return logits

    def features(self, x: Tensor) -> Tensor:
        return map_batches(self.body, x)

    def loss(self, x: Tensor, y: Tensor, rng: torch.Generator) -> Tensor:
        """Mean cross-entropy of a batch."""
        return cross_entropy(self(x, rng), y, self.clip_probability)

    def fit(self, batch: Batch, rng: torch.Generator, callback: Callback) -> None:
        self.train_with(self.loss, (batch.x, batch.y), rng, callback)

    def predict_proba(self, x: Tensor) -> Tensor:
        return map_batches(lambda part: F.softmax(self(part), dim=1), x)

    def grow(self, n_classes: int, rng: torch.Generator) -> None:
        old, n_old = self.head, self.head.out_features
        if n_classes <= n_old:
            return
        self.head = dense(old.in_features, n_classes, rng).to(old.weight.device)
        with torch.no_grad():
            self.head.weight[:n_old], self.head.bias[:n_old] = old.weight, old.bias


def cross_entropy(logits: Tensor, y: Tensor, clip: float = 0.0) -> Tensor:
    """Mean cross-entropy of labels y, shape (n,), or of rows of probabilities, shape (n, classes).

        −mean log clip(p_y, c, 1 − c),  p = softmax(logits)

    There is no gradient outside [c, 1 − c], so a class that earlier tasks made too improbable is never learned
    (docs/decisions/clipped-probabilities.md).

    >>> logits = torch.tensor([[0.0, 20.0]], requires_grad=True)
    >>> for clip in (0.0, 1e-7):
    ...     print(torch.autograd.grad(cross_entropy(logits, torch.tensor([0]), clip), logits)[0].tolist())
    [[-1.0, 1.0]]
    [[0.0, 0.0]]
    """
    if not clip:
        return F.cross_entropy(logits, y)
    log_p = F.softmax(logits, dim=1).clamp(clip, 1 - clip).log()
    return F.nll_loss(log_p, y) if y.dim() == 1 else -(y * log_p).sum(dim=1).mean()


def _convolutional(
    shape: tuple[int, ...], kernels: tuple[int, ...], drop: list[Dropout], rng: torch.Generator
) -> tuple[list[nn.Module], int]:
    if not kernels:
        return [], math.prod(shape)
    height, width, channels = image_shape(shape)
    layers: list[nn.Module] = [ToImage(height, width, channels)]
    for n_in, n_out in itertools.pairwise((channels, *kernels)):
        layer = make_layer(nn.Conv2d, rng, n_in, n_out, 3)
        layers += [layer, nn.ReLU(inplace=True), nn.MaxPool2d(2), *drop]
        height, width = (height - 2) // 2, (width - 2) // 2
    if min(height, width) < 1:
        n = len(kernels)
        raise UsageError(f"images of {shape} are too small for {n} convolutions with pooling")
    return [*layers, nn.Flatten()], kernels[-1] * height * width
