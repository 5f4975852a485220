"""`dgdmn report`: run directories as one page, and its figures as files."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import tyro

from dgdmn.cli.run import parse
from dgdmn.errors import UsageError
from dgdmn.wording import counted


@dataclass(frozen=True)
class Report:
    """Write a page that shows what runs did: one file, which needs no network, and its figures for a paper."""

    runs: tyro.conf.Positional[tuple[Path, ...]]
    """Run directories, or directories of them."""
    out: Path = Path("report.html")
    """The page to write."""
    figures: Path | None = None
    """Where SVG and PDF files go; beside the page by default."""
    no_figures: bool = False
    """Write the page only."""


def main(arguments: list[str], debug: bool = False) -> int:  # noqa: ARG001
    """Parse, read, write."""
    args = parse(Report, arguments, "dgdmn report")
    if args.no_figures and args.figures is not None:
        raise UsageError("--figures and --no-figures exclude each other: give one of them")
    from dgdmn.report.files import figures_beside, write
    from dgdmn.report.runs import find_runs, read_runs

    for path in args.runs:
        if not path.exists():
            raise UsageError(f"{path} does not exist: give run directories, or directories of them")
    runs, problems = read_runs(find_runs(args.runs))
    if not runs:
        reason = f" ({problems[0].name}: {problems[0].reason})" if problems else ""
        raise UsageError(f"no run to report on{reason}; give directories that `dgdmn run` wrote")
    figures = None if args.no_figures else args.figures or figures_beside(args.out)
    written = write(runs, problems, args.out, figures)
    sys.stdout.write(f"{args.out}: {counted(len(runs), 'run')}")
    sys.stdout.write(f", {counted(len(problems), 'problem')}\n" if problems else "\n")
    if figures is not None:
        sys.stdout.write(f"{figures}: {counted(written, 'figure file')}\n")
    return 0
