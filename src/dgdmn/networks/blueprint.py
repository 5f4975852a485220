"""Which networks a memory is made of: the preset's, or a user's own."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from dgdmn.networks.generator import Generator, GeneratorFactory, Learner, LearnerFactory, Role
from dgdmn.networks.layers import placed
from dgdmn.networks.learner import Classifier
from dgdmn.networks.training import Schedule
from dgdmn.networks.vae import VAE
from dgdmn.presets import Preset


@dataclass(frozen=True)
class Blueprint:
    """Makes untrained networks for inputs of one shape."""

    preset: Preset
    shape: tuple[int, ...]
    """Shape of one input: (d,), (h, w) or (h, w, channels)."""
    device: str = "cpu"
    own_generator: GeneratorFactory | None = None
    own_learner: LearnerFactory | None = None
    until_known: bool = False
    """Whether generators train on until they know their samples (appendix A)."""

    def generator(self, role: Role, rng: torch.Generator) -> Generator:
        """G for a short-term task memory or the long-term memory."""
        if self.own_generator is not None:
            return self.own_generator(self.shape, role, rng)
        p, small = self.preset, role == "stm"
        return placed(
            VAE(
                self.shape,
                hidden=p.sttm_generator_layers if small else p.generator_layers,
                convolutions=p.sttm_generator_convolutions if small else p.generator_convolutions,
                latent=p.sttm_latent if small else p.latent,
                beta=p.beta,
                schedule=self._schedule(p.generator_epochs, p.sttm_steps if small else 0, clip=True),
                keep_optimiser=p.optimiser_state == "kept",
                rng=rng,
            ),
            self.device,
        )

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
        p, small = self.preset, role == "stm"
        return placed(
            Classifier(
                self.shape,
                n_classes,
                hidden=p.sttm_learner_layers if small else p.learner_layers,
                convolutions=p.sttm_learner_convolutions if small else p.learner_convolutions,
                dropout=dropout,
                clip_probability=p.clip_probability,
                schedule=self._schedule(epochs or p.learner_epochs, clip=False),
                keep_optimiser=p.optimiser_state == "kept",
                rng=rng,
            ),
            self.device,
        )

    def _schedule(self, epochs: int, steps: int = 0, *, clip: bool) -> Schedule:
        p = self.preset
        return Schedule(
            epochs=epochs,
            batch_size=p.batch_size,
            learning_rate=p.learning_rate,
            rho=p.rho,
            epsilon=p.epsilon,
            momentum=p.momentum,
            clip_norm=p.clip_norm if clip else 0.0,
            clip_value=p.clip_value if clip else 0.0,
            min_steps=max(steps, p.min_steps),
            cycle=p.rate == "cycle",
        )
