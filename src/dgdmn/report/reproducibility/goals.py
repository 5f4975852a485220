"""What a reproduction should reach, as its issue says, and whether the results at hand do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from dgdmn import metrics, paper
from dgdmn.report.colours import display_name
from dgdmn.report.entries import TOGETHER
from dgdmn.report.reproducibility.collected import Result
from dgdmn.report.reproducibility.not_learnt import not_learnt, without
from dgdmn.report.reproducibility.numbers import (
    Shelf,
    acc,
    each,
    mean,
    paired,
    said,
    short,
    signed,
    training_times,
    values,
)
from dgdmn.report.reproducibility.reasons import reason
from dgdmn.report.words import dataset_name
from dgdmn.wording import counted

DATASETS = ("digits", "permnist", "shapes", "hindi")
BASELINES = ("nn", "dropnn", "ppr", "ewc")
SEEDS = {"digits": 3, "shapes": 3, "hindi": 3, "permnist": 2, "tdigits": 1}
"""Seeds that a target on a dataset asks for."""
Status = Literal["reached", "not reached", "not measured yet"]


@dataclass(frozen=True)
class Goal:
    """A target, ours, and whether it is reached."""

    what: str
    ours: str
    status: Status
    seeds: int
    """The fewest seeds that anything in it was measured with."""
    asked: int
    """Seeds that it asks for."""
    by_seed: str
    """The same for each seed."""
    why: str
    """The likely reason where it is not reached."""

    def __str__(self) -> str:
        if self.status == "not measured yet":
            return self.status
        if self.seeds < self.asked:
            return f"{self.status} so far ({self.seeds} of {counted(self.asked, 'seed')})"
        return f"**{self.status}** ({counted(self.seeds, 'seed')})"


def goals(shelf: Shelf) -> list[Goal]:
    """All of them, in the issue's order."""
    least = (
        ("dgdmn", "digits"),
        ("dgdmn", "permnist"),
        ("dgdmn", "hindi"),
        ("dgr", "permnist"),
        ("dgr", "hindi"),
    )
    return [
        *(
            _above_baselines(shelf, algorithm, dataset)
            for algorithm in ("dgr", "dgdmn")
            for dataset in DATASETS
        ),
        *(_at_least(shelf, algorithm, dataset) for algorithm, dataset in least),
        _last_ten(shelf),
        _faster(shelf),
        _resilient(
            shelf,
            "noise_accuracy_unclipped",
            0.3,
            "noise of sd .3 (not clipped: our reading, deviation 10)",
            otherwise=("clipped", "noise_accuracy"),
        ),
        _resilient(shelf, "occlusion_accuracy", 0.28, "occlusion .28"),
        _recognised(shelf),
    ]


def missed(known: Sequence[Goal]) -> str:
    """Those that are not reached, seed by seed and with the likely reason; empty where all are."""
    lines = [
        f"- {one.what}; seed by seed {one.by_seed}. {one.why}" for one in known if one.status == "not reached"
    ]
    return "\n".join(["Not reached:\n", *lines]) if lines else ""


def dual_minus_single(shelf: Shelf) -> list[tuple[str, str]]:
    """DGDMN − DGR in ACC for each dataset, ours and the paper's sign; and without tasks that one never learnt."""
    lines = []
    for dataset in DATASETS:
        found = [shelf.find(dataset, name) for name in ("dgdmn", "dgr")]
        dual, single = (values(results, acc) for results in found)
        published = [paper.published(name, dataset) for name in ("dgdmn", "dgr")]
        theirs = published[0].acc - published[1].acc if published[0] and published[1] else None
        ours = signed(mean(dual) - mean(single)) if dual and single else "not run yet"
        seeds = f" ({len(dual)} and {len(single)} seeds)" if dual and single else ""
        told = f"{ours}{seeds}; the paper {signed(theirs)}"
        columns = sorted({column for results in found for column in not_learnt(results)})
        if dual and single and columns:
            names = ", ".join(found[0][0].run.tasks[column] for column in columns)
            rest = mean(without(found[0], columns)) - mean(without(found[1], columns))
            told += f"; ours without {names}, not learnt by one of them when it came, {signed(rest)}"
        lines.append((dataset_name(dataset), told))
    return lines


def outcome(known: bool, reached: Callable[[], bool]) -> Status:
    """Whether something is reached, if it is known."""
    if not known:
        return "not measured yet"
    return "reached" if reached() else "not reached"


def _fewest(*measured: Sequence[float]) -> int:
    return min(map(len, measured))


