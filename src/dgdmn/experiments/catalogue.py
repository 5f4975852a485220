"""The paper's tables, figures and claims, and what goes beyond it, each as the runs it needs (no torch in here)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from dgdmn.errors import DgdmnError, UsageError, suggestion
from dgdmn.experiments.beyond import BEYOND
from dgdmn.experiments.spec import RunSpec, differing
from dgdmn.experiments.target import Target, run_of
from dgdmn.records import RunRecord

TABLE = ("nn", "dropnn", "ppr", "ewc", "dgr", "dgdmn", "joint")
"""The rows of the paper's tables, and their ceiling."""

DATASETS = ("digits", "permnist", "shapes", "hindi")
"""The columns of the paper's tables."""

EQUAL_TIME = {"generator_epochs": 15, "learner_epochs": 4}
"""Epochs, for 25 and 6, with which DGR on Digits multiplies as often as DGDMN (`experiments.plan.cost`: 1.01 times).

Chosen by the plan, before any run. Seconds depend on the machine: the page shows those of both.
"""


def _grid(datasets: Iterable[str], algorithms: Iterable[str]) -> tuple[RunSpec, ...]:
    names = tuple(algorithms)
    return tuple(run_of(dataset, name) for dataset in datasets for name in names)


def _digits(*variants: Mapping[str, Any], algorithms: tuple[str, ...] = ("dgdmn",)) -> tuple[RunSpec, ...]:
    return tuple(run_of("digits", name, **options) for name in algorithms for options in variants)


TEN_CLASSES: dict[str, Any] = {"tdigits": "ten", "n_classes": 10}
"""TDigits as the paper's curves suggest it (docs/decisions/tdigits.md)."""

SMALLER: dict[str, Any] = {"sttm_generator_layers": (128, 64), "sttm_latent": 16}
"""Digits' task memories. TDigits' readings were compared with them, before larger ones were found to be better."""

_LOSSES: tuple[dict[str, Any], ...] = ({}, {"clip_probability": 1e-7})
"""Cross-entropy, and as Keras of 2017 had it (docs/decisions/clipped-probabilities.md)."""

_TABLE = _grid(DATASETS, TABLE)
_JOINT_MEMORY = run_of("digits", "dgr", together=True)
_SEQUENTIAL = run_of("digits", "dgdmn")

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
            (_JOINT_MEMORY, run_of("digits", "joint", together=True)),
        ),
        Target(
            "figure-revision",
            "Permnist, then tasks 1 and 6 again",
            tuple(run_of("permnist", name, revise=(1, 6)) for name in ("ewc", "dgdmn", "gem")),
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
            "the floor κ for each task or each replay on TDigits; of 0, .25 and .5 on Digits with half the memory",
            (
                run_of("tdigits", "dgdmn", **SMALLER),
                run_of("tdigits", "dgdmn", kappa_per="replay", **SMALLER),
                *_digits(*({"n_max": 30_000, "kappa": kappa} for kappa in (0.0, 0.25, 0.5))),
            ),
        ),
        Target(
            "ablation-tdigits",
            "TDigits as forty classes, by transformation, or as ten, by digit, as its curves suggest; each with both "
            "κ, and task memories smaller than the preset's",
            (
                *_grid(("tdigits",), ("dgr", "dgdmn")),
                *(run_of("tdigits", "dgdmn", **SMALLER, **how) for how in ({}, TEN_CLASSES)),
                *(run_of("tdigits", "dgdmn", kappa_per="replay", **SMALLER, **how) for how in ({}, TEN_CLASSES)),
            ),
        ),
        Target(
            "ablation-reconstruction",
            "the learner trains on reconstructions of the new samples, of all, or of none",
            (
                *_digits({}, {"reconstructed": "all"}, {"reconstructed": "none"}),
                _JOINT_MEMORY,
                run_of("digits", "dgr", together=True, reconstructed="none"),
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
        Target(
            "ablation-clipping",
            "classes that were never learnt: probabilities clipped in the loss, as Keras of 2017 did, or not",
            tuple(
                run_of(dataset, name, **how)
                for dataset in ("digits", "shapes", "hindi")
                for name in TABLE[:4]
                for how in _LOSSES
            ),
        ),
        *BEYOND,
    )
}  # fmt: skip
"""By name, in the paper's order, then what goes beyond it."""


def chosen(names: Iterable[str]) -> list[Target]:
    """The targets of these names; `all` means every one."""
    wanted = list(dict.fromkeys(names))
    for name in wanted:
        if name != "all" and name not in TARGETS:
            raise UsageError(
                f"no target {name!r}{suggestion(name, ['all', *TARGETS])}; `dgdmn reproduce --list` names them"
            )
    return list(TARGETS.values()) if "all" in wanted else [TARGETS[name] for name in wanted]


def result(spec: RunSpec, place: Path) -> RunRecord | None:
    """The complete record of this run in a directory of runs; None where there is none, or of another computation.

    None too where it cannot be read: who runs it there is told why.
    """
    directory = place / spec.name
    if not (directory / "summary.json").exists():
        return None
    try:
        record = RunRecord.read(directory)
    except DgdmnError:
        return None
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
