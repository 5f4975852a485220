"""The preset that goes beyond the paper."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from dgdmn.presets.arrays import ARRAYS
from dgdmn.presets.fields import Preset

_OPTIONS: dict[str, Any] = {
    "index": "codes",
    "dreams": "anew",
    "latent_noise": 1.0,
    "answers": "both",
    "recognition": "density",
    "momentum": 0.9,
    "rate": "cycle",
}
"""What makes it up: codes until sleep, dreams from where the latents are, and a better optimiser."""

_STREAMS: dict[str, Any] = {
    "gamma": 0.8,
    "prior_components": 400,
    "beta": 0.1,
    "sttm_latent": 32,
    "sttm_generator_layers": (256,),
    "sttm_steps": 2_000,
    "learning_rate": 0.003,
    "generator_epochs": 12,
    "learner_epochs": 10,
}
"""Digits'. Fewer epochs of the LTM's generator, which take the time, more of the STTMs', whose blur is passed on."""

_DENSE: dict[str, Any] = {
    "generator_convolutions": (),
    "generator_layers": (1_000,),
    "sttm_generator_convolutions": (),
    "sttm_generator_layers": (400,),
}
"""One wide layer reconstructs small drawings better than the convolutions that cost three times as much."""

_OWN: dict[str, dict[str, Any]] = {
    "permnist": {"prior_components": 200, "generator_epochs": 17},
    "tdigits": {"latent": 48, "generator_epochs": 15, "kappa_per": "replay"},
    "shapes": {**_DENSE, "generator_epochs": 30, "learner_epochs": 12},
    "hindi": {**_DENSE, "generator_epochs": 32, "sttm_steps": 1_500},
    "embedded": {"prior_components": 100, "sttm_steps": 0, "sttm_generator_layers": (128,), "min_steps": 300},
}
"""Where a stream differs from Digits."""

BEST_ARRAYS = replace(
    ARRAYS,
    **{**_OPTIONS, "recognition": "reconstruction"},
    prior_components=100,
    beta=0.003,
    learning_rate=0.005,
    generator_layers=(128,),
    sttm_generator_layers=(64,),
    sttm_latent=8,
)
"""For anyone's own arrays (docs/decisions/own-arrays.md); of a few features a density says too little to be asked."""


def best(preset: Preset, dataset: str) -> Preset:
    """Beyond the paper with the same learners, N_max and n_STM, and no kept rows: docs/decisions/best.md."""
    return replace(preset, **{**_OPTIONS, **_STREAMS, **_OWN.get(dataset, {})})
