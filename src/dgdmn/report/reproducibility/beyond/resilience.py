"""The long-term memory of `best` under noise and occlusion, beside the paper's and a plain network."""

from __future__ import annotations

from collections.abc import Sequence

from dgdmn import paper
from dgdmn.report.ablations import Ablation
from dgdmn.report.entries import TOGETHER
from dgdmn.report.reproducibility.beyond.ablation import DATASETS, by_option
from dgdmn.report.reproducibility.beyond.aims import AIMS
from dgdmn.report.reproducibility.collected import Result
from dgdmn.report.reproducibility.goals import at_strength
from dgdmn.report.reproducibility.numbers import BEST, Shelf, explained, said, short, table
from dgdmn.report.words import dataset_name

STRENGTHS = (
    ("noise of sd .3, not clipped", "noise_accuracy_unclipped", 0.3),
    ("occlusion .28", "occlusion_accuracy", 0.28),
)
"""What it is called, where it is recorded, how strong."""
ALSO_CLIPPED = (STRENGTHS[0], ("noise of sd .3, clipped", "noise_accuracy", 0.3), STRENGTHS[1])
"""The same, with noise as it would be in a picture; at 0.3 it hurts a memory more."""


def resilience_table(shelf: Shelf) -> str:
    """Accuracy at the strongest of the paper's noise and occlusion: learnt jointly, and in sequence by option."""
    series = (
        shelf.find("digits", "dgr", f"{BEST}, {TOGETHER}"),
        shelf.find("digits", "dgr", TOGETHER),
        shelf.find("digits", "joint", TOGETHER),
    )
    rows = []
    for what, field, strength in ALSO_CLIPPED:
        curve = paper.curve(field.split("_")[0])
        theirs = dict(zip(curve.x, curve.series["ltm"], strict=True))[strength]
        ours = [at_strength(found, field, strength) for found in series]
        published = (
            "–" if field == "noise_accuracy" else short(theirs)
        )  # as we read the paper it did not clip
        rows.append([what, *(said(one) if one else "not run yet" for one in ours), published])
    jointly = table(["", "LTM, `best`", "LTM, `paper`", "NN", "the paper's LTM"], rows)
    return explained(f"Learnt jointly, Digits:\n\n{jointly}", _by_stream(shelf), _in_sequence(shelf))


def _by_stream(shelf: Shelf) -> str:
    """`paper` and `best` at the end of each stream."""
    head = [f"{preset}, {what}" for what, _, _ in ALSO_CLIPPED for preset in ("`paper`", "`best`")]
    rows = []
    for dataset in dict.fromkeys(aim.dataset for aim in AIMS):
        both = [shelf.find(dataset, "dgdmn", how) for how in ("", BEST)]
        cells = [
            said(at_strength(found, field, strength)) for _, field, strength in ALSO_CLIPPED for found in both
        ]
        rows.append([dataset_name(dataset), *cells])
    return f"Learnt in sequence:\n\n{table(['', *head], rows)}"


def _in_sequence(shelf: Shelf) -> str:
    """The same at the end of a stream, with each option of `best` changed alone; empty before there is any."""
    best = Shelf(tuple(one for one in shelf.results if one.run.preset == "best"))
    changed = {label: found for (name, label), found in by_option(best).items() if name == "dgdmn"}
    if not changed:
        return ""
    head = [
        "",
        *(f"{dataset_name(name)}, {what}" for name in DATASETS for what, _, _ in STRENGTHS),
    ]
    rows = [["`best`", *(cell for name in DATASETS for cell in _spoilt(shelf.find(name, "dgdmn", BEST)))]]
    for label, found in changed.items():
        rows.append([label, *(cell for name in DATASETS for cell in _spoilt(_of(best, found.get(name))))])
    return explained(f"`best` in sequence, each option changed alone:\n\n{table(head, rows)}", _WHY)


def _of(best: Shelf, one: Ablation | None) -> list[Result]:
    """The results of an option's changed runs."""
    names = {changed.name for changed, _ in one.pairs} if one else set()
    return [result for result in best.results if result.run.name in names]


def _spoilt(results: Sequence[Result]) -> list[str]:
    return [said(at_strength(results, field, strength)) for _, field, strength in STRENGTHS]


_WHY = (
    "Under occlusion `best` is more robust than `paper` on every stream learnt in sequence, and less where both learn "
    "Digits jointly. Under noise it depends on the stream and on the noise: not clipped, better on Digits, Hindi and "
    "Shapes, worse on Split Digits, on Permnist and jointly; clipped, worse on Hindi and Shapes only. Of its options "
    "momentum costs most under noise on both streams, then the prior's say in the answer and β; under "
    "occlusion β costs something on Digits, and the prior and its say help. Hypothesis: a generator that fits "
    "closer reconstructs noise more faithfully too, and a prior takes a latent far from all its components at its word."
)
