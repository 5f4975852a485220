"""What `best` should reach on each stream, as its issue says, and whether it does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dgdmn import paper
from dgdmn.report.colours import display_name
from dgdmn.report.reproducibility.collected import Result
from dgdmn.report.reproducibility.goals import Goal, last_ten, outcome
from dgdmn.report.reproducibility.numbers import BEST, Shelf, acc, each, mean, paired, said, short, values
from dgdmn.report.reproducibility.reasons import reason

SEEDS = 3
"""Seeds that each target asks for."""


@dataclass(frozen=True)
class Aim:
    """A target of `best` on a stream."""

    stream: str
    """What people call it, and what of it is measured."""
    dataset: str
    least: float
    """The accuracy to reach; of `near_joint`, how far below Joint it may stay."""
    algorithm: str = "dgdmn"
    value: Callable[[Result], float] = acc
    """What is measured of a run."""
    curve: str = ""
    """The figure of the paper that has its number; empty: the paper's table and text."""
    near_joint: bool = False
    """Whether the target is Joint on the same data."""
    note: str = ""
    """What must be said of the paper's number."""

    @property
    def target(self) -> str:
        """What is to be reached, in short."""
        number = short(self.least).removesuffix("0")
        return f"Joint − {number}" if self.near_joint else number

    def runs(self, shelf: Shelf, how: str = BEST) -> tuple[Result, ...]:
        """The seeds of `best`; with an empty `how`, of `paper`."""
        return shelf.find(self.dataset, self.algorithm, how)

    def published(self) -> str:
        """The best number of the paper, and whose it is."""
        if self.curve:
            known = {name: series[-1] for name, series in paper.curve(self.curve).series.items()}
        else:
            names = [self.algorithm] if self.algorithm != "dgdmn" else list(paper.table("acc"))
            found = {name: paper.published(name, self.dataset) for name in names}
            known = {name: one.acc for name, one in found.items() if one}
        if not known:
            return "–"
        name = max(known, key=lambda name: known[name])
        return f"{short(known[name])} ({display_name(name)}{self.note})"


AIMS = (
    Aim("Digits", "digits", 0.955),
    Aim("Split Digits", "split-digits", 0.96),
    Aim("Permnist", "permnist", 0.95),
    Aim("Hindi", "hindi", 0.95),
    Aim("Shapes", "shapes", 0.04, near_joint=True, note=", on full data"),
    Aim("TDigits, last 10 tasks", "tdigits", 0.90, value=last_ten, curve="tdigits_last10"),
    Aim("TDigits, all 40 tasks", "tdigits", 0.82, curve="tdigits_avg_acc"),
    Aim("Digits without descriptors", "digits", 0.94, algorithm="dgdmn-recog"),
)
"""In the issue's order."""


def best_goals(shelf: Shelf) -> list[Goal]:
    """All of them."""
    return [goal(aim, shelf) for aim in AIMS]


def goal(aim: Aim, shelf: Shelf) -> Goal:
    """Whether it is reached."""
    what = f"`best` on {aim.stream}: ACC ≥ {aim.target}"
    if not aim.near_joint:
        mine = values(aim.runs(shelf), aim.value)
        reached = outcome(bool(mine), lambda: mean(mine) >= aim.least)
        return Goal(what, said(mine), reached, len(mine), SEEDS, each(mine), _why(aim, len(mine)))
    both = paired(aim.runs(shelf), shelf.find(aim.dataset, "joint"))
    mine, joint = (values(found, aim.value) for found in both)
    reached = outcome(bool(mine), lambda: mean(mine) >= mean(joint) - aim.least)
    told = f"{said(mine)}, Joint {said(joint)}" if mine else "–"
    by_seed = f"{each(mine)}, Joint {each(joint)}"
    return Goal(f"{what}, the same seeds", told, reached, len(mine), SEEDS, by_seed, _why(aim, len(mine)))


def _why(aim: Aim, seeds: int) -> str:
    return reason(("best", aim.dataset, aim.algorithm), seeds)
