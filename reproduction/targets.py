"""Targets: which runs each needs, which table and figures it makes, and which claim it checks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from dgdmn.core.errors import UsageError, suggestion
from dgdmn.runs.spec import RunSpec
from reproduction import figures, tables
from reproduction.goals import STREAMS
from reproduction.results import Results, spec_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SEEDS = {"permnist": 2, "tdigits": 1}
"""Seeds of a stream with the preset `paper` if not 3: what two cores can run in a day."""


@dataclass(frozen=True)
class Target:
    """A table or figure of the paper, an ablation, or a table of ours."""

    name: str
    title: str
    runs: tuple[RunSpec, ...]
    """Its runs with seed 0."""
    claim: str = ""
    """What the paper asserts and this target checks."""
    table: Callable[[Results, tables.Specs], str] | None = None
    draw: Callable[[figures.Request], Iterator[tuple[str, Figure]]] | None = None
    """Yields (suffix of the file name, figure)."""
    artifacts: tuple[str, ...] = ()
    """Arrays that its figures need. They are in run directories only."""
    one_seed: bool = False

    def specs(self, seeds: int = 0) -> list[RunSpec]:
        """Its runs with `seeds` seeds each; 0: the default of each run."""
        return [
            replace(spec, seed=seed)
            for spec in self.runs
            for seed in range(1 if self.one_seed else seeds or default_seeds(spec))
        ]


def default_seeds(spec: RunSpec) -> int:
    """Seeds of a run: 3, fewer for long streams with the preset `paper`."""
    return SEEDS.get(spec.stream, 3) if spec.preset == "paper" else 3


def select(names: Iterable[str]) -> list[Target]:
    """The targets of these names; `all` is every one."""
    wanted = list(dict.fromkeys(names))
    for name in wanted:
        if name != "all" and name not in TARGETS:
            hint = suggestion(name, ["all", *TARGETS])
            raise UsageError(f"no target {name!r}{hint}; `python -m reproduction --list` lists them")
    return list(TARGETS.values()) if "all" in wanted else [TARGETS[name] for name in wanted]


def unique(specs: Iterable[RunSpec]) -> list[RunSpec]:
    """Each run once, however many targets need it."""
    return list({spec.key: spec for spec in specs}.values())


def _grid(streams: Iterable[str], algorithms: Iterable[str], **changes: Any) -> tuple[RunSpec, ...]:
    names = list(algorithms)
    return tuple(spec_of(stream, name, **changes) for stream in streams for name in names)


_TABLE = _grid(STREAMS, tables.ROWS)
_LTM, _NN = spec_of("digits", "dgr", together=True), spec_of("digits", "joint", together=True)
_SEQUENTIAL = spec_of("digits", "dgdmn")
_SMALLER: dict[str, Any] = {"sttm_generator_layers": (128, 64), "sttm_latent_dim": 16}
"""Task memories as small as those for Digits."""
_TEN_CLASSES: dict[str, Any] = {"tdigits_classes": 10, "n_classes": 10}
EQUAL_TIME = {"generator_epochs": 15, "learner_epochs": 4}
"""Epochs, instead of 25 and 6, with which DGR on Digits multiplies as often as DGDMN (1.01 times)."""
DEEP_STREAMS = ("digits", "split-digits", "permnist", "hindi", "shapes", "tdigits")
DEEP_OPTIONS: tuple[dict[str, Any], ...] = (
    {},
    {"code_buffer": False},
    {"prior_components": 0},
    {"resample_dreams": False},
    {"latent_noise": 0.0},
    {"predict_with": "learner"},
    {"momentum": 0.0},
    {"lr_schedule": "constant"},
    {"beta": 1.0},
    {"sttm_min_steps": 0},
    {"sttm_generator_layers": (128, 64)},
)
"""Options of `deep` turned off one at a time."""

_ALL = (
    Target(
        "table-acc",
        "Average accuracy (ACC) of six algorithms and Joint on four streams",
        _TABLE,
        table=lambda results, _: tables.metric_table(results, "acc"),
    ),
    Target(
        "table-bwt",
        "Backward transfer (BWT) of the same runs",
        _TABLE,
        table=lambda results, specs: tables.join(
            tables.metric_table(results, "bwt"), tables.missed_tasks(results, specs)
        ),
    ),
    *(
        Target(
            f"figure-{stream}",
            f"Accuracy on each task of {stream} after each task",
            _grid((stream,), tables.ROWS[:-1]),
            draw=figures.accuracy,
        )
        for stream in ("permnist", "digits", "shapes", "hindi")
    ),
    Target(
        "figure-forgetting",
        "Average accuracy on the tasks seen, four streams",
        _TABLE,
        draw=figures.average,
    ),
    Target(
        "figure-tdigits",
        "40 tasks: accuracy on all tasks seen and on the last 10, training time",
        _grid(("tdigits",), ("dgr", "dgdmn")),
        'DGDMN "stays around 90% average accuracy on the most recently observed 10 tasks"; DGR does not, '
        "and is slower (section 4.2).",
        tables.missed_tasks,
        figures.long_stream,
    ),
    Target(
        "figure-resilience",
        "LTM and NN trained jointly on Digits, tested under noise and occlusion",
        (_LTM, _NN),
        "The LTM is more robust to noise and occlusion than a plain network (section 5).",
        tables.resilience_table,
        figures.resilience,
    ),
    Target(
        "figure-revision",
        "Permnist, then tasks 1 and 6 again",
        tuple(spec_of("permnist", name, revise=(1, 6)) for name in ("ewc", "dgdmn", "gem")),
        'DGDMN "improves by revising"; EWC does not improve (appendix A).',
        tables.revision_table,
        figures.accuracy,
    ),
    Target(
        "figure-tsne",
        "Latents of the LTM, learned jointly and in sequence",
        (_LTM, _SEQUENTIAL),
        draw=figures.latents,
        artifacts=("latents",),
        one_seed=True,
    ),
    Target(
        "figure-dreams",
        "Digits dreamed by the LTM, learned jointly and in sequence",
        (_LTM, _SEQUENTIAL),
        draw=figures.dreams,
        artifacts=("dreams",),
        one_seed=True,
    ),
    Target(
        "figure-recog",
        "DGDMN without task descriptors on Digits",
        _grid(("digits",), ("dgdmn-recog", "dgdmn")),
        "Without descriptors DGDMN loses .05 (appendix A).",
        draw=figures.recognition,
    ),
    Target(
        "ablation-age",
        "`age` counts the samples seen, or N_total as in line 21 of Algorithm 1",
        tuple(
            spec
            for name in ("dgr", "dgdmn")
            for spec in (spec_of("digits", name), spec_of("digits", name, age="n_total"))
        ),
        "Nothing: the text and the algorithm differ.",
        tables.settings_table,
        figures.average,
    ),
    Target(
        "ablation-kappa",
        "κ as a floor for each task or each replay on TDigits; 0, .25 and .5 on Digits with half the memory",
        (
            spec_of("tdigits", "dgdmn", **_SMALLER),
            spec_of("tdigits", "dgdmn", kappa_per="replay", **_SMALLER),
            *(spec_of("digits", "dgdmn", n_max=30_000, kappa=kappa) for kappa in (0.0, 0.25, 0.5)),
        ),
        'κ "ensures continual incorporation of new tasks" (section 3.1).',
        tables.settings_table,
        figures.average,
    ),
    Target(
        "ablation-tdigits",
        "TDigits as forty classes or as ten, each with both readings of κ and smaller task memories",
        (
            *_grid(("tdigits",), ("dgr", "dgdmn")),
            spec_of("tdigits", "dgdmn", **_SMALLER),
            spec_of("tdigits", "dgdmn", **_SMALLER, **_TEN_CLASSES),
            spec_of("tdigits", "dgdmn", kappa_per="replay", **_SMALLER),
            spec_of("tdigits", "dgdmn", kappa_per="replay", **_SMALLER, **_TEN_CLASSES),
        ),
        "Nothing: the text leaves open what a class of TDigits is.",
        tables.readings_table,
        figures.long_stream,
    ),
    Target(
        "ablation-reconstruction",
        "The learner trains on reconstructions of the new samples, of all, or of none",
        (
            _SEQUENTIAL,
            *(spec_of("digits", "dgdmn", reconstruct_inputs=which) for which in ("all", "none")),
            _LTM,
            spec_of("digits", "dgr", together=True, reconstruct_inputs="none"),
        ),
        '"This final reconstruction provides robustness to noise and occlusion" (section 3.1).',
        tables.settings_table,
        figures.average,
    ),
    Target(
        "ablation-ppr",
        "Random inputs instead of a generator: PPR beside NN and DGR",
        _grid(STREAMS, ("nn", "ppr", "dgr")),
        '"A replay mechanism must be generative and model the input distribution accurately" (section 4.1).',
        tables.settings_table,
        figures.average,
    ),
    Target(
        "ablation-n-stm",
        "One, two and five tasks between two sleeps",
        (_SEQUENTIAL, spec_of("digits", "dgdmn", n_stm=1), spec_of("digits", "dgdmn", n_stm=5)),
        'n_STM "does not affect learning much till the LTM remains unsaturated" (appendix B).',
        tables.settings_table,
        figures.average,
    ),
    Target(
        "ablation-dual",
        "With and without a short-term memory, as in the paper and at equal training time",
        (_SEQUENTIAL, spec_of("digits", "dgr"), spec_of("digits", "dgr", **EQUAL_TIME)),
        'Replay without a dual memory is "slow and inaccurate" (section 3.2).',
        tables.settings_table,
        figures.average,
    ),
    Target(
        "ablation-clipping",
        "Cross-entropy with clipped probabilities, as in Keras of 2017, and exact",
        tuple(
            spec
            for stream in ("digits", "shapes", "hindi")
            for name in tables.BASELINES
            for spec in (spec_of(stream, name), spec_of(stream, name, clip_probability=1e-7))
        ),
        'Networks saturate and are "unable to recover from it", PPR most (section 4.1).',
        tables.clipping_table,
        figures.clipped,
    ),
    Target(
        "deep-table",
        "The preset `deep` beside `paper`, the paper's numbers and Joint on six streams",
        (
            *(
                spec_of(stream, name, preset)
                for stream in DEEP_STREAMS
                for name, preset in (("dgdmn", "deep"), ("dgdmn", "paper"), ("joint", "paper"))
            ),
            *(spec_of("digits", "dgdmn-recog", preset) for preset in ("deep", "paper")),
        ),
        table=tables.deep_table,
    ),
    Target(
        "deep-ablation",
        "`deep` with each of its options off, one at a time, on Digits and Hindi",
        tuple(
            unique(
                [
                    *(
                        spec_of(stream, "dgdmn", "deep", **off)
                        for stream in ("digits", "hindi")
                        for off in DEEP_OPTIONS
                    ),
                    spec_of("digits", "dgdmn-recog", "deep"),
                    spec_of("digits", "dgdmn-recog", "deep", recognition="reconstruction"),
                ]
            )
        ),
        table=tables.options_table,
    ),
    Target(
        "deep-resilience",
        "The LTM of `deep` beside that of `paper` and NN, trained jointly on Digits",
        (spec_of("digits", "dgr", "deep", together=True), _LTM, _NN),
        draw=figures.resilience,
    ),
)

TARGETS: dict[str, Target] = {target.name: target for target in _ALL}
"""In the paper's order, then ours."""
