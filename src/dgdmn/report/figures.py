"""The figures of a report as SVG and PDF files: the same panels as on the page, for a paper."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from matplotlib.figure import Figure

from dgdmn.core.text import shorten
from dgdmn.report.artifacts import read_dreams
from dgdmn.report.charts import Panel, image_grid, line_chart, save_figure, scatter_chart, zoom
from dgdmn.report.load import Run
from dgdmn.report.sections import memory
from dgdmn.report.sections.curves import LONG, average_panel, task_panel, time_panel
from dgdmn.report.table import Stream, group_runs, has_ltm_curves

WIDE = (3.4, 2.4)  # inches; two panels side by side fill a page


def write_figures(runs: Sequence[Run], directory: Path) -> list[Path]:
    """Write every figure that the runs have, and return the files."""
    streams = group_runs(runs)
    stems = [file_name(stream.name) for stream in streams]
    written = []
    for number, (stream, stem) in enumerate(zip(streams, stems, strict=True), start=1):
        for name, figure in _figures(stream):
            full = f"{stem}-{number}-{name}" if stems.count(stem) > 1 else f"{stem}-{name}"
            written += save_figure(figure, directory / full)
    averages = [_average(stream) for stream in streams if stream.forward]
    if len(averages) > 1:
        written += save_figure(line_chart(averages, columns=2, size=WIDE), directory / "forgetting")
    return written


def _figures(stream: Stream) -> Iterator[tuple[str, Figure]]:
    forward = stream.forward  # repeated tasks have a figure of their own
    small = {
        "curves": [task_panel(group) for group in forward],
        "curves-ltm": [task_panel(g, ltm=True) for g in forward if has_ltm_curves(g)],
        "revision": [task_panel(group) for group in stream.sequential if group.first.revise],
    }
    if stream.n_tasks >= LONG and forward:
        averages = [average_panel(forward, last=last, ltm=True) for last in (0, 10)]
        small["long"] = [panel for panel in (*averages, time_panel(stream)) if panel.lines]
    large = {
        "forgetting": [_average(stream)] if forward else [],
        "resilience": memory.resilience_panels(memory.group_resilience(stream)[0]),
        "recognition": memory.recognition_panels(stream.groups),
    }
    yield from ((name, line_chart(zoom(panels))) for name, panels in small.items() if panels)
    for name, panels in large.items():
        if panels:
            yield name, line_chart(panels, columns=2, size=WIDE)
    if maps := [(group.name, z, y) for group, z, y in memory.latent_maps(stream)[0]]:
        yield "tsne", scatter_chart(maps)
    for index, group in enumerate(stream.groups, start=1):
        dreams, _ = read_dreams(group.first)
        labels, blocks = memory.dream_blocks(group.first, dreams, max_sleeps=6)
        if blocks:
            yield f"dreams-{index}-{file_name(group.algorithm)}", image_grid(blocks, labels)


def _average(stream: Stream) -> Panel:
    title = ", ".join([stream.title, *sorted(stream.shared)])
    return zoom([replace(average_panel(stream.forward, ltm=True), title=title)])[0]


def file_name(name: str) -> str:
    """A name that every file system accepts.

    >>> file_name("../<mine>")
    '_mine_'
    """
    return re.sub(r"[^\w-]+", "_", shorten(name, 40))
