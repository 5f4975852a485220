"""Read run directories and show them: one HTML page, and figures as files. No torch, nothing that trains."""

import os
import threading
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from dgdmn.core.errors import UsageError
from dgdmn.core.files import os_errors, write_atomic
from dgdmn.report.load import Problem, Run, load_runs

__all__ = ["Problem", "Report", "Run", "load_runs", "preload", "write_report"]


@dataclass(frozen=True)
class Report:
    """How much `write_report` read and wrote."""

    runs: int  # on the page
    problems: int  # directories that could not be read
    figures: int  # files


def preload() -> None:
    """Import what a page needs, in a thread of its own, while runs work in other processes."""

    def load() -> None:
        with suppress(Exception):  # reported when the page is made
            import_module("dgdmn.report.page")
            import_module("sklearn.manifold")

    threading.Thread(target=load).start()


def write_report(directories: Iterable[Path], out: Path, figures: Path | None = None) -> Report:
    """Write the page of these runs to `out`, and its figures as SVG and PDF into a directory if one is given."""
    from dgdmn.report.page import render  # matplotlib and jinja2 load only when a page is made

    if out.is_dir():
        raise UsageError(f"{out} is a directory; name a file, such as {out / 'report.html'}")
    runs, problems = load_runs(directories)
    if not runs:
        reason = f" ({problems[0].name}: {problems[0].reason})" if problems else ""
        raise UsageError(f"no run to report on{reason}; give directories that `dgdmn run` wrote")
    with os_errors("write", out):
        out.parent.mkdir(parents=True, exist_ok=True)
    written, link = 0, ""
    if figures is not None:
        from dgdmn.report.figures import write_figures

        written = len(write_figures(runs, figures))
        link = Path(os.path.relpath(figures, out.parent)).as_posix()
    write_atomic(out, render(runs, problems, figures=link).encode())
    return Report(len(runs), len(problems), written)
