"""The page and the figures on the disk: the same runs give the same bytes."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dgdmn.disk import os_errors, replace
from dgdmn.errors import UsageError
from dgdmn.report.entries import datasets
from dgdmn.report.page import render_runs
from dgdmn.report.runs import Problem, Run, find_runs, read_runs
from dgdmn.report.words import short

if TYPE_CHECKING:  # matplotlib waits until a figure is asked for
    from matplotlib.figure import Figure


def figures_beside(out: Path) -> Path:
    """Where the figures of a page go unless told otherwise.

    >>> figures_beside(Path("out/report.html")).name
    'report-figures'
    """
    return out.with_name(f"{out.stem}-figures")


def write_report(runs: Sequence[Path], out: Path, figures: Path | None) -> None:
    """Write the page on these run directories, or directories of them, and its figures if there is a place."""
    read, problems = read_runs(find_runs(runs))
    write(read, problems, out, figures)


def write(runs: Sequence[Run], problems: Sequence[Problem], out: Path, figures: Path | None) -> int:
    """Write the page on runs that were read, and its figures if there is a place; how many files those are."""
    if out.is_dir():
        raise UsageError(f"{out} is a directory: name the file to write, as {out / 'report.html'}")
    with os_errors("write", out):
        out.parent.mkdir(parents=True, exist_ok=True)
    written = write_figures(runs, figures) if figures is not None else []
    html = render_runs(runs, problems, figures=_beside(out, figures) if figures else None)
    replace(out, html.encode())
    return len(written)


def _beside(out: Path, figures: Path) -> Path:
    """The figures' directory as the page sees it."""
    return Path(os.path.relpath(figures, out.parent))


def write_figures(runs: Sequence[Run], directory: Path) -> list[Path]:
    """Write every figure that the runs have as SVG and PDF, and return the files."""
    from dgdmn.report.figures.canvas import style

    with os_errors("write", directory):
        directory.mkdir(parents=True, exist_ok=True)
    written = []
    with style():
        for name, figure in _figures(runs):
            figure.draw_without_rendering()
            figure.set_layout_engine("none")  # laid out once is enough for both files
            for kind, metadata in (("svg", {"Date": None}), ("pdf", {"CreationDate": None})):
                content = io.BytesIO()
                figure.savefig(content, format=kind, metadata=metadata)
                written.append(directory / f"{name}.{kind}")
                replace(written[-1], content.getvalue())
    return written


def _figures(runs: Sequence[Run]) -> Iterator[tuple[str, Figure]]:
    """Every figure that the runs have, by the name of its file."""
    from dgdmn.report import figures

    parts = datasets(runs)
    for number, dataset in enumerate(parts, start=1):
        same = [other.name for other in parts if file_name(other.name) == file_name(dataset.name)]
        stem = file_name(dataset.name) + (f"-{number}" if len(same) > 1 else "")
        drawn = {
            "curves": figures.accuracy_curves(dataset.runs),
            "curves-ltm": figures.accuracy_curves(dataset.runs, ltm=True),
            "revision": figures.revision_curves(dataset.runs),
            "forgetting": figures.forgetting_curves(dataset.runs),
            "long": figures.long_stream(dataset.runs),
            "resilience": figures.resilience_curves(dataset.runs),
            "tsne": figures.latent_maps(dataset.runs),
            "recognition": figures.recognition_losses([entry.first for entry in dataset.entries]),
        }
        for index, entry in enumerate(dataset.entries, start=1):
            drawn[f"dreams-{index}-{file_name(entry.algorithm)}"] = figures.dream_sheet([entry.first])
        yield from ((f"{stem}-{what}", figure) for what, figure in drawn.items() if figure is not None)
    if len(parts) > 1 and (together := figures.forgetting_curves(runs)) is not None:
        yield "forgetting", together


def file_name(name: str) -> str:
    """A name that every disk takes.

    >>> file_name("../<mine>")
    '_mine_'
    """
    return re.sub(r"[^\w-]+", "_", short(name, 40))
