"""The long-term memory of `best` under noise and occlusion, beside the paper's and a plain network."""

from __future__ import annotations

from dgdmn import paper
from dgdmn.report.entries import TOGETHER
from dgdmn.report.reproducibility.goals import at_strength
from dgdmn.report.reproducibility.numbers import BEST, Shelf, said, short, table

STRENGTHS = (
    ("noise of sd .3, not clipped", "noise_accuracy_unclipped", 0.3),
    ("occlusion .28", "occlusion_accuracy", 0.28),
)
"""What it is called, where it is recorded, how strong."""


def resilience_table(shelf: Shelf) -> str:
    """Accuracy at the strongest of the paper's noise and occlusion."""
    series = (
        shelf.find("digits", "dgr", f"{BEST}, {TOGETHER}"),
        shelf.find("digits", "dgr", TOGETHER),
        shelf.find("digits", "joint", TOGETHER),
    )
    rows = []
    for what, field, strength in STRENGTHS:
        curve = paper.curve(field.split("_")[0])
        theirs = dict(zip(curve.x, curve.series["ltm"], strict=True))[strength]
        ours = [at_strength(found, field, strength) for found in series]
        rows.append([what, *(said(one) if one else "not run yet" for one in ours), short(theirs)])
    return table(["", "LTM, `best`", "LTM, `paper`", "NN", "the paper's LTM"], rows) + f"\n\n{_WHY}"


_WHY = (
    "Hypothesis, not tested: with β = .1 the generator of `best` reconstructs what it is given more faithfully, noise "
    "and squares included, where β = 1 pulls it back to what it knows; and an answer by the prior takes a latent far "
    "from all components at its word."
)
