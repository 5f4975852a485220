"""What the command line prints and writes. Text of memories, runs and data files is not trusted."""

import csv
import sys
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from dgdmn.core.errors import UsageError
from dgdmn.core.text import printable

_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def show(*lines: object, error: bool = False) -> None:
    """Print lines with their control characters replaced, so that no text steers the terminal."""
    file = sys.stderr if error else sys.stdout
    encoding = getattr(file, "encoding", None) or "utf-8"
    text = "\n".join(map(printable, lines)).encode(encoding, "backslashreplace")
    print(text.decode(encoding), file=file, flush=True)


def check_target(path: Path) -> None:
    """Refuse to write where something other than a file is. A link there will be replaced."""
    if path.exists() and not path.is_file():
        raise UsageError(f"{path} is a directory, a pipe or a device; name a file")


def csv_text(header: Iterable[Any], rows: Iterable[Iterable[Any]]) -> str:
    """Rows as csv, with an apostrophe before text that a spreadsheet would take for a formula."""
    lines: list[str] = []
    # The writer ends lines with CR and LF, so it quotes a cell that has one of them.
    writer = csv.writer(SimpleNamespace(write=lines.append))
    for row in (header, *rows):
        writer.writerow([_safe_cell(cell) for cell in row])
    return "".join(line.removesuffix("\r\n") + "\n" for line in lines)


def _safe_cell(cell: Any) -> Any:
    if not isinstance(cell, str) or not cell.startswith(_FORMULA):
        return cell
    try:
        float(cell)
    except ValueError:
        return f"'{cell}"
    return cell
