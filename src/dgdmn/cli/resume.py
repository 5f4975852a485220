"""`dgdmn resume`: go on with runs that were interrupted, to the same bits as if they had not been."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import tyro

from dgdmn.cli.run import cores, parse, report
from dgdmn.errors import UsageError


@dataclass(frozen=True)
class Resume:
    """Go on with runs that were killed or stopped, from their last checkpoint."""

    runs: tyro.conf.Positional[tuple[Path, ...]]
    """Run directories."""
    jobs: int = 0
    """Runs at a time; 0: as many as there are cores."""


def main(arguments: list[str], debug: bool = False) -> int:
    """Parse, go on, show the results."""
    args = parse(Resume, arguments, "dgdmn resume")
    if not args.runs:
        raise UsageError("name a run directory, as in `dgdmn resume runs/digits-dgdmn-paper-seed0`")
    from dgdmn.cli.display import Display, print_results
    from dgdmn.experiments.spec import RunSpec
    from dgdmn.experiments.sweep import run_all
    from dgdmn.records import RunRecord

    failures, failed, jobs = [], set(), args.jobs or cores()
    for out in dict.fromkeys(run.resolve().parent for run in args.runs):
        records = [RunRecord.read(run.resolve()) for run in args.runs if run.resolve().parent == out]
        specs = [RunSpec.of(record) for record in records]
        for spec, record in zip(specs, records, strict=True):
            if spec.name != record.name:
                raise UsageError(
                    f"{record.directory} was renamed; its run is called {spec.name}: name it so again"
                )
        unfinished = [spec for spec, record in zip(specs, records, strict=True) if not record.complete]
        with Display(out, unfinished, jobs) as display:
            failures += run_all(unfinished, out, jobs, display.look)
        failed |= {failure.run for failure in failures}
        print_results(out, [spec for spec in specs if spec.name not in failed])
    return report(failures, debug)
