"""`dgdmn plan`: what learning will cost, before it is begun."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from dgdmn.algorithms import algorithm, check_name
from dgdmn.cli.memories import mean_rows, opened
from dgdmn.cli.run import parse
from dgdmn.errors import UsageError, suggestion
from dgdmn.presets import PAPER, Preset, preset, stream_options
from dgdmn.wording import counted, duration, listed, size

if TYPE_CHECKING:  # torch and numpy wait until the arguments are parsed, so that --help is quick
    from dgdmn.experiments.plan import Stage
    from dgdmn.experiments.timing import Cost


@dataclass(frozen=True)
class Plan:
    """Tell what each task and sleep will cost: samples, optimiser steps, bytes kept, about how long.

    Steps are counted by the algorithm itself over networks that train nothing; times are estimated from a
    few real steps.
    """

    subject: tyro.conf.Positional[Annotated[str, tyro.conf.arg(metavar="DATASET|MEMORY")]]
    """digits, tdigits, permnist, shapes, hindi, split-digits or embedded; or a memory, a directory."""
    options: Annotated[Preset, tyro.conf.arg(name="")]
    algorithm: str = ""
    """For a dataset; left out, dgdmn."""
    preset: str = ""
    """For a dataset: `paper`, `best` or `quick`; left out, paper."""
    tasks: int = 0
    """For a memory: so many tasks to come; 0: until it has slept."""
    samples: int = 0
    """For a memory: rows of each; 0: as many as the tasks so far had on average."""
    last: int = 10
    """Advise for good recall of the last so many tasks (appendix B)."""
    threads: int = 0
    """torch threads; 0: as many as torch likes."""


def main(arguments: list[str], debug: bool = False) -> int:  # noqa: ARG001
    """Parse, count, time, tell."""
    args = _parse(arguments)
    for name, value, least in (
        ("last", args.last, 1),
        ("tasks", args.tasks, 0),
        ("samples", args.samples, 0),
    ):
        if value < least:
            raise UsageError(f"{name} is {value}; it must be at least {least}")
    if args.subject in PAPER:
        name, options, (shape, n_classes, stages) = args.algorithm or "dgdmn", args.options, _of_dataset(args)
    else:
        name, options, (shape, n_classes, stages) = _of_memory(args)
    import torch

    from dgdmn.experiments.timing import costs

    found = costs(name, options, shape, n_classes, stages, args.threads or None)
    replays = "n_max" in algorithm(name)._get_param_names()
    numbers = f": N_max {options.n_max:,}, κ {options.kappa:g}, n_STM {options.n_stm}" if replays else ""
    _print(f"{args.subject}, {name}{numbers}", found)
    threads = counted(args.threads or torch.get_num_threads(), "thread")
    sys.stdout.write(f"times are estimates from a few plain steps on {threads}; tests are not in them\n")
    if replays:
        sys.stdout.write(_advice(args.last, options, found))
    return 0


def _parse(arguments: list[str]) -> Plan:
    """The dataset and the preset decide the defaults of all other options, so they are looked for first."""
    dataset = next((word for word in arguments if word in PAPER), "digits")
    finder = ArgumentParser(add_help=False, allow_abbrev=False)
    finder.add_argument("--preset", nargs="?")
    name = finder.parse_known_args(arguments)[0].preset or "paper"
    args = parse(Plan, arguments, "dgdmn plan", default=Plan(tyro.MISSING, preset(name, dataset)))
    if args.algorithm:
        check_name(args.algorithm)
    if args.subject not in PAPER and (
        args.algorithm or args.preset or args.options != preset("paper", dataset)
    ):
        raise UsageError(
            f"{args.subject} is no dataset{suggestion(args.subject, PAPER)}, and a memory has its options"
        )
    return args


Planned = tuple[tuple[int, ...], int, "list[Stage]"]
"""Shape of a sample, number of outputs, stages."""


def _of_dataset(args: Plan) -> Planned:
    from dgdmn import streams
    from dgdmn.experiments.plan import planned_stages

    stream = streams.load(args.subject, **stream_options(args.subject, args.options))
    most = args.options.samples_per_task or None
    tasks = [(task.name, task.train.y[:most]) for task in stream]
    n_classes = max(args.options.n_classes, len(stream.classes))
    return (
        stream.shape,
        n_classes,
        planned_stages(args.algorithm or "dgdmn", args.options, tasks, stream.shape),
    )


def _of_memory(args: Plan) -> tuple[str, Preset, Planned]:
    from dgdmn.algorithms.dual import DualClassifier
    from dgdmn.algorithms.saving import name_of
    from dgdmn.experiments.plan import next_stages
    from dgdmn.storage import holds_memory

    path = Path(args.subject)
    if not holds_memory(path):
        hint = suggestion(args.subject, PAPER)
        raise UsageError(f"{path} is neither a dataset{hint} nor a memory; datasets are {listed(PAPER)}")
    model, notes = opened(path, args.threads)
    rows = args.samples or mean_rows(model, notes)
    if not rows:
        raise UsageError(f"nobody noted how many rows the tasks of {path} had; give --samples")
    learnt = model.learnt_
    options = learnt.options
    free = options.n_stm - len(model.awake_tasks()) if isinstance(model, DualClassifier) else 1
    stages = next_stages(model, [rows] * (args.tasks or max(1, free)))
    return name_of(type(model)), options, (learnt.shape, learnt.outputs, stages)


def _print(title: str, costs: Sequence[Cost]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title)
    for heading in ("stage", "samples", "steps", "kept", "time"):
        table.add_column(heading, justify="left" if heading == "stage" else "right")
    for cost in costs:
        what = (
            f"learn {cost.stage.tasks[0]}"
            if cost.stage.what == "learn"
            else f"sleep: {listed(cost.stage.tasks)}"
        )
        table.add_row(what, f"{cost.samples:,}", f"{cost.steps:,}", size(cost.bytes), duration(cost.seconds))
    table.add_section()
    most: dict[str, Any] = {
        "samples": max(cost.samples for cost in costs),
        "kept": max(cost.bytes for cost in costs),
    }
    total = sum(cost.steps for cost in costs), duration(sum(cost.seconds for cost in costs))
    table.add_row("all (or most)", f"{most['samples']:,}", f"{total[0]:,}", size(most["kept"]), total[1])
    Console().print(table)


def _advice(last: int, options: Preset, costs: Sequence[Cost]) -> str:
    """Appendix B: κ = 0.5 / K and n_STM = 0.25 / κ for the last K tasks."""
    kappa = 0.5 / last
    n_stm = max(1, round(0.25 / kappa))
    full = max(cost.samples for cost in costs) >= options.n_max
    now = (
        "replay reaches N_max here, where κ has a say"
        if full
        else "N_max is not reached here, so κ has no say"
    )
    many = counted(last, "task")
    return f"to recall the last {many} well, appendix B takes --kappa {kappa:g} --n-stm {n_stm}; {now}\n"
