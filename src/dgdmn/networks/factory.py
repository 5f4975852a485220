"""Which networks a memory is made of: the preset's, or a user's own."""

from __future__ import annotations

from dataclasses import dataclass

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
    """Shape of one input: (d,), (h, w) or (h, w, channels)."""
    device: str = "cpu"
    own_generator: GeneratorFactory | None = None
    own_learner: LearnerFactory | None = None

    def generator(self, role: Role, rng: torch.Generator) -> Generator:
        """G for a short-term task memory or the long-term memory."""
        if self.own_generator is not None:
            return self.own_generator(self.shape, role, rng)
        c, small = self.config, role == "stm"
        vae = VAE(
            self.shape,
            hidden=c.sttm_generator_layers if small else c.generator_layers,
            convolutions=c.sttm_generator_convolutions if small else c.generator_convolutions,
            latent_dim=c.sttm_latent_dim if small else c.latent_dim,
            beta=c.beta,
            schedule=self._schedule(
                c.generator_epochs, c.sttm_min_steps if small else 0, clip=True
            ),
            rng=rng,
        )
        return to_device(vae, self.device)

    def learner(
        self,
        role: Role,
        n_classes: int,
        rng: torch.Generator,
        *,
        epochs: int | None = None,
        dropout: float = 0.0,
    ) -> Learner:
        """L for a short-term task memory or the long-term memory."""
        if self.own_learner is not None:
            return self.own_learner(self.shape, n_classes, role, rng)
        c, small = self.config, role == "stm"
        classifier = Classifier(
            self.shape,
            n_classes,
            hidden=c.sttm_learner_layers if small else c.learner_layers,
            convolutions=c.sttm_learner_convolutions if small else c.learner_convolutions,
            dropout=dropout,
            clip_probability=c.clip_probability,
            schedule=self._schedule(epochs or c.learner_epochs, clip=False),
            rng=rng,
        )
        return to_device(classifier, self.device)

    def _schedule(self, epochs: int, min_steps: int = 0, *, clip: bool) -> Schedule:
        c = self.config
        return Schedule(
            epochs=epochs,
            batch_size=c.batch_size,
            learning_rate=c.learning_rate,
            rho=c.rho,
            epsilon=c.epsilon,
            momentum=c.momentum,
            clip_norm=c.clip_norm if clip else 0.0,
            clip_value=c.clip_value if clip else 0.0,
            min_steps=max(min_steps, c.min_steps),
            one_cycle=c.lr_schedule == "one_cycle",
        )
