"""What is still to be run for the targets of `dgdmn reproduce`, and how long that will take."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from dgdmn.errors import DgdmnError
from dgdmn.wording import duration

if TYPE_CHECKING:  # numpy and rich wait until the arguments are parsed
    from dgdmn.experiments.spec import RunSpec
    from dgdmn.experiments.target import Target


class Asked(Protocol):
    """Of the command's arguments those that decide what is left."""

    @property
    def seeds(self) -> int:
        """Seeds of each run; 0: as many as it has by default."""

    @property
    def out(self) -> Path:
        """Where the run directories are."""

    @property
    def results(self) -> Path:
        """Where the collected numbers are."""


def missing(targets: Iterable[Target], args: Asked) -> list[RunSpec]:
    """The runs of these targets that have not ended; a figure of pictures needs the run directory itself."""
    from dgdmn.experiments.catalogue import result
    from dgdmn.experiments.target import unique

    return unique(
        spec
        for target in targets
        for spec in target.specs(args.seeds)
        if not any(result(spec, place) for place in [args.out, *([] if target.artefacts else [args.results])])
    )


def show(targets: Sequence[Target], args: Asked) -> None:
    """Print every target with the runs it needs, how many are done, and about how long the rest will take."""
    from rich.console import Console
    from rich.table import Table

    from dgdmn.experiments.target import unique

    waiting = {target.name: missing([target], args) for target in targets}
    left = _seconds_left(unique(spec for specs in waiting.values() for spec in specs), args)
    table = Table(title="what the paper shows, and what it takes here")
    for heading in ("target", "what", "runs", "done", "time left"):
        table.add_column(heading, justify="left" if heading in ("target", "what") else "right")
    for target in targets:
        seconds = [left[spec.name] for spec in waiting[target.name]]
        table.add_row(target.name, target.what, *_progress(len(target.specs(args.seeds)), seconds))
    table.add_section()
    each_once = unique(spec for target in targets for spec in target.specs(args.seeds))
    table.add_row("all", "each run once", *_progress(len(each_once), list(left.values())))
    Console().print(table)
    sys.stdout.write(
        "times are of one run after the other, on one thread each; from runs done before on this machine, "
        "else from a few steps\n"
    )


def _progress(runs: int, waiting: Sequence[float]) -> tuple[str, str, str]:
    """Runs, runs done, and the time left, of the seconds left of those that are not."""
    return str(runs), str(runs - len(waiting)), duration(sum(waiting)) if waiting else "–"


def _seconds_left(specs: Sequence[RunSpec], args: Asked) -> dict[str, float]:
    """By run that is not done, what is left of it."""
    if not specs:
        return {}
    from dgdmn.experiments.forecast import seconds

    whole = seconds(specs, before(args))
    return {spec.name: whole[spec.name] * (1 - _share_done(args.out / spec.name)) for spec in specs}


def before(args: Asked) -> dict[RunSpec, float]:
    """Seconds that the runs of all targets took, where they are done, and on this machine."""
    from dgdmn.experiments.catalogue import TARGETS, result
    from dgdmn.experiments.machine import machine
    from dgdmn.experiments.target import unique

    known, here = {}, machine()
    for spec in unique(spec for target in TARGETS.values() for spec in target.specs(args.seeds)):
        for place in (args.out, args.results):
            record = result(spec, place)
            if record is None or record.summary is None or record.config.get("machine") != here:
                continue
            if "seconds" in record.summary:
                known[spec] = float(record.summary["seconds"])
                break
    return known


def _share_done(directory: Path) -> float:
    """How much of a run that was begun is done."""
    from dgdmn.records import RunRecord

    if not (directory / "config.json").exists():
        return 0.0
    try:
        events = RunRecord.read(directory).events
    except DgdmnError:
        return 0.0
    return max((float(event["done"]) for event in events if event["kind"] == "epoch_done"), default=0.0)
