"""`dgdmn algorithms`: what there is to run, what it keeps, where it comes from."""

from __future__ import annotations

import sys

from rich.console import Console
from rich.table import Table

from dgdmn.algorithms import ALGORITHMS, algorithm


def main(arguments: list[str], debug: bool = False) -> int:  # noqa: ARG001
    """List the algorithms."""
    if arguments:
        sys.stdout.write("usage: dgdmn algorithms\n")
        return 0 if arguments[0] in ("-h", "--help") else 2
    table = Table()
    for heading in ("name", "category", "what", "keeps", "from"):
        table.add_column(heading)
    for name in ALGORITHMS:
        found = algorithm(name)
        what = (found.__doc__ or "").strip().splitlines()[0]
        table.add_row(name, found.category, what, found.keeps, found.source)
    Console().print(table)
    return 0
