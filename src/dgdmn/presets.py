"""Appendix B as data: the one home of every hyper-parameter (no torch in here)."""

from __future__ import annotations

import ast
import inspect
import itertools
import math
import re
from dataclasses import asdict, dataclass, fields, replace
from numbers import Integral, Real
from typing import Any, Literal

from dgdmn.errors import UsageError, suggestion


@dataclass(frozen=True)
class Preset:
    """Every number a memory is built and trained with. Defaults are the paper's for Digits."""

    n_stm: int = 2
    """n_STM: short-term task memories, and so tasks between two sleeps (appendix B)."""
    n_max: int = 60_000
    """N_max: most samples one replay trains on (the dataset's size, appendix B)."""
    kappa: float = 0.0
    """κ: least share of N_max kept for new samples ("small, so that it does not come into play", appendix B)."""
    kappa_per: Literal["replay", "task"] = "replay"
    """κ is a floor for one `replay` (Algorithm 1, line 6) or for each new `task` in it (appendix B)."""
    age: Literal["seen", "letter"] = "seen"
    """What line 21 adds to `age`: the new samples `seen` (section 3.1), or N_total to the `letter`."""
    reconstructed: Literal["new", "all", "none"] = "new"
    """What the learner trains on as reconstructions: `new` samples (lines 23-24), `all`, or `none`."""
    optimiser_state: Literal["fresh", "kept"] = "fresh"
    """Whether RMSProp's running squares start anew with each training (not in the paper)."""
    gamma: float = 1.55
    """γ: recognition loss below which a memory knows a task (appendix A)."""
    recognise_each: Literal["batch", "sample"] = "batch"
    """Without a descriptor, whether the whole `batch` is one task (appendix A) or each `sample` is judged alone."""
    recog_trainings: int = 2
    """DGDMN-recog: most trainings of a generator in a row until its loss is below γ (appendix A; the bound ours)."""

    learner_layers: tuple[int, ...] = (24, 24)
    """Hidden dense units of the learner L (appendix B)."""
    learner_convolutions: tuple[int, ...] = ()
    """Kernels of the learner's 3 × 3 convolutions, each with 2 × 2 max-pooling; none: dense (appendix B)."""
    n_classes: int = 0
    """Output units, fixed from the start as in appendix B; 0: the layer grows with the classes met."""
    generator_layers: tuple[int, ...] = (400, 200)
    """Hidden dense units of the encoder, mirrored in the decoder (two layers in appendix B; sizes ours)."""
    generator_convolutions: tuple[int, ...] = ()
    """Kernels of the encoder's strided 4 × 4 convolutions, mirrored in the decoder (sizes ours)."""
    latent: int = 32
    """Size of the latent variable z of the long-term memory (appendix B)."""
    sttm_learner_layers: tuple[int, ...] = (16, 16)
    """Hidden dense units of an STTM's learner: "smaller for speed and efficiency" (appendix B; sizes ours)."""
    sttm_learner_convolutions: tuple[int, ...] = ()
    """Convolutions of an STTM's learner (sizes ours)."""
    sttm_generator_layers: tuple[int, ...] = (128, 64)
    """Hidden dense units of an STTM's encoder: "kept smaller" (appendix B; sizes ours)."""
    sttm_generator_convolutions: tuple[int, ...] = ()
    """Convolutions of an STTM's encoder (sizes ours)."""
    sttm_latent: int = 16
    """Latent size of an STTM (ours)."""

    generator_epochs: int = 25
    """Epochs of a generator, "regardless of the task or dataset" (appendix B)."""
    learner_epochs: int = 6
    """Epochs of a classifier "when trained sequentially over tasks" (appendix B)."""
    joint_epochs: int = 20
    """Epochs of a classifier "when trained jointly" (appendix B)."""
    min_steps: int = 0
    """At least this many optimiser steps a training, by more epochs: for small data (not in the paper)."""
    batch_size: int = 128
    """Samples in a mini-batch (appendix B)."""
    learning_rate: float = 0.001
    """RMSProp's step (appendix B)."""
    rho: float = 0.9
    """RMSProp's memory of squared gradients (appendix B)."""
    epsilon: float = 1e-8
    """Added to RMSProp's root, outside of it as in Keras (appendix B)."""
    clip_norm: float = 1.0
    """Largest norm of a generator's whole gradient; 0: no clipping (appendix B)."""
    clip_value: float = 0.5
    """Largest element of a generator's gradient after that; 0: no clipping (appendix B)."""
    momentum: float = 0.0
    """Share of the last step's direction in the next; 0: RMSProp as in appendix B (ours)."""
    rate: Literal["constant", "cycle"] = "constant"
    """The step size is `constant` (appendix B), or rises to `learning_rate` and falls once in a training (ours)."""
    beta: float = 1.0
    """Weight of the KL term in the generator's loss (1: the variational bound, appendix B's VAE)."""

    index: Literal["none", "codes"] = "none"
    """An STTM dreams at sleep, or decodes the `codes` of its samples, kept until then: sharp, not private (ours)."""
    prior_components: int = 0
    """Gaussians over the LTM's latents, shared by the classes, to dream from with known labels; 0: N(0, I) (ours)."""
    soft_labels: float = 0.0
    """Share of the learner's own answer in the target of a dream whose label is known (ours)."""
    latent_noise: float = 0.0
    """Posterior deviations added to the latent of what the learner sees reconstructed; 0: its mean (ours)."""

    dropout: float = 0.2
    """DropNN: share of units dropped after each hidden layer (appendix B)."""
    ppr_memory: int = 18_000
    """PPR: samples trained on, new ones and random ones; 0: three times the new ones (appendix B)."""
    ewc_coefficient: float = 100.0
    """EWC: weight of the Fisher penalty (appendix B)."""
    si_strength: float = 0.1
    """SI: weight c of the surrogate loss (Zenke 2017, permuted MNIST)."""
    si_damping: float = 0.1
    """SI: ξ, keeps the importance of a weight that hardly moved finite (Zenke 2017)."""
    lwf_weight: float = 1.0
    """LwF: λ_o, weight of the old network's answers (Li & Hoiem 2017)."""
    lwf_temperature: float = 2.0
    """LwF: temperature T that softens those answers (Li & Hoiem 2017)."""
    gem_margin: float = 0.5
    """GEM: γ, how far a gradient is bent towards the tasks it would harm (Lopez-Paz 2017)."""
    exemplars: int = 0
    """GEM, iCaRL, ER: raw rows kept; 0: as many as fit into the bytes of DGDMN's memory (ours)."""

    samples_per_task: int = 0
    """Rows of each task used to train, and at most as many to test, drawn by the seed; 0: all, as in the paper."""

    def __post_init__(self) -> None:
        for field in fields(self):
            _check_kind(field.name, getattr(self, field.name), str(field.type))
        for name, symbol, low, high in _RANGES:
            value = getattr(self, name)
            if not low <= value <= high:
                named = f"{name} ({symbol})" if symbol else name
                allowed = f"in [{low:g}, {high:g}]" if high < _ANY else f"at least {low:g}"
                raise UsageError(f"{named} is {value}; it must be {allowed}")
        if self.rho >= 1:
            raise UsageError(f"rho (ρ) is {self.rho}; it must be below 1")


