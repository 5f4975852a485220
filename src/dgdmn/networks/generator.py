"""What a generator and a learner must do, ours or a user's own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from dgdmn.events import Listener
from dgdmn.networks.training import Loss, Step
from dgdmn.samples import Samples

Role = Literal["stm", "ltm"]
"""A network of a small short-term task memory, or of the large long-term memory."""


class Generator(Protocol):
    """G: models the inputs. Usually an `nn.Module`, which brings the last two methods along.

    Inputs and outputs are flat float tensors in [0, 1], shape (n, d). All randomness comes from the
    generator passed in, so that a seed gives the same bits.
    """

    def fit(self, x: Tensor, rng: torch.Generator, listen: Listener) -> None:
        """Train on these inputs, going on from the present weights."""

    def sample(self, n: int, rng: torch.Generator) -> Tensor:
        """Dream n inputs, shape (n, d)."""

    def reconstruct(self, x: Tensor) -> Tensor:
        """The inputs as this generator sees them; deterministic, row by row."""

    def reconstruction_loss(self, x: Tensor) -> Tensor:
        """How badly each input is reconstructed, shape (n,): lower is better known."""

    def state_dict(self) -> dict[str, Any]:
        """All that was learnt, as tensors."""

    def load_state_dict(self, state_dict: dict[str, Any]) -> object:
        """Take back what `state_dict` gave."""


@runtime_checkable
class Coder(Generator, Protocol):
    """A generator with a latent space: what an index of codes and a latent prior need. `VAE` is one.

    A generator of your own that is none dreams by `sample`, and is not indexed.
    """

    latent: int
    """Numbers in a code."""

    def posterior(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation of q(z | x), each (n, latent); no gradients."""

    def decoded(self, z: Tensor) -> Tensor:
        """The inputs that these codes stand for, shape (n, d); no gradients."""


class Learner(Protocol):
    """L: predicts a class index from an input."""

    def fit(self, samples: Samples, rng: torch.Generator, listen: Listener) -> None:
        """Train on labelled inputs, going on from the present weights."""

    def probabilities(self, x: Tensor) -> Tensor:
        """Class probabilities, shape (n, number of outputs)."""

    def grow(self, n_classes: int, rng: torch.Generator) -> None:
        """Make room for more classes; what is known of the old ones stays."""

    def state_dict(self) -> dict[str, Any]:
        """All that was learnt, as tensors."""

    def load_state_dict(self, state_dict: dict[str, Any]) -> object:
        """Take back what `state_dict` gave."""


@runtime_checkable
class ShapedLearner(Learner, Protocol):
    """A learner whose training an algorithm shapes, by a loss or a step of its own: EWC, SI, LwF, GEM, iCaRL, ER.

    `dgdmn.networks.learner.Classifier` is one; a learner of your own becomes one as a subclass of
    `dgdmn.networks.training.TrainedNetwork` with `forward` and `features`.
    """

    def __call__(self, x: Tensor, rng: torch.Generator | None = None) -> Tensor:
        """Logits, shape (n, number of outputs), with gradients."""

    def parameters(self) -> Iterator[nn.Parameter]:
        """The weights."""

    def features(self, x: Tensor) -> Tensor:
        """What the last hidden layer makes of the inputs, shape (n, units); no gradients."""

    def train_with(
        self,
        loss: Loss,
        data: tuple[Tensor, ...],
        rng: torch.Generator,
        listen: Listener,
        step: Step = ...,
        also: Sequence[Tensor] = ...,
    ) -> None:
        """Train by this loss and these steps, which may add to tensors in `also`, from the present weights."""


class GeneratorFactory(Protocol):
    """How a generator is made: a class with this signature will do."""

    def __call__(self, shape: tuple[int, ...], role: Role, rng: torch.Generator) -> Generator:
        """Make an untrained generator for inputs of this shape: (d,), (h, w) or (h, w, channels)."""


class LearnerFactory(Protocol):
    """How a learner is made."""

    def __call__(self, shape: tuple[int, ...], n_classes: int, role: Role, rng: torch.Generator) -> Learner:
        """Make an untrained learner with this many outputs."""
