"""The paper's tables, figures and claims, each as the runs it needs (no torch in here)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dgdmn import presets
from dgdmn.errors import UsageError, suggestion
from dgdmn.experiments.spec import RunSpec
from dgdmn.records import RunRecord

SEEDS = {"digits": 3, "shapes": 3, "hindi": 3, "permnist": 2, "tdigits": 1}
"""Seeds of each dataset unless told otherwise: what hours of two cores allow; a stranger has one."""

TABLE = ("nn", "dropnn", "ppr", "ewc", "dgr", "dgdmn", "joint")
"""The rows of the paper's tables, and their ceiling."""

DATASETS = ("digits", "permnist", "shapes", "hindi")
"""The columns of the paper's tables."""

EQUAL_TIME = {"generator_epochs": 15, "learner_epochs": 4}
"""Epochs, for 25 and 6, with which DGR on Digits multiplies as often as DGDMN (`experiments.plan.cost`: 1.01 times).

Chosen by the plan, before any run. Seconds depend on the machine: the page shows those of both.
"""


@dataclass(frozen=True)
class Target:
    """A table, a figure or a claim of the paper, and what must be run for it."""

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
        """Its runs, with so many seeds each; 0: as many as their dataset has by default."""
        return [
            replace(run, seed=seed)
            for run in self.runs
            for seed in range(1 if self.one else seeds or SEEDS.get(run.dataset, 1))
        ]


def paper_run(
    dataset: str, algorithm: str, *, revise: tuple[int, ...] = (), together: bool = False, **changes: Any
) -> RunSpec:
    """A run with the `paper` preset on one thread, with some options changed.

    >>> paper_run("digits", "dgdmn", n_stm=5).name
    'digits-dgdmn-paper-n_stm-5-seed0'
    """
    options = presets.overridden(presets.preset("paper", dataset), changes)
    return RunSpec(dataset, algorithm, "paper", options, revise=revise, together=together)


def _grid(datasets: Iterable[str], algorithms: Iterable[str]) -> tuple[RunSpec, ...]:
    names = tuple(algorithms)
    return tuple(paper_run(dataset, name) for dataset in datasets for name in names)


def _digits(*variants: Mapping[str, Any], algorithms: tuple[str, ...] = ("dgdmn",)) -> tuple[RunSpec, ...]:
    return tuple(paper_run("digits", name, **options) for name in algorithms for options in variants)


_TABLE = _grid(DATASETS, TABLE)
_JOINT_MEMORY = paper_run("digits", "dgr", together=True)
_SEQUENTIAL = paper_run("digits", "dgdmn")

