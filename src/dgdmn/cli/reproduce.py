"""`dgdmn reproduce`: run what the paper's tables and figures, and ours, need, collect it, judge it, draw it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import tyro

from dgdmn.cli import left
from dgdmn.cli.run import cores, ordered, parse, report
from dgdmn.errors import DataError, DgdmnError, UsageError
from dgdmn.wording import counted

if TYPE_CHECKING:  # numpy, rich and matplotlib wait until the arguments are parsed, so that --help is quick
    from dgdmn.experiments.spec import RunSpec
    from dgdmn.experiments.sweep import Failure
    from dgdmn.experiments.target import Target
    from dgdmn.records import RunRecord
    from dgdmn.report.reproducibility import Result

Thing = TypeVar("Thing")
Made = TypeVar("Made")
PAGE = "REPRODUCIBILITY.md"
FIGURES = "figures"


@dataclass(frozen=True)
class Reproduce:
    """Run what is missing for the paper's tables, figures and claims, and beyond, and put ours beside theirs."""

    targets: tyro.conf.Positional[tuple[str, ...]] = ()
    """What `--list` names, one or more; `all`: every one."""
    show_list: Annotated[bool, tyro.conf.arg(name="list")] = False
    """Name every target with the runs it needs, how many are done, and about how long the rest will take."""
    seeds: int = 0
    """Seeds of each run; 0: 3, but with `paper` 2 for Permnist and 1 for TDigits."""
    jobs: int = 0
    """Runs at a time, one torch thread each; 0: as many as there are cores."""
    out: Path = Path("runs")
    """Where the run directories are, and go."""
    results: Path = Path("results")
    """Where the small numbers of every run are kept; the page is written beside it."""
    draw_only: bool = False
    """Run nothing: collect what is there, draw it, write the page. Without a target, all of them."""


def main(arguments: list[str], debug: bool = False) -> int:
    """Parse, then list; or run, collect, draw and tell."""
    args = parse(Reproduce, arguments, "dgdmn reproduce")
    for name, value in (("seeds", args.seeds), ("jobs", args.jobs)):
        if value < 0:
            raise UsageError(f"{name} is {value}; it must be at least 0")
    from dgdmn.experiments.catalogue import chosen

    everything = not args.targets and (args.show_list or args.draw_only)
    targets = chosen(("all",) if everything else args.targets)
    if args.show_list:
        left.show(targets, args)
        return 0
    if not targets:
        raise UsageError(
            "name a target, as in `dgdmn reproduce table-acc`; `dgdmn reproduce --list` names them"
        )
    failures = [] if args.draw_only else _run(targets, args)
    records, unreadable = _ended(args.out)
    collected, refused = _collect(records, targets, args)
    found, damaged = read_results(args.results)
    drawn = _draw(records, found, targets, collected, args)
    page = write_page(args.results)
    sys.stdout.write(
        f"{args.results}: {counted(len(collected), 'run')} collected, {counted(drawn, 'figure')} drawn\n{page}\n"
    )
    return report([*failures, *unreadable, *refused, *damaged], debug)


def _run(targets: Sequence[Target], args: Reproduce) -> list[Failure]:
    """Do what is missing, the longest first; what cannot be done is told at the end."""
    specs, failures = _with_data(left.missing(targets, args))
    if specs:
        from dgdmn.cli.display import Display
        from dgdmn.experiments.sweep import run_all

        jobs = args.jobs or cores()
        specs = ordered(specs, jobs)
        with Display(args.out, specs, jobs, left.before(args)) as display:
            failures += run_all(specs, args.out, jobs, display.look)
    return failures + _without_artefacts(targets, args)


def _with_data(specs: Sequence[RunSpec]) -> tuple[list[RunSpec], list[Failure]]:
    """The runs whose data is here or can be fetched, and one failure for each of the others."""
    from dgdmn.cli.data import fetch_with_bar
    from dgdmn.experiments.sweep import Failure
    from dgdmn.streams import sources

    lacking: dict[str, str] = {}
    for dataset in dict.fromkeys(spec.dataset for spec in specs):
        try:
            if not all(verdict.ok for verdict in sources.verify(dataset)):
                fetch_with_bar(dataset)
        except DataError as error:
            lacking[dataset] = str(error)
    failures = [
        Failure(spec.name, lacking[spec.dataset], False, lacking[spec.dataset])
        for spec in specs
        if spec.dataset in lacking
    ]
    return [spec for spec in specs if spec.dataset not in lacking], failures


def _without_artefacts(targets: Sequence[Target], args: Reproduce) -> list[Failure]:
    """Runs that an older version did: complete, but without what a figure shows."""
    from dgdmn.experiments.catalogue import result
    from dgdmn.experiments.sweep import Failure

    lines = []
    for target in targets:
        for spec in target.specs(args.seeds):
            record = result(spec, args.out)
            if record is None:
                continue
            lacking = [
                name for name in target.artefacts if not any(a.startswith(name) for a in record.artefacts)
            ]
            if lacking:
                told = (
                    f"no {lacking[0]} for {target.name}: an older version did it; remove {record.directory}"
                )
                lines.append(Failure(spec.name, told, False, told))
    return lines


def _ended(place: Path) -> tuple[list[RunRecord], list[Failure]]:
    """The complete runs in a directory, and what looks like one and cannot be read: the rest goes on without it."""
    from dgdmn.records import RunRecord

    records, unreadable = _each(RunRecord.read, _directories(place, "summary.json"))
    return [record for record in records if record.complete], unreadable


