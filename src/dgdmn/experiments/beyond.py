"""What shows how far the preset `best` goes beyond the paper, as the runs it needs (no torch in here)."""

from __future__ import annotations

from typing import Any

from dgdmn.experiments.spec import RunSpec
from dgdmn.experiments.target import Target, run_of, unique

STREAMS = ("digits", "split-digits", "permnist", "hindi", "shapes", "tdigits")
"""The streams on which `best` has a target."""

ABLATED = ("digits", "hindi")
"""The streams of the ablation: a dense and a convolutional learner."""

OTHERWISE: tuple[dict[str, Any], ...] = (
    {"index": "none"},
    {"prior_components": 0},
    {"dreams": "once"},
    {"latent_noise": 0.0},
    {"answers": "learner"},
    {"momentum": 0.0},
    {"rate": "constant"},
    {"beta": 1.0},
    {"sttm_steps": 0},
    {"sttm_generator_layers": (128, 64)},
)
"""Each option of `best` off, as in `paper`, the layers as on Digits there."""


def _table() -> tuple[RunSpec, ...]:
    compared = (("dgdmn", "best"), ("dgdmn", "paper"), ("joint", "paper"))
    runs = [run_of(dataset, name, preset) for dataset in STREAMS for name, preset in compared]
    return *runs, *(run_of("digits", "dgdmn-recog", preset) for preset in ("best", "paper"))


def _ablation() -> tuple[RunSpec, ...]:
    described = [run_of(dataset, "dgdmn", "best", **way) for dataset in ABLATED for way in ({}, *OTHERWISE)]
    ways: tuple[dict[str, Any], ...] = ({}, {"recognition": "reconstruction"})
    runs = (*described, *(run_of("digits", "dgdmn-recog", "best", **way) for way in ways))
    return tuple(unique(runs))  # an option that a stream's `best` does not use is no run of its own


BEYOND = (
    Target("beyond-table", "the preset `best` beside the paper's, and Joint, on six streams", _table()),
    Target(
        "beyond-ablation",
        "`best` with each of its options off, one at a time, on Digits and Hindi",
        _ablation(),
    ),
    Target(
        "beyond-resilience",
        "the LTM of `best` beside the paper's and NN, trained jointly on Digits, under noise and occlusion",
        (
            run_of("digits", "dgr", "best", together=True),
            run_of("digits", "dgr", together=True),
            run_of("digits", "joint", together=True),
        ),
    ),
)
"""After the paper's own."""
