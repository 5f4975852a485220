"""Preset: every hyper-parameter, what it means and where it comes from."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal

from dgdmn.presets.checks import check_kind, check_ranges


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
    allocation: Literal["age", "class"] = "age"
    """The past gets its share by its `age` (Algorithm 1), or with a latent prior as much a `class` as is new (ours)."""
    reconstructed: Literal["new", "all", "none"] = "new"
    """What the learner trains on as reconstructions: `new` samples (lines 23-24), `all`, or `none`."""
    optimiser_state: Literal["fresh", "kept"] = "fresh"
    """Whether RMSProp's running squares start anew with each training (not in the paper)."""
    gamma: float = 1.55
    """γ: recognition loss below which a memory knows a task (appendix A)."""
    recognition: Literal["reconstruction", "density"] = "reconstruction"
    """A memory knows what it can reconstruct (appendix A), or that and whose latent lies where its own do: fewer
    mistaken memories, for (components) · d² products a sample and a prior in each STTM (ours)."""
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
    sttm_steps: int = 0
    """At least this many steps of an STTM's generator, whose blur is passed on to all that follows (ours)."""
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
    clip_probability: float = 0.0
    """Classifiers' cross-entropy sees probabilities no nearer to 0 and 1 than this: Keras of 2017 had 1e-7, below which
    a class has no gradient and is not learnt; 0: exact (not in the paper)."""
    momentum: float = 0.0
    """Share of the last step's direction in the next; it costs a buffer of the weights' size, and robustness to noise;
    0: RMSProp as in appendix B (ours)."""
    rate: Literal["constant", "cycle"] = "constant"
    """The step size is `constant` (appendix B), or rises to `learning_rate` and falls once in a training, at no
    cost (ours)."""
    beta: float = 1.0
    """Weight of the KL term in the generator's loss (1: the variational bound, appendix B's VAE). Less reconstructs
    more sharply, costs no time, and leaves N(0, I), so it wants a prior."""

    index: Literal["none", "codes"] = "none"
    """An STTM dreams at sleep, or decodes the `codes` of its samples, kept until then: sharp, not private, 2 bytes a
    number (ours)."""
    prior_components: int = 0
    """Gaussians over the LTM's latents, shared by the classes (one each if they are more), to dream from with known
    labels; 0: N(0, I) (ours)."""
    dreams: Literal["once", "anew"] = "once"
    """The learner is taught the generator's dreams, drawn `once`, or, where it has `latent_noise`, the prior's, drawn
    `anew` at each visit (ours)."""
    soft_labels: float = 0.0
    """Share of the learner's own answer in the target of a dream whose label is known (ours)."""
    latent_noise: float = 0.0
    """Posterior deviations added to the latent of what the learner sees reconstructed, so that it learns what dreams
    look like, for a decoding a visit; 0: its mean (ours). Where there is some, `reconstructed` is not asked."""
    answers: Literal["learner", "both"] = "learner"
    """The LTM's learner answers alone (figure 1), or it and how likely the latent is in each class, `both` (ours)."""

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

    tdigits: Literal["forty", "ten"] = "forty"
    """TDigits as `forty` classes, by transformation, or `ten`, by digit, as the paper's curves suggest (ours)."""
    samples_per_task: int = 0
    """Rows of each task used to train, and at most as many to test, drawn by the seed; 0: all, as in the paper."""

    def __post_init__(self) -> None:
        for field in fields(self):
            check_kind(field.name, getattr(self, field.name), str(field.type))
        check_ranges(vars(self))