def read_results(place: Path) -> tuple[list[Result], list[Failure]]:
    """What was collected, and what of it cannot be read."""
    from dgdmn.report.reproducibility import read_result

    return _each(read_result, _directories(place, "config.json"))


def _directories(place: Path, file: str) -> dict[str, Path]:
    """Those that have this file, by name."""
    return {path.parent.name: path.parent for path in sorted(place.glob(f"*/{file}"))}


def _each(do: Callable[[Thing], Made], things: Mapping[str, Thing]) -> tuple[list[Made], list[Failure]]:
    """What comes of each thing, and a failure for each of which nothing comes: one does not hide the rest."""
    from dgdmn.experiments.sweep import Failure

    done, failures = [], []
    for name, thing in things.items():
        try:
            done.append(do(thing))
        except DgdmnError as error:
            failures.append(Failure(name, str(error), False, str(error)))
    return done, failures


def _of(records: Iterable[RunRecord], targets: Iterable[Target]) -> list[RunRecord]:
    """Those that these targets ask for, with whatever seed."""
    from dgdmn.experiments.catalogue import catalogued

    wanted = list(targets)
    return [record for record in records if catalogued(record, wanted)]


def _collect(
    records: Sequence[RunRecord], targets: Sequence[Target], args: Reproduce
) -> tuple[list[Path], list[Failure]]:
    """Copy the small numbers of every run of these targets that has ended; where they are now."""
    from dgdmn.report.reproducibility import collect

    asked = {record.name: record for record in _of(records, targets)}
    return _each(lambda record: collect(record, args.results), asked)


def _draw(
    records: Sequence[RunRecord],
    found: Sequence[Result],
    targets: Sequence[Target],
    collected: Sequence[Path],
    args: Reproduce,
) -> int:
    """Draw these targets, and every other that shows a run that was just collected: the page shows them all."""
    from dgdmn.experiments.catalogue import TARGETS
    from dgdmn.report.reproducibility import draw
    from dgdmn.report.runs import read_runs

    by_target, _ = gathered(found, TARGETS.values())
    new = {path.name for path in collected}
    drawn = 0
    for target in TARGETS.values():
        if target not in targets and not any(one.run.name in new for one in by_target[target.name]):
            continue
        runs, _ = read_runs([record.directory for record in _of(records, [target])])
        drawn += len(draw(target.name, by_target[target.name], runs, args.results / FIGURES))
    return drawn


def gathered(
    results: Iterable[Result], targets: Iterable[Target]
) -> tuple[dict[str, tuple[Result, ...]], tuple[Result, ...]]:
    """What was collected: by target, and the runs that belong to none of them."""
    from dgdmn.experiments.catalogue import catalogued

    wanted = list(targets)
    by_target: dict[str, list[Result]] = {target.name: [] for target in wanted}
    strangers = []
    for one in results:
        names = catalogued(one.run.record, wanted)
        for name in names:
            by_target[name].append(one)
        if not names:
            strangers.append(one)
    return {name: tuple(found) for name, found in by_target.items()}, tuple(strangers)


def write_page(results: Path) -> Path:
    """Write the page beside the results, and the table in the README there, if it has a place for one."""
    from dgdmn.disk import replace

    page, readme = results.parent / PAGE, results.parent / "README.md"
    replace(page, page_of(results).encode())
    if readme.exists() and (text := readme_of(readme, results)) != readme.read_text(encoding="utf-8"):
        replace(readme, text.encode())
    return page


def readme_of(readme: Path, results: Path) -> str:
    """The README as it follows from results."""
    from dgdmn.experiments.catalogue import TARGETS
    from dgdmn.report.reproducibility import with_results

    by_target, _ = gathered(read_results(results)[0], TARGETS.values())
    return with_results(readme.read_text(encoding="utf-8"), _each_once(by_target))


def page_of(results: Path) -> str:
    """REPRODUCIBILITY.md as it follows from results, the catalogue, and the deviations kept by hand."""
    from dgdmn.experiments.catalogue import TARGETS
    from dgdmn.report.reproducibility import Section, render

    by_target, strangers = gathered(read_results(results)[0], TARGETS.values())
    sections = []
    for target in TARGETS.values():
        asked = {spec.name for spec in target.specs()}
        found = tuple(one for one in by_target[target.name] if one.run.name in asked or not target.one)
        names = {one.run.name for one in found}
        figures = tuple(
            f"{results.name}/{FIGURES}/{path.name}"
            for path in sorted((results / FIGURES).glob(f"{target.name}*.svg"), key=lambda path: path.stem)
        )
        missing = len(asked - names)
        pending = _pending(target)
        sections.append(Section(target.name, target.what, found, missing, figures, pending))
    notes = results.parent / "docs" / "deviations.md"
    deviations = notes.read_text(encoding="utf-8") if notes.exists() else ""
    return render(sections, _each_once(by_target), [one.run.name for one in strangers], deviations)


def _each_once(by_target: Mapping[str, Sequence[Result]]) -> list[Result]:
    """Each result once, however many targets share it."""
    return list({one.run.name: one for found in by_target.values() for one in found}.values())


def _pending(target: Target) -> str:
    """What to say where a figure has not been drawn."""
    if not target.name.startswith(("figure-", "beyond-resilience")):
        return ""
    if target.artefacts:
        return f"Not drawn yet: it needs {', '.join(target.artefacts)} from the run directories themselves."
    return "Not drawn yet."
