"""Why a number is below the paper's: kept by hand, each from docs/LOG.md or the paper's own words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dgdmn.report.reproducibility.numbers import mean, short
from dgdmn.report.reproducibility.verdicts import judge

Key = tuple[str, str, str]
"""What is measured, dataset and algorithm."""

_SATURATED = (
    "With one class a task the accuracy is 1/T whatever happens, and BWT only says how many tasks were learnt at "
    "all: the paper's network never learnt some of them (section 4.1 calls it saturation of the softmax bias), "
    "ours learns each and then forgets it. The higher BWT is not better. The likely reason is the loss: with "
    "probabilities clipped as Keras of 2017 did, ours does not learn some either (`ablation-clipping`)."
)

_EWC = (
    "Five of six averages after each task agree with the paper's curve or are better; the last task differs. "
    'λ = 100 lies at an edge there. The paper\'s EWC "stagnates after Task 3" and "did not learn Task 6 the first '
    'time", so its BWT is that of one which learns less and keeps it; ours learns the last tasks (.77 and .73) and '
    "pays for them. On validation rows, seed 0, λ 100, 200, 300 and 1,000 gave ACC .755, .746, .738 and .708, BWT "
    "−.083, −.060, −.051 and −.031: a larger λ brings BWT to the paper's and takes ACC away from it, so a constant in "
    "front of λ explains one of the two at most; with care, since most of those rows are in other tasks' training "
    "parts, permuted otherwise, and test rows gave −.170 at 100. Left at 100, as the text says."
)

_PERMUTED = (
    "Hypothesis: other images and other permutations. Each seed draws its own; the paper does not give its draw, and "
    "what a network without replay forgets may depend on it."
)

_SHAPES = (
    "Two hypotheses. This is a part of Quick, Draw! only: three of the six shapes have some 400 drawings, and warps of "
    "the same drawings fill up their training part, so Joint on the same data says more than the paper's number. And "
    "the blur of the STTMs' dreams, which DGR, at the paper's number here, does without: their sizes were chosen while "
    "a bug scrambled gradients, and not searched again; on Hindi that search raised ACC on validation rows by .075, on "
    "test rows by .02."
)

_HINDI = (
    "Hypothesis: the blur of the STTMs' dreams. DGDMN's LTM learns from them where DGR's has the rows, and DGR is "
    "above the paper's. The paper does not give the sizes of its VAEs; with larger STTMs ACC on validation rows went "
    "from .650 to .725, on test rows from .645 to .664 (docs/LOG.md)."
)

_SQUARE = (
    "Hypothesis: another square. The paper does not say where it lies, how large it is or of what colour. Ours was "
    "chosen by the network alone, and at a half-width of 2 pixels, factors .16 and .19, that one is below the "
    "paper's too: .770 against .798 (mean of five networks). So the paper's seems to hide a little less there."
)

_LONG = (
    "By how much this moves from sleep to sleep (.80 to .86 in one run), the paper's one run cannot be told from ours. "
    "Likely limit: the blur of what is consolidated, since even the five newest tasks have .85 right after their "
    "sleep. Tried, seed 0 (`ablation-tdigits`): smaller task memories .812, and with κ for each replay .764, so their "
    "size, which is ours, matters, and appendix B's κ too. Read as ten classes, which fits the shape of the paper's "
    "curve better, .795 and .814, so that reading alone does not raise it. Not tried to the end: task memories above "
    "200-100, other layers of the LTM."
)

_LONG_SINGLE = (
    "One run. It did not learn eight tasks in a row when they came (below), as DGR on Digits does not learn the last "
    "digit; that alone can cost a third of the average after 20 tasks, where ours is far below the paper's curve. Why "
    "is not known; a likely cause of the last digit's is in docs/LOG.md. Second hypothesis: the paper read TDigits as "
    "ten classes, digit by digit, so that a new class comes with every fourth task only (docs/decisions/tdigits.md); "
    "not run for DGR, which takes two and a half hours."
)

REASONS: dict[Key, str] = {
    **{(metric, "permnist", "ewc"): _EWC for metric in ("acc", "bwt")},
    **{(metric, "permnist", name): _PERMUTED for metric in ("acc", "bwt") for name in ("nn", "dropnn", "ppr")},
    **{(metric, "shapes", name): _SHAPES for metric in ("acc", "bwt") for name in ("dgr", "dgdmn")},
    **{(metric, "hindi", "dgdmn"): _HINDI for metric in ("acc", "bwt")},
    **{
        ("bwt", dataset, algorithm): _SATURATED
        for dataset, algorithm in (
            ("digits", "nn"), ("digits", "ppr"), ("shapes", "nn"), ("shapes", "dropnn"), ("shapes", "ppr"),
        )
    },
    ("occlusion", "digits", "ltm"): _SQUARE,
    ("occlusion", "digits", "nn"): _SQUARE,
    ("last10", "tdigits", "dgdmn"): _LONG,
    ("last10", "tdigits", "dgr"): _LONG_SINGLE,
}  # fmt: skip
"""Shown where a verdict is not `reproduced`, or a target is not reached."""

UNEXPLAINED = "Not explained yet."
"""What is said where nobody knows."""
TOO_EARLY = "One run: too early to say."
"""What is said of a single run."""


def reason(key: Key, seeds: int) -> str:
    """Why a number is too low, or the best hypothesis."""
    return REASONS.get(key, TOO_EARLY if seeds == 1 else UNEXPLAINED)


def below(compared: Iterable[tuple[str, Sequence[float], float | None, Key]]) -> str:
    """Of names, seeds, the paper's numbers and keys those that are too low, by their reasons; empty: none is."""
    found: dict[str, list[str]] = {}
    for what, ours, published, key in compared:
        verdict = judge(ours, published)
        if verdict.lower:
            told = f"{what}, {short(mean(ours))} against {short(published)} ({verdict})"
            found.setdefault(reason(key, len(ours)), []).append(told)
    lines = [f"- {'; '.join(told)}. {why}" for why, told in found.items()]
    return "\n".join(["Below the paper's:\n", *lines]) if lines else ""
