"""Make a memory's networks from the preset or from a user's factories."""

from dataclasses import dataclass
from typing import Any

import torch

from dgdmn.config import Config
from dgdmn.networks.classifier import Classifier
from dgdmn.networks.layers import to_device
from dgdmn.networks.protocols import Generator, GeneratorFactory, Learner, LearnerFactory, Role
from dgdmn.networks.train import Schedule
from dgdmn.networks.vae import VAE


@dataclass(frozen=True)
class NetworkFactory:
    """Makes untrained networks for inputs of one shape."""

    config: Config
    shape: tuple[int, ...]
    device: str = "cpu"
    own_generator: GeneratorFactory | None = None
    own_learner: LearnerFactory | None = None

    def generator(self, role: Role, rng: torch.Generator) -> Generator:
        """G for a short-term task memory or the long-term memory."""
        if self.own_generator is not None:
            return self.own_generator(self.shape, role, rng)
        min_steps = self._option(role, "min_steps")
        network = VAE(
            self.shape,
            hidden=self._option(role, "generator_layers"),
            convolutions=self._option(role, "generator_convolutions"),
            latent_dim=self._option(role, "latent_dim"),
            beta=self.config.beta,
            schedule=self._schedule(self.config.generator_epochs, min_steps, clip=True),
            rng=rng,
        )
        return to_device(network, self.device)

    def learner(
        self, role: Role, n_classes: int, rng: torch.Generator, epochs: int = 0, dropout: float = 0
    ) -> Learner:
        """L for either memory, or for an algorithm without memories; `epochs` replaces the option."""
        if self.own_learner is not None:
            return self.own_learner(self.shape, n_classes, role, rng)
        network = Classifier(
            self.shape,
            n_classes,
            hidden=self._option(role, "learner_layers"),
            convolutions=self._option(role, "learner_convolutions"),
            dropout=dropout,
            clip_probability=self.config.clip_probability,
            schedule=self._schedule(epochs or self.config.learner_epochs, self.config.min_steps),
            rng=rng,
        )
        return to_device(network, self.device)

    def _option(self, role: Role, name: str) -> Any:
        return getattr(self.config, f"sttm_{name}" if role == "stm" else name)

    def _schedule(self, epochs: int, min_steps: int, *, clip: bool = False) -> Schedule:
        c, shared = self.config, ["batch_size", "learning_rate", "rho", "epsilon", "momentum"]
        shared += ["clip_norm", "clip_value"] if clip else []
        options: dict[str, Any] = {name: getattr(c, name) for name in shared}
        options["one_cycle"] = c.lr_schedule == "one_cycle"
        return Schedule(epochs, min_steps=max(min_steps, c.min_steps), **options)
