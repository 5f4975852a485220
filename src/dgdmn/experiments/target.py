"""A target: a table, a figure or a claim, the runs it needs, and how many seeds of each (no torch in here)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from dgdmn import presets
from dgdmn.experiments.spec import RunSpec

SEEDS = {"digits": 3, "split-digits": 3, "shapes": 3, "hindi": 3, "permnist": 2, "tdigits": 1}
"""Seeds of each dataset with the `paper` preset unless told otherwise: what hours of two cores allow."""

BEST_SEEDS = 3
"""Seeds of each run with the preset `best`: its targets are means of at least so many. A stranger has one."""


@dataclass(frozen=True)
class Target:
    """A table, a figure or a claim, and what must be run for it."""

    name: str
    """What it is called on the command line."""
    what: str
    """What it shows, in a line."""
    runs: tuple[RunSpec, ...]
    """Its runs with seed 0; other seeds are the same with another number."""
    artefacts: tuple[str, ...] = ()
    """Arrays that it is drawn from: they are in run directories only, not in collected results."""
    one: bool = False
    """Whether one seed is all it can show."""

    def specs(self, seeds: int = 0) -> list[RunSpec]:
        """Its runs, with so many seeds each; 0: as many as they have by default."""
        return [
            replace(run, seed=seed)
            for run in self.runs
            for seed in range(1 if self.one else seeds or default_seeds(run))
        ]


def default_seeds(run: RunSpec) -> int:
    """Seeds of a run where the user does not say how many.

    >>> default_seeds(run_of("tdigits", "dgdmn")), default_seeds(run_of("tdigits", "dgdmn", "best"))
    (1, 3)
    """
    return BEST_SEEDS if run.preset == "best" else SEEDS.get(run.dataset, 1)


def run_of(
    dataset: str,
    algorithm: str,
    preset: str = "paper",
    *,
    revise: tuple[int, ...] = (),
    together: bool = False,
    **changes: Any,
) -> RunSpec:
    """A run with a preset on one thread, with some options changed.

    >>> run_of("digits", "dgdmn", n_stm=5).name
    'digits-dgdmn-paper-n_stm-5-seed0'
    """
    options = presets.overridden(presets.preset(preset, dataset), changes)
    return RunSpec(dataset, algorithm, preset, options, revise=revise, together=together)


def unique(specs: Iterable[RunSpec]) -> list[RunSpec]:
    """Each run once, however often it is asked for."""
    return list({spec.name: spec for spec in specs}.values())
