"""The presets as data: `paper` (appendix B), `deep` (ours, beyond it) and `quick` (a first look)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from dgdmn.config.config import Config

_DIGITS = Config(n_classes=10)
_CONVOLUTIONAL = replace(
    _DIGITS,
    generator_layers=(400,),
    generator_convolutions=(16, 32),
    sttm_generator_layers=(100,),
    sttm_generator_convolutions=(8, 16),
    sttm_learner_convolutions=(8, 12),
)

PAPER: dict[str, Config] = {
    "digits": _DIGITS,
    "permnist": replace(
        _DIGITS,
        n_max=180_000,
        ppr_memory=60_000,
        latent_dim=64,
        learner_layers=(48, 48),
        sttm_learner_layers=(40, 40),
        sttm_generator_layers=(200, 100),
        sttm_latent_dim=32,
    ),
    "tdigits": replace(
        _DIGITS,
        n_max=120_000,
        n_stm=5,
        kappa=0.05,
        kappa_per="task",
        latent_dim=96,
        learner_layers=(36, 36),
        sttm_generator_layers=(200, 100),
        sttm_latent_dim=32,
        n_classes=40,
        ppr_memory=0,
    ),
    "shapes": replace(
        _CONVOLUTIONAL,
        n_max=27_000,
        ppr_memory=15_000,
        latent_dim=32,
        learner_layers=(16,),
        learner_convolutions=(12, 20),
        n_classes=6,
        sttm_learner_layers=(16,),
        sttm_generator_convolutions=(16, 32),
    ),
    "hindi": replace(
        _CONVOLUTIONAL,
        n_max=13_600,
        ppr_memory=5_400,
        latent_dim=48,
        learner_layers=(144,),
        learner_convolutions=(24, 32),
        n_classes=36,
        sttm_learner_layers=(32,),
        sttm_generator_convolutions=(16, 32),
        sttm_latent_dim=32,
    ),
    "split-digits": replace(
        _DIGITS, learner_layers=(400, 400), sttm_learner_layers=(100, 100), ppr_memory=0
    ),
    "embedded": replace(
        _DIGITS,
        n_max=1_437,
        generator_layers=(256, 128),
        batch_size=64,
        min_steps=600,
        ppr_memory=0,
    ),
}
"""Appendix B for the paper's five streams; our own entries for the rest."""

SOURCES: dict[str, dict[str, str]] = {
    "permnist": {
        "n_max": "6 × 30,000, appendix B",
        "latent_dim": "appendix B",
        "learner_layers": "appendix B",
        "ppr_memory": "appendix B",
    },
    "tdigits": {
        "n_max": "half the dataset, section 4.2",
        "n_stm": "section 4.2",
        "kappa": "section 4.2",
        "kappa_per": "appendix B: half the memory for the last 10 tasks, so .05 each; n_STM of them leave 75 %",
        "latent_dim": "appendix B",
        "learner_layers": "appendix B",
        "n_classes": "40 tasks are 40 classes, appendix B",
    },
    "shapes": {
        "n_max": "6 × 4,500, appendix B",
        "ppr_memory": "appendix B",
        "learner_layers": "appendix B",
        "learner_convolutions": "appendix B",
        "n_classes": "appendix B",
    },
    "hindi": {
        "n_max": "8 × 1,700, appendix B",
        "ppr_memory": "appendix B",
        "latent_dim": "appendix B",
        "learner_layers": "appendix B",
        "learner_convolutions": "appendix B",
        "n_classes": 'appendix B: "144, 36", though eight consonants are learned',
    },
    "split-digits": {"learner_layers": "van de Ven's protocol"},
    "embedded": {
        "n_max": "the dataset's size",
        "batch_size": "ours: 144 rows a task",
        "min_steps": "ours",
    },
}
"""Source of each value that differs from the one for Digits; "ours" where nothing is listed."""