def _check_kind(name: str, value: Any, kind: str) -> None:
    """Refuse what is not of the field's kind: a whole number, a number, layer sizes or a word."""
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    if kind == "int" and not whole:
        raise UsageError(f"{name} is {value!r}; it must be a whole number")
    if kind == "float" and not (isinstance(value, Real) and math.isfinite(value)):
        raise UsageError(f"{name} is {value!r}; it must be a finite number")
    if kind.startswith("tuple"):
        sizes = isinstance(value, tuple) and all(
            isinstance(units, int | Integral) and int(units) >= 1 for units in value
        )
        if not sizes:
            raise UsageError(f"{name} is {value!r}; it must be a tuple of layer sizes, each at least 1")
    if kind.startswith("Literal"):
        words = re.findall(r"['\"](\w+)['\"]", kind)
        if value not in words:
            raise UsageError(f"{name} is {value!r}; it must be one of {', '.join(words)}")


_ANY = float("inf")
_RANGES = (
    ("n_stm", "n_STM", 1, _ANY),
    ("n_max", "N_max", 1, _ANY),
    ("kappa", "κ", 0, 1),
    ("gamma", "γ", 0, _ANY),
    ("recog_trainings", "", 1, _ANY),
    ("n_classes", "", 0, _ANY),
    ("latent", "", 1, _ANY),
    ("sttm_latent", "", 1, _ANY),
    ("generator_epochs", "", 1, _ANY),
    ("learner_epochs", "", 1, _ANY),
    ("joint_epochs", "", 1, _ANY),
    ("min_steps", "", 0, _ANY),
    ("batch_size", "", 1, _ANY),
    ("learning_rate", "", 1e-12, _ANY),
    ("rho", "ρ", 0, 1),
    ("epsilon", "ε", 0, _ANY),
    ("momentum", "", 0, 0.999),
    ("clip_norm", "", 0, _ANY),
    ("clip_value", "", 0, _ANY),
    ("beta", "β", 0, _ANY),
    ("prior_components", "", 0, _ANY),
    ("soft_labels", "", 0, 1),
    ("latent_noise", "", 0, _ANY),
    ("dropout", "", 0, 0.99),
    ("ppr_memory", "", 0, _ANY),
    ("ewc_coefficient", "λ", 0, _ANY),
    ("si_strength", "c", 0, _ANY),
    ("si_damping", "ξ", 1e-12, _ANY),
    ("lwf_weight", "λ_o", 0, _ANY),
    ("lwf_temperature", "T", 1e-3, _ANY),
    ("gem_margin", "γ", 0, _ANY),
    ("exemplars", "", 0, _ANY),
    ("samples_per_task", "", 0, _ANY),
)

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
        latent=96,
        learner_layers=(36, 36),
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
    ),
    "split-digits": replace(_DIGITS, learner_layers=(400, 400), sttm_learner_layers=(100, 100), ppr_memory=0),
    "embedded": replace(
        _DIGITS, n_max=1_437, generator_layers=(256, 128), batch_size=32, min_steps=1_000, ppr_memory=0
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


def _quick(preset: Preset) -> Preset:
    """The same code in under a minute: fewer samples and epochs."""
    return replace(
        preset,
        samples_per_task=200,
        ppr_memory=0,
        n_max=min(preset.n_max, 2_000),
        generator_epochs=5,
        learner_epochs=6,
        joint_epochs=6,
        batch_size=32,
        min_steps=150,
        learning_rate=0.003,
        clip_norm=0.0,
        clip_value=0.0,
    )


COMPONENTS = {"permnist": 180, "tdigits": 120, "hindi": 80, "shapes": 60}
"""Gaussians of the latent prior, ours: about ten a class, fewer where a class has many numbers to a code."""


def _best(preset: Preset, components: int) -> Preset:
    """Beyond the paper: codes until sleep, dreams from where the latents are, and a better optimiser.

    The same learners, N_max and n_STM, no kept rows. Fewer epochs of the LTM's generator, which take the time,
    and more of the STTMs', whose blur is passed on: docs/decisions/best.md.
    """
    return replace(
        preset,
        index="codes",
        prior_components=components,
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


PRESETS = ("paper", "best", "quick", "arrays")


def preset(name: str, dataset: str | None = None) -> Preset:
    """The preset of that name for a dataset; without one, Digits' sizes with outputs that grow.

    >>> preset("paper", "tdigits").kappa
    0.05
    """
    if name not in PRESETS:
        raise UsageError(f"no preset {name!r}{suggestion(name, PRESETS)}; there are {', '.join(PRESETS)}")
    if name == "arrays":
        return ARRAYS
    if dataset is not None and dataset not in PAPER:
        raise UsageError(
            f"no preset for {dataset!r}{suggestion(dataset, PAPER)}; there are presets for {', '.join(PAPER)}"
        )
    base = replace(_DIGITS, n_classes=0) if dataset is None else PAPER[dataset]
    if name == "best":
        return _best(base, COMPONENTS.get(dataset or "", 100))
    return base if name == "paper" else _quick(base)


def overridden(preset: Preset, changes: dict[str, Any]) -> Preset:
    """The preset with some fields changed; None leaves a field as it is."""
    known = {field.name for field in fields(Preset)}
    for name in changes.keys() - known:
        raise UsageError(f"no hyper-parameter {name!r}{suggestion(name, known)}")
    return replace(preset, **{name: value for name, value in changes.items() if value is not None})


def as_dict(preset: Preset) -> dict[str, Any]:
    """The preset as plain JSON values."""
    return {
        name: list(value) if isinstance(value, tuple) else value for name, value in asdict(preset).items()
    }


def sources_of(name: str, dataset: str) -> dict[str, str]:
    """What each field means and where its value in this preset comes from."""
    chosen, paper, docs = preset(name, dataset), PAPER.get(dataset, _DIGITS), field_docs()
    for field, doc in docs.items():
        value = getattr(chosen, field)
        if value == getattr(_DIGITS, field):
            continue
        own = "ours" if value != getattr(paper, field) else WHENCE.get(dataset, {}).get(field, "ours")
        meaning = doc.rsplit(" (", 1)[0] if doc.endswith(").") else doc.rstrip(".")
        docs[field] = f"{meaning} ({own})."
    return docs


def field_docs() -> dict[str, str]:
    """What each field means, from the docstring under it."""
    body = ast.parse(inspect.getsource(Preset)).body[0]
    assert isinstance(body, ast.ClassDef)
    docs = {}
    for statement, following in itertools.pairwise(body.body):
        if isinstance(statement, ast.AnnAssign) and isinstance(following, ast.Expr):
            assert isinstance(statement.target, ast.Name)
            docs[statement.target.id] = " ".join(str(ast.literal_eval(following.value)).split())
    return docs
