"""Config: every hyperparameter, what it means, its range and where its value comes from."""

import dataclasses
import sys
from dataclasses import dataclass, fields
from functools import cache
from numbers import Integral, Real
from typing import Any, Literal, get_args, get_origin, get_type_hints

from dgdmn.core.errors import UsageError
from dgdmn.core.text import shorten

MAX_NUMBER = 1e30
"""Largest real number: its products with weights still fit float32."""
MAX_LAYERS, MAX_UNITS = 1_000, 1_000_000
"""Most layers of a network, and the largest layer."""


def option(default: Any, low: float = 0, high: float = MAX_NUMBER, symbol: str = "") -> Any:
    """A numeric field with its allowed range and its symbol in the paper."""
    return dataclasses.field(default=default, metadata={"range": (low, high), "symbol": symbol})


@dataclass(frozen=True)
class Config:
    """Every number a memory is built and trained with. Defaults are the paper's for Digits."""

    n_stm: int = option(2, low=1, high=10_000, symbol="n_STM")
    """n_STM: number of short-term task memories, so also tasks between two sleeps (appendix B)."""
    n_max: int = option(60_000, low=1, high=10_000_000, symbol="N_max")
    """N_max: maximum number of samples per replay (the dataset's size, appendix B)."""
    kappa: float = option(0.0, high=1, symbol="κ")
    """κ: minimum share of N_max for new samples ("small, so that it does not come into play", appendix B)."""
    kappa_per: Literal["replay", "task"] = "replay"
    """κ is a floor for one `replay` (Algorithm 1, line 6) or for each new `task` in it (appendix B)."""
    age: Literal["seen", "n_total"] = "seen"
    """What `age` counts: new samples (`seen`, section 3.1) or N_total (`n_total`, line 21)."""
    reconstruct_inputs: Literal["new", "all", "none"] = "new"
    """Which samples the learner sees as reconstructions: `new` ones (lines 23-24), `all` or `none`."""
    gamma: float = option(1.55, symbol="γ")
    """γ: a memory knows a task if its recognition loss is below this (appendix A)."""
    recognition: Literal["reconstruction", "density"] = "reconstruction"
    """A memory is recognized by its reconstruction loss (appendix A), or also by the latent density (ours)."""
    recognize_per: Literal["batch", "sample"] = "batch"
    """Without a task name, judge the whole `batch` as one task (appendix A) or each `sample` alone."""
    recog_trainings: int = option(2, low=1, high=1_000)
    """DGDMN-recog: maximum trainings of a generator until its loss is below γ (appendix A; the bound is ours)."""

    learner_layers: tuple[int, ...] = (24, 24)
    """Hidden dense units of the learner L (appendix B)."""
    learner_convolutions: tuple[int, ...] = ()
    """Kernels of the learner's 3 × 3 convolutions, each with 2 × 2 max-pooling (appendix B)."""
    n_classes: int = option(0, high=1_000_000)
    """Output units, fixed from the start as in appendix B; 0: the output layer grows."""
    generator_layers: tuple[int, ...] = (400, 200)
    """Hidden dense units of the encoder, mirrored in the decoder (two layers in appendix B; sizes ours)."""
    generator_convolutions: tuple[int, ...] = ()
    """Kernels of the encoder's strided 4 × 4 convolutions, mirrored in the decoder (sizes ours)."""
    latent_dim: int = option(32, low=1, high=100_000)
    """Size of the latent variable z of the long-term memory (appendix B)."""
    sttm_learner_layers: tuple[int, ...] = (16, 16)
    """Hidden dense units of a task memory's learner: "smaller for speed" (appendix B; sizes ours)."""
    sttm_learner_convolutions: tuple[int, ...] = ()
    """Convolutions of a task memory's learner (sizes ours)."""
    sttm_generator_layers: tuple[int, ...] = (128, 64)
    """Hidden dense units of a task memory's encoder: "kept smaller" (appendix B; sizes ours)."""
    sttm_generator_convolutions: tuple[int, ...] = ()
    """Convolutions of a task memory's encoder (sizes ours)."""
    sttm_latent_dim: int = option(16, low=1, high=100_000)
    """Latent size of a task memory (ours)."""

    generator_epochs: int = option(25, low=1, high=1_000_000)
    """Epochs of a generator, "regardless of the task or dataset" (appendix B)."""
    learner_epochs: int = option(6, low=1, high=1_000_000)
    """Epochs of a classifier "when trained sequentially over tasks" (appendix B)."""
    joint_epochs: int = option(20, low=1, high=1_000_000)
    """Epochs of a classifier "when trained jointly" (appendix B)."""
    min_steps: int = option(0, high=100_000_000)
    """Minimum optimizer steps per training; small data gets more epochs (not in the paper)."""
    sttm_min_steps: int = option(0, high=100_000_000)
    """Minimum optimizer steps of a task memory's generator; its blur is passed on to the long-term memory (ours)."""
    batch_size: int = option(128, low=1, high=10_000_000)
    """Samples in a mini-batch (appendix B)."""
    learning_rate: float = option(0.001, low=1e-12)
    """RMSProp's step size (appendix B)."""
    rho: float = option(0.9, high=1, symbol="ρ")
    """RMSProp's decay of squared gradients (appendix B)."""
    epsilon: float = option(1e-8, low=1e-12, symbol="ε")
    """Added to RMSProp's root, outside of it as in Keras (appendix B)."""
    clip_norm: float = option(1.0)
    """Largest norm of a generator's whole gradient; 0: no clipping (appendix B)."""
    clip_value: float = option(0.5)
    """Largest element of a generator's gradient after that; 0: no clipping (appendix B)."""
    clip_probability: float = option(0.0, high=0.1)
    """Clip probabilities in the cross-entropy to [c, 1 - c], as Keras of 2017 did with 1e-7; 0: off
    (not in the paper)."""
    momentum: float = option(0.0, high=0.999)
    """Momentum of the optimizer; 0: RMSProp as in appendix B (ours)."""
    lr_schedule: Literal["constant", "one_cycle"] = "constant"
    """Step size: `constant` (appendix B), or one rise and fall per training, `one_cycle` (ours)."""
    beta: float = option(1.0, symbol="β")
    """β: weight of the KL term in the generator's loss; 1 is the VAE of appendix B. Use β below 1
    only together with a latent prior."""

    code_buffer: bool = False
    """Keep the latent codes of a task's samples until the next sleep and decode them there (ours)."""
    prior_components: int = option(0, high=1_000_000)
    """Gaussians over the long-term memory's latents, at least one for each class; 0: N(0, I) (ours)."""
    resample_dreams: bool = False
    """With latent_noise and a prior: draw new dreams each time the learner sees them (ours)."""
    latent_noise: float = option(0.0)
    """Posterior deviations added to latents when the learner trains; 0: reconstruct_inputs applies (ours)."""
    predict_with: Literal["learner", "learner+prior"] = "learner"
    """The long-term memory predicts with its learner (figure 1), or with its latent prior too (ours)."""

    dropout: float = option(0.2, high=0.99)
    """DropNN: share of units dropped after each hidden layer (appendix B)."""
    ppr_memory: int = option(18_000, high=10_000_000)
    """PPR: samples trained on, new and random; 0: three times the new ones (appendix B)."""
    ewc_coefficient: float = option(100.0, symbol="λ")
    """EWC: λ, weight of the Fisher penalty (appendix B)."""
    si_strength: float = option(0.1, symbol="c")
    """SI: c, weight of the surrogate loss (Zenke 2017, permuted MNIST)."""
    si_damping: float = option(0.1, low=1e-12, symbol="ξ")
    """SI: ξ, bounds the importance of a weight that hardly moved (Zenke 2017)."""
    lwf_weight: float = option(1.0, symbol="λ_o")
    """LwF: λ_o, weight of the distillation loss (Li & Hoiem 2017)."""
    lwf_temperature: float = option(2.0, low=1e-3, symbol="T")
    """LwF: distillation temperature T (Li & Hoiem 2017)."""
    gem_margin: float = option(0.5, symbol="γ")
    """GEM: γ, margin of the gradient projection (Lopez-Paz 2017)."""
    exemplars: int = option(0, high=100_000_000)
    """GEM, iCaRL, ER: training rows kept; 0: as many as fit the bytes of DGDMN's memory (ours)."""

    generator: Literal["vae", "mixture"] = "vae"
    """Generative memory: `vae` (appendix B), or `mixture`, exact sums in a fixed code (ours)."""
    memory_budget: int = option(8_000_000, low=1_000, high=10**12)
    """Mixture: bytes of everything kept, short-term memory included; old components shrink to fit (ours)."""
    code_dim: int = option(0, high=100_000)
    """Mixture: numbers in the code of a component's own covariance; 0: all up to 256 features, else 192 (ours)."""
    own_covariance: float = option(-1.0, low=-1, high=1, symbol="g")
    """Mixture: g, weight of a component's own covariance; -1: chosen by the number of rows, unless held-out
    rows prefer another value (ours)."""
    priors: Literal["uniform", "empirical"] = "uniform"
    """Mixture: class priors, `uniform`, or `empirical`: proportional to the rows of a class (ours)."""
    features: Literal["auto", "gabor", "relu", "none"] = "auto"
    """Front end of the mixture and of closed-form methods: `auto` has filters for images, random units for tables
    (ours)."""
    code_seed: int = option(0, high=2**32 - 1)
    """Seed of filters, random units and codes; never random_state, so that memories can be merged (ours)."""
    shrinkage: float = option(0.0, high=1, symbol="λ")
    """Mixture, SLDA, Ridge: λ, shrinkage toward the diagonal, or the ridge penalty; 0: chosen by held-out rows, in
    the mixture by the number of rows unless held-out rows prefer another value (ours)."""
    ridge_units: int = option(2_000, low=1, high=100_000)
    """Ridge: random ReLU units, 10,000 in the publication (ours)."""

    tdigits_classes: Literal[40, 10] = 40
    """TDigits with 40 classes, one per transformed digit, or 10, as the paper's curves suggest (ours)."""
    samples_per_task: int = option(0, high=100_000_000)
    """Rows of each task used to train and at most as many to test, drawn by the seed; 0: all."""

    def __post_init__(self) -> None:
        for field in fields(self):
            kind, value = _field_types()[field.name], getattr(self, field.name)
            if isinstance(value, list):
                value = tuple(value)
            _check_kind(field.name, value, kind)
            if field.metadata:
                low, high = field.metadata["range"]
                _check_range(field.name, value, low, high, field.metadata["symbol"])
            object.__setattr__(self, field.name, _plain(value, kind))
        if self.rho >= 1:
            raise UsageError(f"rho (ρ) is {self.rho}; it must be below 1")