_DEEP: dict[str, Any] = {
    "code_buffer": True,
    "resample_dreams": True,
    "latent_noise": 1.0,
    "predict_with": "learner+prior",
    "recognition": "density",
    "momentum": 0.9,
    "lr_schedule": "one_cycle",
}
"""What `deep` adds: codes until sleep, a latent prior, and a better optimizer (docs/decisions/deep.md)."""

_DEEP_STREAMS: dict[str, Any] = {
    "gamma": 0.8,
    "prior_components": 400,
    "beta": 0.1,
    "sttm_latent_dim": 32,
    "sttm_generator_layers": (256,),
    "sttm_min_steps": 2_000,
    "learning_rate": 0.003,
    "generator_epochs": 12,
    "learner_epochs": 10,
}
"""For Digits: fewer epochs of the long-term generator, which takes most of the time, more of the task memories'."""

_DENSE: dict[str, Any] = {
    "generator_convolutions": (),
    "generator_layers": (1_000,),
    "sttm_generator_convolutions": (),
    "sttm_generator_layers": (400,),
}
"""One wide layer reconstructs small drawings better than convolutions that cost three times as much."""

_DEEP_BY_STREAM: dict[str, dict[str, Any]] = {
    "permnist": {"prior_components": 200, "generator_epochs": 17},
    "tdigits": {"latent_dim": 48, "generator_epochs": 15, "kappa_per": "replay"},
    "shapes": {**_DENSE, "generator_epochs": 30, "learner_epochs": 12},
    "hindi": {**_DENSE, "generator_epochs": 32, "sttm_min_steps": 1_500},
    "embedded": {
        "prior_components": 100,
        "sttm_min_steps": 0,
        "sttm_generator_layers": (128,),
        "min_steps": 300,
    },
}
"""Where `deep` for a stream differs from `deep` for Digits."""

DEEP_ARRAYS = Config(
    **{**_DEEP, "recognition": "reconstruction"},
    n_max=100_000,
    learner_layers=(64, 64),
    generator_layers=(128,),
    latent_dim=8,
    sttm_learner_layers=(32, 32),
    sttm_generator_layers=(64,),
    sttm_latent_dim=8,
    batch_size=32,
    min_steps=600,
    learning_rate=0.005,
    clip_norm=0.0,
    clip_value=0.0,
    beta=0.003,
    gamma=1e6,
    recognize_per="sample",
    ppr_memory=0,
    prior_components=100,
)
"""`deep` for anyone's own arrays, whose classes and sizes are unknown (docs/decisions/own-arrays.md).

A few numeric features carry far less information than an image, so β is small: with the full KL term the
generator would ignore its input. Features have no scale on which a loss means "unknown", so γ is out of
reach and each sample goes to the memory that reconstructs it best.
"""


def deep(stream: str | None) -> Config:
    """`deep` for a stream, or for own arrays."""
    if stream is None:
        return DEEP_ARRAYS
    return replace(PAPER[stream], **{**_DEEP, **_DEEP_STREAMS, **_DEEP_BY_STREAM.get(stream, {})})


def paper(stream: str | None) -> Config:
    """Appendix B for a stream; for own arrays the sizes of Digits with an output layer that grows."""
    return replace(PAPER["digits"], n_classes=0) if stream is None else PAPER[stream]


def quick(stream: str | None) -> Config:
    """The paper's networks in under a minute: fewer samples and epochs."""
    base = paper(stream)
    return replace(
        base,
        samples_per_task=200,
        ppr_memory=0,
        n_max=min(base.n_max, 2_000),
        generator_epochs=5,
        learner_epochs=6,
        joint_epochs=6,
        batch_size=32,
        min_steps=150,
        learning_rate=0.003,
        clip_norm=0.0,
        clip_value=0.0,
    )


PRESETS = {"best": deep, "deep": deep, "paper": paper, "quick": quick}
"""By name. `best` is what we recommend now; the others are fixed."""
DEFAULT_PRESET = "best"
