"""The preset that goes beyond the paper."""

from __future__ import annotations

from dataclasses import replace

from dgdmn.presets.fields import Preset

COMPONENTS = {"permnist": 180, "tdigits": 120, "hindi": 80, "shapes": 60}
"""Gaussians of the latent prior, ours: about ten a class, fewer where a class has many numbers to a code."""


def best(preset: Preset, dataset: str | None) -> Preset:
    """Beyond the paper: codes until sleep, dreams from where the latents are, and a better optimiser.

    The same learners, N_max and n_STM, no kept rows. Fewer epochs of the LTM's generator, which take the time,
    and more of the STTMs', whose blur is passed on: docs/decisions/best.md.
    """
    return replace(
        preset,
        index="codes",
        prior_components=COMPONENTS.get(dataset or "", 100),
        soft_labels=0.5,
        latent_noise=1.0,
        beta=0.1,
        sttm_latent=32,
        sttm_generator_layers=(256,),
        min_steps=max(2_000, preset.min_steps),
        momentum=0.9,
        rate="cycle",
        learning_rate=0.003,
        generator_epochs=20,
        learner_epochs=10,
    )
