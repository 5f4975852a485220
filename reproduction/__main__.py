"""`python -m reproduction TARGET …`: run what is missing, collect it, draw the figures, write the pages."""

import math
import sys
from argparse import Namespace
from collections.abc import Iterable, Sequence
from pathlib import Path

from dgdmn.cli.app import run_command
from dgdmn.cli.options import parse
from dgdmn.cli.run import exit_code
from dgdmn.core.errors import DataError, DgdmnError, UsageError
from dgdmn.core.text import count_noun
from dgdmn.report.table import mean
from dgdmn.runs.executor import Failure
from dgdmn.runs.spec import RunSpec
from reproduction.page import write_pages
from reproduction.results import NOT_ENDED, Results, collect, load_results
from reproduction.targets import COMMAND, TARGETS, Target, select, unique

Collected = tuple[set[str], list[Failure]]  # keys of runs, and what failed
Source = tuple[Results, Results]  # collected runs, and run directories


def main(words: Sequence[str]) -> int:
    """Parse, run, collect, draw and write; returns the exit code."""
    args = parse("python -m reproduction", COMMAND, words)
    everything = not args.target and (args.list or args.draw_only)
    targets = select(["all"] if everything else args.target)
    if args.list:
        _list(targets, args)
        return 0
    if not targets:
        raise UsageError("no target given; `python -m reproduction --list` lists them")
    failures = [] if args.draw_only else _run(targets, args)
    directories, unreadable = load_results(args.out)
    failures += [Failure(name, why) for name, why in unreadable.items() if why != NOT_ENDED]
    new, refused = _collect(directories, targets, args.results)
    results, unusable = load_results(args.results)
    failures += refused
    failures += [Failure(str(args.results / name), why) for name, why in unusable.items()]
    named = [] if everything else targets
    drawn = 0 if args.no_figures else _draw(named, new, (results, directories), args)
    pages = write_pages(results, args.results)
    done = f"{count_noun(len(new), 'run')} collected, {count_noun(drawn, 'figure')} drawn"
    print(f"{done}, {count_noun(len(pages), 'page')} changed")
    return exit_code(failures, debug=False)


def missing_runs(
    targets: Iterable[Target], seeds: int, directories: Results, results: Results
) -> list[RunSpec]:
    """Runs that are neither in `out` nor collected; images need the run directory itself."""
    missing = list[RunSpec]()
    for target in targets:
        done = directories.by_key.keys() | (() if target.artifacts else results.by_key.keys())
        missing += [spec for spec in target.specs(seeds) if spec.key not in done]
    return unique(missing)


def _list(targets: Sequence[Target], args: Namespace) -> None:
    found = load_results(args.out)[0], load_results(args.results)[0]
    print(f"{'target':23}  runs  done  missing")
    rows = [(target.name, [target], target.title) for target in targets]
    for name, group, text in [*rows, ("all", list(targets), "each run once")]:
        runs = len(unique(spec for target in group for spec in target.specs(args.seeds)))
        missing = len(missing_runs(group, args.seeds, *found))
        print(f"{name:23}  {runs:4}  {runs - missing:4}  {missing:7}  {text}")


def _run(targets: Sequence[Target], args: Namespace) -> list[Failure]:
    """Do the missing runs, the longest first. The same command continues after a kill."""
    from dgdmn.cli.run import execute_all, stream_with_data

    directories, results = load_results(args.out)[0], load_results(args.results)[0]
    specs, failures = missing_runs(targets, args.seeds, directories, results), list[Failure]()
    for stream in dict.fromkeys(spec.stream for spec in specs):
        try:
            stream_with_data(stream)
        except DataError as error:
            failures += [Failure(spec.name, str(error)) for spec in specs if spec.stream == stream]
            specs = [spec for spec in specs if spec.stream != stream]

    known = {spec: [run.number("seconds") for run in results.find(spec)] for spec in specs}
    specs.sort(key=lambda spec: mean(known[spec] or [math.inf]), reverse=True)
    return failures + execute_all(specs, args.out, args.jobs)[1]


def _collect(directories: Results, targets: Iterable[Target], place: Path) -> Collected:
    """Collect the finished runs of these targets, with any seed; returns their keys."""
    keys, failures = set(), []
    specs = [spec for target in targets for spec in target.runs]
    for run in {run for spec in specs for run in directories.find(spec)}:
        try:
            collect(run, place)
            keys.add(run.key)
        except DgdmnError as error:
            failures.append(Failure(run.name, str(error)))
    return keys, failures


def _draw(targets: Sequence[Target], new: set[str], source: Source, args: Namespace) -> int:
    """Draw these targets, and every other one that shows a run collected now."""
    from dgdmn.report.charts import save_figure
    from reproduction import figures

    drawn, formats = 0, ("svg", "pdf") if args.pdf else ("svg",)
    for target in TARGETS.values():
        shown = {run.key for spec in target.runs for run in source[0].find(spec)}
        if target.figures and (target in targets or new & shown):
            request = figures.Request(target.runs, *source)
            for suffix, figure in getattr(figures, target.figures)(request):
                save_figure(figure, args.results / "figures" / f"{target.name}{suffix}", formats)
                drawn += 1
    return drawn


if __name__ == "__main__":
    run_command("reproduction", main, sys.argv[1:])
