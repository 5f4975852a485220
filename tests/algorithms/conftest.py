"""Small estimators, and three tasks that they learn in a moment."""

import sys
from pathlib import Path

import numpy as np
import pytest

from dgdmn.algorithms import algorithm
from dgdmn.config.registry import ALGORITHMS

sys.path.append(str(Path(__file__).parent))  # for toy_memory

SMALL = {
    "learner_layers": (8,),
    "batch_size": 16,
    "learning_rate": 0.01,
    "min_steps": 8,
    "random_state": 0,
    "generator_layers": (8,),
    "latent_dim": 3,
    "generator_epochs": 1,
    "learner_epochs": 1,
    "joint_epochs": 1,
    "sttm_generator_layers": (8,),
    "sttm_latent_dim": 2,
    "sttm_learner_layers": (8,),
    "ridge_units": 30,
}


class Variant(str):
    """The name of an algorithm that is made with another preset than `deep`."""

    def __new__(cls, name, preset):
        variant = super().__new__(cls, name)
        variant.preset = preset
        return variant


VARIANTS = [Variant(name, "best") for name, info in ALGORITHMS.items() if info.generative]
"""The generative algorithms with the mixture memory."""


def estimator(name, **options):
    """The algorithm of that name with small networks; parameters it does not have are left out."""
    kind = algorithm(name)
    known, given = kind._get_param_names(), {"preset": getattr(name, "preset", "deep")}
    given |= {key: value for key, value in {**SMALL, **options}.items() if key in known}
    return kind(**given)


def suffix(name):
    return f":{name.preset}" if isinstance(name, Variant) else ""


@pytest.fixture(scope="session")
def make():
    return estimator


@pytest.fixture(params=[*ALGORITHMS, *VARIANTS], ids=lambda name: f"{name}{suffix(name)}")
def name(request):
    """Every algorithm, the generative ones with VAEs and with mixtures."""
    return request.param


@pytest.fixture(scope="session")
def tasks():
    """Three tasks of 6 × 6 images in [0, 1], one class each: another third of each image has ink."""
    rng = np.random.default_rng(0)

    def task(label):
        ink = np.arange(6)[:, None] // 2 == label
        return (np.where(ink, 0.8, 0.1) + rng.uniform(-0.1, 0.1, (24, 6, 6))).astype(np.float32)

    return [(task(label), np.full(24, label)) for label in range(3)]
