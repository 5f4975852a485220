"""What a generator and a learner must provide, ours or a user's own. Check yours with `dgdmn.testing`."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from dgdmn.core.batch import Batch
from dgdmn.core.events import Callback
from dgdmn.networks.train import Loss, Step

Role = Literal["stm", "ltm"]
"""A network of a small short-term task memory, or of the large long-term memory."""
Shape = tuple[int, ...]
"""Shape of one input: (d,), (h, w) or (h, w, channels)."""


class Stateful(Protocol):
    """All that was learned, as tensors; an `nn.Module` has these two methods."""

    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state_dict: dict[str, Any]) -> object: ...


class Generator(Stateful, Protocol):
    """G: models the inputs.

    Inputs and outputs are flat float tensors in [0, 1], shape (n, d). All randomness comes from the
    generator passed in, so a seed gives the same bits.
    """

    def fit(self, x: Tensor, rng: torch.Generator, callback: Callback) -> None:
        """Train on these inputs, starting from the present weights."""

    def sample(self, n: int, rng: torch.Generator) -> Tensor:
        """Draw n inputs, shape (n, d)."""


@runtime_checkable
class Reconstructs(Generator, Protocol):
    """A generator that can reconstruct an input. Recognition without task names needs this; a GAN lacks it."""

    def reconstruct(self, x: Tensor) -> Tensor:
        """The inputs as this generator models them; deterministic, row by row."""

    def reconstruction_loss(self, x: Tensor) -> Tensor:
        """Reconstruction error of each input, shape (n,); lower means better known."""


@runtime_checkable
class LatentGenerator(Reconstructs, Protocol):
    """A generator with a latent space, such as `VAE`. A code buffer and a latent prior need this."""

    latent_dim: int

    def encode(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation of q(z | x), each (n, latent_dim); no gradients."""

    def decode_mean(self, z: Tensor) -> Tensor:
        """The mean inputs of these codes, shape (n, d); no gradients."""


class Learner(Stateful, Protocol):
    """L: predicts a class index from an input."""

    def fit(self, batch: Batch, rng: torch.Generator, callback: Callback) -> None:
        """Train on labeled inputs, starting from the present weights."""

    def predict_proba(self, x: Tensor) -> Tensor:
        """Class probabilities, shape (n, number of outputs)."""

    def grow(self, n_classes: int, rng: torch.Generator) -> None:
        """Add output units; predictions among old classes do not change."""


@runtime_checkable
class CustomizableLearner(Learner, Protocol):
    """A learner that can be trained with an algorithm's own loss or step: EWC, SI, LwF, GEM, iCaRL, ER.

    A subclass of `dgdmn.networks.train.TrainableNetwork` with `forward` and `features` is one.
    """

    def __call__(self, x: Tensor, rng: torch.Generator | None = None) -> Tensor:
        """Logits, shape (n, number of outputs), with gradients."""

    def parameters(self) -> Iterator[nn.Parameter]: ...

    def features(self, x: Tensor) -> Tensor:
        """Activations of the last hidden layer, shape (n, units); no gradients."""

    def train_with(
        self,
        loss: Loss,
        data: tuple[Tensor, ...],
        rng: torch.Generator,
        callback: Callback,
        step: Step = ...,
        accumulators: Sequence[Tensor] = ...,
    ) -> None:
        """Train with this loss and step; the step may add to `accumulators` in place."""


GeneratorFactory = Callable[[Shape, Role, torch.Generator], Generator]
"""Makes an untrained generator for inputs of a shape; a class with this signature works."""
LearnerFactory = Callable[[Shape, int, Role, torch.Generator], Learner]
"""Makes an untrained learner for inputs of a shape, with this many outputs."""
