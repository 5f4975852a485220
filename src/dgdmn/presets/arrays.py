"""The preset for data the paper does not know."""

from __future__ import annotations

from dgdmn.presets.fields import Preset

ARRAYS = Preset(
    n_max=100_000,
    learner_layers=(64, 64),
    generator_layers=(128, 64),
    latent=8,
    sttm_learner_layers=(32, 32),
    sttm_generator_layers=(64, 32),
    sttm_latent=4,
    batch_size=32,
    min_steps=600,
    learning_rate=0.003,
    clip_norm=0.0,
    clip_value=0.0,
    beta=0.01,
    gamma=1e6,
    recognise_each="sample",
    ppr_memory=0,
)
"""For anyone's own arrays, whose classes and sizes are not known beforehand.

β is small because a few numeric features carry far less than an image's hundred nats, and a generator
that must pay the full KL for them would learn to ignore its input (docs/decisions/own-arrays.md).
γ is out of reach because features are no ink: there is no scale on which a loss says "unknown", so the
memory that reconstructs best always answers, for each sample alone: rows of several tasks may come mixed.
"""