@cache
def _field_types() -> dict[str, Any]:
    return get_type_hints(Config)


def _plain(value: Any, kind: Any) -> Any:
    """The value in the type of its field: equal configs have equal JSON, and so equal keys."""
    if kind in (int, float):
        return kind(value)
    if isinstance(value, tuple):
        return tuple(int(units) for units in value)
    choices = get_args(kind)
    return choices[choices.index(value)] if choices else value


def _check_kind(name: str, value: Any, kind: Any) -> None:
    if kind is bool:
        right, allowed = isinstance(value, bool), "True or False"
    elif kind is int:
        right, allowed = _is_whole(value), "a whole number"
    elif kind is float:
        number = isinstance(value, Real) and not isinstance(value, bool)
        right, allowed = number and abs(value) <= sys.float_info.max, "a finite number"
    elif get_origin(kind) is Literal:
        choices = get_args(kind)
        right, allowed = value in choices, f"one of {', '.join(map(str, choices))}"
    else:
        right = isinstance(value, tuple) and len(value) <= MAX_LAYERS
        right = right and all(_is_whole(units) and 1 <= units <= MAX_UNITS for units in value)
        allowed = f"a tuple of up to {MAX_LAYERS:,} layer sizes from 1 to {MAX_UNITS:,}"
    if not right:
        raise UsageError(f"{name} is {shorten(repr(value))}; it must be {allowed}")


def _is_whole(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _check_range(name: str, value: float, low: float, high: float, symbol: str) -> None:
    if not low <= value <= high:
        named = f"{name} ({symbol})" if symbol else name
        most = f"{high:,}" if isinstance(high, int) else f"{high:g}"
        allowed = f"in [{low:g}, {high:g}]" if high <= 1 else f"at least {low:g} and at most {most}"
        raise UsageError(f"{named} is {shorten(repr(value))}; it must be {allowed}")