def _above_baselines(shelf: Shelf, algorithm: str, dataset: str) -> Goal:
    mine = values(shelf.find(dataset, algorithm), acc)
    theirs = {name: values(shelf.find(dataset, name), acc) for name in BASELINES}
    known = {name: mean(numbers) for name, numbers in theirs.items() if numbers}
    best = max(known, key=lambda name: known[name]) if known else ""
    against = f", best baseline {display_name(best)} {short(known[best])}" if known else ""
    missing = [display_name(name) for name in BASELINES if name not in known]
    lacking = f"; no run of {', '.join(missing)}" if missing else ""
    what = f"{display_name(algorithm)} above every sequential baseline in ACC, {dataset_name(dataset)}"
    status = outcome(bool(mine) and not missing, lambda: mean(mine) > known[best])
    return Goal(
        what,
        f"{said(mine)}{against}{lacking}",
        status,
        _fewest(mine, *theirs.values()),
        SEEDS[dataset],
        each(mine),
        reason(("acc", dataset, algorithm), len(mine)),
    )


def _at_least(shelf: Shelf, algorithm: str, dataset: str) -> Goal:
    published = paper.published(algorithm, dataset)
    assert published is not None
    mine = values(shelf.find(dataset, algorithm), acc)
    what = f"{display_name(algorithm)} on {dataset_name(dataset)}: ACC ≥ {short(published.acc)}"
    return Goal(
        what,
        said(mine),
        outcome(bool(mine), lambda: mean(mine) >= published.acc),
        len(mine),
        SEEDS[dataset],
        each(mine),
        reason(("acc", dataset, algorithm), len(mine)),
    )


def last_ten(one: Result) -> float:
    """Accuracy on the ten tasks seen last, at a run's end."""
    return float(metrics.last_k(one.run.accuracy, 10, one.run.columns)[-1])


def _last_ten(shelf: Shelf) -> Goal:
    mine = values(shelf.find("tdigits", "dgdmn"), last_ten)
    return Goal(
        "DGDMN on TDigits: last 10 tasks at task 40 ≥ .83",
        said(mine),
        outcome(bool(mine), lambda: mean(mine) >= 0.83),
        len(mine),
        SEEDS["tdigits"],
        each(mine),
        reason(("last10", "tdigits", "dgdmn"), len(mine)),
    )


def _faster(shelf: Shelf) -> Goal:
    taken = training_times(shelf.find("tdigits", "dgr"), shelf.find("tdigits", "dgdmn"))
    single, dual = taken.groups
    known = taken.comparable
    times = mean(single) / mean(dual) if known else 0.0
    return Goal(
        "DGDMN on TDigits at least 3.3 × faster than DGR",
        f"{times:.1f} × ({mean(single):,.0f} s and {mean(dual):,.0f} s, {taken.clock})" if known else "–",
        outcome(known, lambda: times >= 3.3),
        _fewest(single, dual),
        SEEDS["tdigits"],
        " and ".join(", ".join(f"{one:,.0f} s" for one in group) for group in (single, dual)),
        reason(("time", "tdigits", "dgdmn"), _fewest(single, dual)),
    )


def at_strength(results: Sequence[Result], field: str, strength: float) -> list[float]:
    """Accuracy of each run under one strength of noise or occlusion, where it was measured."""
    return [known[strength] for one in results if strength in (known := one.resilience(field))]


def _resilient(
    shelf: Shelf, field: str, strength: float, what: str, otherwise: tuple[str, str] | None = None
) -> Goal:
    """`otherwise`: another reading of the same, by name and field, told beside it."""

    def both(field: str) -> tuple[list[float], list[float]]:
        found = (shelf.find("digits", name, TOGETHER) for name in ("dgr", "joint"))
        memory, network = (at_strength(results, field, strength) for results in found)
        return memory, network

    memory, network = both(field)
    other = ""
    if otherwise and all(read := both(otherwise[1])):
        other = f"; {otherwise[0]} {said(read[0])}, NN {said(read[1])}"
    return Goal(
        f"LTM above NN under {what}",
        f"{said(memory)}, NN {said(network)}{other}",
        outcome(bool(memory and network), lambda: mean(memory) > mean(network)),
        _fewest(memory, network),
        SEEDS["digits"],
        f"{each(memory)}, NN {each(network)}",
        reason(("above NN", "digits", "ltm"), len(memory)),
    )


def _recognised(shelf: Shelf) -> Goal:
    both = paired(shelf.find("digits", "dgdmn-recog"), shelf.find("digits", "dgdmn"))
    without, given = (values(found, acc) for found in both)
    return Goal(
        "DGDMN-recog within .05 of DGDMN on Digits, the same seeds",
        f"{said(without)}, with descriptors {said(given)}" if without else "–",
        outcome(bool(without), lambda: mean(without) >= mean(given) - 0.05),
        len(without),
        SEEDS["digits"],
        f"{each(without)}, with descriptors {each(given)}",
        reason(("acc", "digits", "dgdmn-recog"), len(without)),
    )
