"""`dgdmn report` and `dgdmn watch`: recorded runs as a page."""

from __future__ import annotations

import sys
from argparse import Namespace

from dgdmn.core.errors import UsageError
from dgdmn.core.text import count_noun


def report(args: Namespace) -> int:
    """Write the page and its figures."""
    from dgdmn.report import write_report

    if args.no_figures and args.figures is not None:
        raise UsageError("--figures and --no-figures exclude each other; give one of them")
    for path in args.run:
        if not path.exists():
            raise UsageError(f"{path} does not exist; give run directories, or directories of them")
    beside = args.out.with_name(f"{args.out.stem}-figures")
    figures = None if args.no_figures else args.figures or beside
    written = write_report(args.run, args.out, figures)
    problems = f", {count_noun(written.problems, 'problem')}" if written.problems else ""
    sys.stdout.write(f"{args.out}: {count_noun(written.runs, 'run')}{problems}\n")
    if figures is not None:
        sys.stdout.write(f"{figures}: {count_noun(written.figures, 'figure file')}\n")
    return 0


def watch(args: Namespace) -> int:
    """Serve the page of runs until Ctrl-C."""
    from dgdmn.service.app import Server

    for path in args.run:
        if not path.is_dir():
            raise UsageError(
                f"{path} is not a directory; give run directories, or directories of them"
            )
    with Server(args.run, args.port) as server:
        sys.stdout.write(
            f"watching at {server.address} (Ctrl-C stops the page; the runs continue)\n"
        )
        sys.stdout.flush()
        try:
            server.serve_forever(poll_interval=0.1)
        except KeyboardInterrupt:
            sys.stdout.write("stopped watching; the runs continue\n")
    return 0
