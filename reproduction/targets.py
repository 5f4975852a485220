"""Targets, from targets.toml: the runs each needs, what it makes of them, and the claim it checks."""

import itertools
import json
import re
import tomllib
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dgdmn.cli.options import Verb
from dgdmn.config import override, resolve
from dgdmn.config.registry import algorithm_info
from dgdmn.core.errors import UsageError, suggestion
from dgdmn.core.text import MISSING, count_noun, format_mean_sem
from dgdmn.report.table import mean
from dgdmn.runs.spec import RunSpec
from reproduction.results import MEASURES, Results, training_times

_DATA = tomllib.loads(Path(__file__).with_name("targets.toml").read_text("utf-8"))
COMMAND = Verb(**_DATA["command"])


@dataclass(frozen=True)
class Goal:
    """The mean of a measure must reach `least`, or the mean of the best rival plus `least`."""

    text: str
    spec: RunSpec
    rivals: tuple[RunSpec, ...]
    measure: str = "acc"  # a name in MEASURES; `speed`: how many times longer the rival trains
    least: float = 1e-9

    def check(self, results: Results) -> tuple[str, str]:
        """What was measured and whether the goal is reached. A single rival is compared by seed."""
        groups = [results.find(spec) for spec in (self.spec, *self.rivals)]
        if len(groups) == 2:
            common = {run.seed for run in groups[0]} & {run.seed for run in groups[1]}
            groups = [tuple(run for run in group if run.seed in common) for group in groups]
        if not all(groups):
            return MISSING, "not measured yet"
        seeds, least = min(map(len, groups)), self.least
        if self.measure == "speed":
            times = training_times(*groups)
            if times.clock == "other machines":
                return MISSING, "not measured yet"
            ours, rival = map(mean, times.groups)
            value, seeds = rival / ours, len(times.groups[0])
            text = f"{value:.1f} × ({rival:,.0f} s and {ours:,.0f} s, {times.clock})"
        else:
            mine, *others = ([MEASURES[self.measure](run) for run in group] for group in groups)
            value, text = mean(mine), format_mean_sem(mine)
            if others:
                best = max(range(len(others)), key=lambda i: mean(others[i]))
                name = algorithm_info(self.rivals[best].algorithm).title
                text += f"; {name} {format_mean_sem(others[best])}"
                least += mean(others[best])
        status = "reached" if value >= least else "not reached"
        return text, f"**{status}** ({count_noun(seeds, 'seed')})"


@dataclass(frozen=True)
class Target:
    """A table or figure of the paper, an ablation, or a table of ours; targets.toml says more."""

    name: str
    title: str
    runs: tuple[RunSpec, ...]  # with seed 0
    claim: str = ""
    goals: tuple[Goal, ...] = ()
    table: str = ""
    figures: str = ""
    artifacts: tuple[str, ...] = ()
    one_seed: bool = False

    def specs(self, seeds: int = 0) -> list[RunSpec]:
        """Its runs with `seeds` seeds each; 0: the default of each run."""
        found = []
        for spec in self.runs:
            default = _DATA["seeds"].get(spec.stream, 3) if spec.preset == "paper" else 3
            seed_range = range(1 if self.one_seed else seeds or default)
            found += [replace(spec, seed=seed) for seed in seed_range]
        return found


def parse_run(text: str) -> RunSpec:
    """A run from its words in targets.toml.

    >>> parse_run("digits dgdmn n_stm=5").name
    'digits-dgdmn-paper-n_stm-5-seed0'
    """
    words = text.split()
    changes = {k: _value(v) for k, _, v in (word.partition("=") for word in words if "=" in word)}
    stream, algorithm, *preset = (w for w in words if "=" not in w and w != "together")
    revise = changes.pop("revise", ())
    options = override(resolve(name := "".join(preset) or "paper", stream), changes)
    return RunSpec(stream, algorithm, name, options, revise=revise, together="together" in words)


def _value(text: str) -> Any:
    if re.fullmatch(r"\d+(x\d+)+", text):
        return tuple(map(int, text.split("x")))
    with suppress(ValueError):
        return json.loads(text)
    return text


def parse_runs(text: str) -> tuple[RunSpec, ...]:
    """Several runs: every combination of the alternatives in {a,b}; none for no text.

    >>> [spec.algorithm for spec in parse_runs("digits {nn,dgr}")]
    ['nn', 'dgr']
    """
    parts = re.split(r"\{(.*?)\}", text)
    choices = [part.split(",") if place % 2 else [part] for place, part in enumerate(parts)]
    return tuple(parse_run("".join(words)) for words in itertools.product(*choices) if text)


def unique(specs: Iterable[RunSpec]) -> list[RunSpec]:
    """Each run once, however many targets need it."""
    return list({spec.key: spec for spec in specs}.values())


def _load(entry: dict[str, Any]) -> Target:
    goals = tuple(
        Goal(spec=parse_run(goal.pop("run")), rivals=parse_runs(goal.pop("rivals", "")), **goal)
        for goal in entry.pop("goals", ())
    )
    runs = tuple(unique(spec for text in entry.pop("runs") for spec in parse_runs(text)))
    return Target(runs=runs, goals=goals, artifacts=tuple(entry.pop("artifacts", ())), **entry)


def select(names: Iterable[str]) -> list[Target]:
    """The targets of these names; `all` is every one."""
    wanted = list(dict.fromkeys(names))
    for name in wanted:
        if name != "all" and name not in TARGETS:
            hint, advice = suggestion(name, ["all", *TARGETS]), "`python -m reproduction --list`"
            raise UsageError(f"no target {name!r}{hint}; {advice} lists them")
    return list(TARGETS.values()) if "all" in wanted else [TARGETS[name] for name in wanted]


TARGETS: dict[str, Target] = {entry["name"]: _load(entry) for entry in _DATA["target"]}
