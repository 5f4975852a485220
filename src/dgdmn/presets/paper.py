"""The paper's values for each stream, and where each comes from."""

from __future__ import annotations

from dataclasses import replace

from dgdmn.presets.fields import Preset

_DIGITS = Preset(n_classes=10)
_CONVOLUTIONAL = replace(
    _DIGITS,
    generator_layers=(400,),
    generator_convolutions=(16, 32),
    sttm_generator_layers=(100,),
    sttm_generator_convolutions=(8, 16),
    sttm_learner_convolutions=(8, 12),
)

PAPER: dict[str, Preset] = {
    "digits": _DIGITS,
    "permnist": replace(
        _DIGITS,
        n_max=180_000,
        ppr_memory=60_000,
        latent=64,
        learner_layers=(48, 48),
        sttm_learner_layers=(40, 40),
        sttm_generator_layers=(200, 100),
        sttm_latent=32,
    ),
    "tdigits": replace(
        _DIGITS,
        n_max=120_000,
        n_stm=5,
        kappa=0.05,
        kappa_per="task",
        latent=96,
        learner_layers=(36, 36),
        sttm_generator_layers=(200, 100),
        sttm_latent=32,
        n_classes=40,
        ppr_memory=0,
    ),
    "shapes": replace(
        _CONVOLUTIONAL,
        n_max=27_000,
        ppr_memory=15_000,
        latent=32,
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
        latent=48,
        learner_layers=(144,),
        learner_convolutions=(24, 32),
        n_classes=36,
        sttm_learner_layers=(32,),
        sttm_generator_convolutions=(16, 32),
        sttm_latent=32,
    ),
    "split-digits": replace(_DIGITS, learner_layers=(400, 400), sttm_learner_layers=(100, 100), ppr_memory=0),
    "embedded": replace(
        _DIGITS, n_max=1_437, generator_layers=(256, 128), batch_size=64, min_steps=600, ppr_memory=0
    ),
}
"""Appendix B for the paper's five streams; our own entries for the rest."""

WHENCE: dict[str, dict[str, str]] = {
    "permnist": {
        "n_max": "6 × 30,000, appendix B",
        "latent": "appendix B",
        "learner_layers": "appendix B",
        "ppr_memory": "appendix B",
    },
    "tdigits": {
        "n_max": "half the dataset, section 4.2",
        "n_stm": "section 4.2",
        "kappa": "section 4.2",
        "kappa_per": "appendix B: half the memory for the last 10 tasks, so .05 each; n_STM of them leave 75 %",
        "latent": "appendix B",
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
        "latent": "appendix B",
        "learner_layers": "appendix B",
        "learner_convolutions": "appendix B",
        "n_classes": 'appendix B: "144, 36", though eight consonants are learnt',
    },
    "split-digits": {"learner_layers": "van de Ven's protocol"},
    "embedded": {"n_max": "the dataset's size", "batch_size": "ours: 144 rows a task", "min_steps": "ours"},
}
"""Where a value comes from that differs from Digits'; ours, where nothing is said."""
