"""`dgdmn data where|fetch|verify [NAME …]`: the data files on this machine."""

from __future__ import annotations

import sys
from argparse import Namespace

from rich.console import Console
from rich.progress import Progress

from dgdmn.cli.verbs import DATASETS
from dgdmn.streams import fetch


def data(args: Namespace) -> int:
    """Locate, fetch or verify datasets."""
    names, failed = args.name or DATASETS, False
    for name in names:
        fetch.dataset_of(name)
    for name in names:
        if args.action == "verify":
            for verdict in fetch.verify(name):
                status, failed = ("ok ", failed) if verdict.ok else ("BAD", True)
                sys.stdout.write(f"{status} {verdict.file}: {verdict.message} ({verdict.source})\n")
        else:
            for copy in fetch_with_bars(name) if args.action == "fetch" else fetch.where(name):
                place = copy.path or f"not found; the cache is {fetch.cache_dir()}"
                sys.stdout.write(f"{copy.file}: {place} ({copy.source})\n")
    return 1 if failed else 0


def fetch_with_bars(name: str) -> list[fetch.Copy]:
    """Fetch a dataset and show a progress bar for each file that is downloaded."""
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bars:
        ids = {}

        def show(file: str, done: int, total: int) -> None:
            if file not in ids:
                ids[file] = bars.add_task(file)
            bars.update(ids[file], completed=done, total=total or None)

        return fetch.fetch(name, show)