TARGETS: dict[str, Target] = {
    target.name: target
    for target in (
        Target("table-acc", "average accuracy of six algorithms, and Joint, on four datasets", _TABLE),
        Target("table-bwt", "backward transfer of the same runs", _TABLE),
        *(
            Target(
                f"figure-{name}", f"accuracy on each task of {name} after each task", _grid((name,), TABLE[:-1])
            )
            for name in ("permnist", "digits", "shapes", "hindi")
        ),
        Target("figure-forgetting", "average accuracy on the tasks seen, four datasets", _TABLE),
        Target(
            "figure-tdigits",
            "40 tasks: accuracy on all seen and on the last 10, training time",
            _grid(("tdigits",), ("dgr", "dgdmn")),
        ),
        Target(
            "figure-resilience",
            "LTM and NN trained jointly on Digits, tested under noise and occlusion",
            (_JOINT_MEMORY, paper_run("digits", "joint", together=True)),
        ),
        Target(
            "figure-revision",
            "Permnist, then tasks 1 and 6 again",
            tuple(paper_run("permnist", name, revise=(1, 6)) for name in ("ewc", "dgdmn", "gem")),
        ),
        Target(
            "figure-tsne",
            "latents of the LTM, learnt jointly and in sequence",
            (_JOINT_MEMORY, _SEQUENTIAL),
            artefacts=("latents",),
            one=True,
        ),
        Target(
            "figure-dreams",
            "digits dreamt by the LTM, learnt jointly and in sequence",
            (_JOINT_MEMORY, _SEQUENTIAL),
            artefacts=("dreams",),
            one=True,
        ),
        Target(
            "figure-recog", "DGDMN without task descriptors on Digits", _grid(("digits",), ("dgdmn-recog", "dgdmn"))
        ),
        Target(
            "ablation-age",
            "age counts the samples seen, or to the letter of Algorithm 1",
            _digits({}, {"age": "letter"}, algorithms=("dgr", "dgdmn")),
        ),
        Target(
            "ablation-kappa",
            "the floor κ for each replay or each task on TDigits; of 0, .25 and .5 on Digits with half the memory",
            (
                paper_run("tdigits", "dgdmn"),
                paper_run("tdigits", "dgdmn", kappa_per="task"),
                *_digits(*({"n_max": 30_000, "kappa": kappa} for kappa in (0.0, 0.25, 0.5))),
            ),
        ),
        Target(
            "ablation-reconstruction",
            "the learner trains on reconstructions of the new samples, of all, or of none",
            (
                *_digits({}, {"reconstructed": "all"}, {"reconstructed": "none"}),
                _JOINT_MEMORY,
                paper_run("digits", "dgr", together=True, reconstructed="none"),
            ),
        ),
        Target(
            "ablation-ppr",
            "random inputs instead of a generator: PPR beside NN and DGR",
            _grid(DATASETS, ("nn", "ppr", "dgr")),
        ),
        Target("ablation-n-stm", "one, two and five tasks between two sleeps", _digits({"n_stm": 1}, {}, {"n_stm": 5})),
        Target(
            "ablation-dual",
            "with and without a short-term memory, as it is and at equal time",
            (_SEQUENTIAL, *_digits({}, EQUAL_TIME, algorithms=("dgr",))),
        ),
    )
}  # fmt: skip
"""By name, in the paper's order."""


def chosen(names: Iterable[str]) -> list[Target]:
    """The targets of these names; `all` means every one."""
    wanted = list(dict.fromkeys(names))
    for name in wanted:
        if name != "all" and name not in TARGETS:
            raise UsageError(
                f"no target {name!r}{suggestion(name, ['all', *TARGETS])}; `dgdmn reproduce --list` names them"
            )
    return list(TARGETS.values()) if "all" in wanted else [TARGETS[name] for name in wanted]


def unique(specs: Iterable[RunSpec]) -> list[RunSpec]:
    """Each run once, however many targets share it."""
    return list({spec.name: spec for spec in specs}.values())


def result(spec: RunSpec, place: Path) -> RunRecord | None:
    """The complete record of this run in a directory of runs; None where there is none, or of another computation."""
    directory = place / spec.name
    if not (directory / "summary.json").exists():
        return None
    record = RunRecord.read(directory)
    return record if record.complete and not differing(spec, record.config) else None


def catalogued(record: RunRecord, targets: Iterable[Target]) -> list[str]:
    """The names of the targets that a recorded run belongs to, with whatever seed."""
    seed = record.config.get("seed")
    if not isinstance(seed, int):
        return []
    return [
        target.name
        for target in targets
        if any(
            spec.name == record.name and not differing(spec, record.config)
            for spec in (replace(run, seed=seed) for run in target.runs)
        )
    ]


def differing(spec: RunSpec, config: Mapping[str, Any]) -> set[str]:
    """What a recorded run computed otherwise; what was not recorded, in older versions, was the default.

    The sizes of a short-term memory do not count where an algorithm has none.
    """
    defaults = {
        "revise": [],
        "together": False,
        **presets.as_dict(presets.preset(spec.preset, spec.dataset)),
    }
    ours = spec.identity()
    flat = {**ours, **ours["options"]}
    theirs = {**config, **config.get("options", {})}
    return {
        key
        for key, value in flat.items()
        if key != "options" and theirs.get(key, defaults.get(key)) != value and not _idle(spec.algorithm, key)
    }


NO_SHORT_TERM = ("nn", "dropnn", "ppr", "ewc", "dgr", "joint")
"""Algorithms for which the short-term memory's options decide nothing. Those that keep rows count its bytes."""


def _idle(algorithm: str, option: str) -> bool:
    return algorithm in NO_SHORT_TERM and (option.startswith("sttm_") or option == "n_stm")
