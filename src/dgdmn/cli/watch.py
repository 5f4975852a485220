"""`dgdmn watch`: a page on this machine that follows runs while they go."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import tyro

from dgdmn.cli.run import parse
from dgdmn.errors import UsageError


@dataclass(frozen=True)
class Watch:
    """Serve the report of runs on 127.0.0.1, and follow those still going; Ctrl-C ends it, not the runs."""

    runs: tyro.conf.Positional[tuple[Path, ...]]
    """Run directories, or directories of them; those to come are found."""
    port: int = 8765
    """Where to listen; 0: any port that is free."""


def main(arguments: list[str], debug: bool = False) -> int:  # noqa: ARG001
    """Parse, listen, answer until Ctrl-C."""
    args = parse(Watch, arguments, "dgdmn watch")
    if not args.runs:
        raise UsageError("name a directory of runs, as in `dgdmn watch runs`")
    for path in args.runs:
        if not path.is_dir():
            raise UsageError(f"{path} is not a directory: name run directories, or a directory of them")
    from dgdmn.report.server import Server

    with Server(args.runs, args.port) as server:
        sys.stdout.write(f"watching at {server.address} (Ctrl-C ends it; the runs go on)\n")
        sys.stdout.flush()
        try:
            server.serve_forever(poll_interval=0.1)
        except KeyboardInterrupt:
            sys.stdout.write("stopped watching; the runs go on\n")
    return 0
