"""Inside the memory: dreams after every sleep, latent space, resilience, recognition losses."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dgdmn.core.text import MISSING, format_percent, shorten
from dgdmn.report import artifacts
from dgdmn.report.artifacts import Dreams, Latents, Resilience, dream_quality, embed
from dgdmn.report.charts import Array, Line, Panel, scatter_svg
from dgdmn.report.images import picture
from dgdmn.report.load import Run
from dgdmn.report.sections import Data, compare, group_line, step_line
from dgdmn.report.style import class_style
from dgdmn.report.table import Group, Stream, mean_curve

MOST_SLEEPS = 8  # of more sleeps, this many are chosen evenly, with the first and the last
MOST_COLUMNS = 36  # samples side by side that fit on a page
MOST_TILES = 4_000  # samples in all pictures of a page, to keep a report of many runs small
CORRUPTIONS = {"noise": "Gaussian noise, standard deviation", "occlusion": "occlusion factor"}


def dream_section(stream: Stream, tiles: int) -> Data:
    """The dreams of each group's lowest seed, and charts of their quality; empty if there are none."""
    books = [_book(group.first, tiles) for group in stream.groups]
    kinds = ("sleeps", "image", "quality", "notes")
    shown = [book for book in books if any(book[kind] for kind in kinds)]
    return {"books": shown, "quality": _quality_charts(stream)} if shown else {}


def tiles_per_run(streams: Sequence[Stream]) -> int:
    """Samples that each run may show, so that all fit on the page."""
    names = [group.first.artifacts for stream in streams for group in stream.groups]
    dreaming = sum(any(name.startswith("dreams-") for name in found) for found in names)
    return max(100, min(600, MOST_TILES // max(1, dreaming)))


def _book(run: Run, tiles: int) -> Data:
    (dreams, notes), (shown, more) = artifacts.read_dreams(run), artifacts.read_reconstructions(run)
    labels, blocks = dream_blocks(run, dreams, MOST_SLEEPS, tiles)
    most = min(MOST_COLUMNS, tiles // max(1, len(labels))) // max(1, len(blocks))
    each, image = max(1, min(8, most)), None
    if shown is not None:
        chosen = _evenly(len(shown[0]), 20)
        alt = f"Test samples above, their reconstructions below, {run.name}"
        image = picture([images[chosen] for images in shown], len(chosen), alt)
    counts = {replay.step: replay.per_class for replay in run.timeline.replays}
    return {
        "name": run.name,
        "labels": labels,
        "sleeps": [(at, picture(rows, each, f"Dreams {at}, {run.name}")) for at, rows in blocks],
        "image": image,
        "quality": [
            (f"task {step}", *map(format_percent, pair), _rarest(run, counts.get(step, ())))
            for step, pair in dream_quality(run, dreams).items()
        ],
        "notes": notes + more,
    }


def dream_blocks(
    run: Run, dreams: Sequence[Dreams], most_sleeps: int, tiles: int = 10_000
) -> tuple[list[str], list[tuple[str, list[Array]]]]:
    """Names of the rows, and for each chosen sleep a title and one array of images for each row."""
    kept = [one for one in dreams if len(one.x)]
    rows = sorted({int(task) for one in kept for task in one.tasks})
    if not rows:
        return [], []
    most = max(2, min(most_sleeps, tiles // (2 * len(rows))))
    chosen = [kept[i] for i in _evenly(len(kept), most)]
    blocks = [
        (f"after task {one.step}", [one.x[one.tasks == row] for row in rows]) for one in chosen
    ]
    return [shorten([*run.tasks, "other"][row], 18) for row in rows], blocks


def _evenly(n: int, most: int) -> list[int]:
    return sorted({int(i) for i in np.linspace(0, n - 1, min(n, most)).round()})


def _rarest(run: Run, counts: Sequence[int]) -> str:
    if not sum(counts):
        return MISSING
    place = int(np.argmin(counts))
    name = run.classes[place] if place < len(run.classes) else str(place)
    return f"{shorten(name, 18)}: {format_percent(counts[place] / sum(counts))}"


def _quality_charts(stream: Stream) -> Data:
    """Label purity and class balance after each sleep, the mean over seeds."""
    groups = [group for group in stream.groups if not group.first.together]
    known = [
        [dream_quality(run, artifacts.read_dreams(run)[0]) for run in group.runs]
        for group in groups
    ]
    panels = []
    for index, label in enumerate(("purity", "balance")):
        seeds = [
            [{step: pair[index] for step, pair in one.items()} for one in all_] for all_ in known
        ]
        found = [step_line(group, one) for group, one in zip(groups, seeds, strict=True)]
        title = ("Label purity of replay", "Class balance of replay")[index]
        across = (1.0, float(max(stream.n_tasks, 2)))
        lines = [line for line in found if len(line.x)]
        panels.append(Panel(title, lines, y_label=label, x_range=across))
    return compare(groups, panels, stream.title)


def latent_section(stream: Stream) -> Data:
    """The latent space and the resilience of the groups that recorded them; empty if there are none."""
    (latents, notes), (known, more) = group_latents(stream), group_resilience(stream)
    label, restored = "t-SNE of the latent space", []
    maps = [(g.name, scatter_svg(*embed(one), f"{label}, {g.first.name}")) for g, one in latents]
    for group, (first, *_) in known:
        if len(first.corrupted):
            rows = [first.corrupted[:16], first.restored[:16]]
            alt = f"Corrupted samples above, their reconstructions below, {group.name}"
            restored.append((alt, picture(rows, len(rows[0]), alt)))
    charts = compare(stream.groups, resilience_panels(known), stream.title)
    data = {"maps": maps, "corrupted": charts, "restored": restored, "notes": notes + more}
    return data if maps or charts["views"] or data["notes"] else {}


def group_latents(stream: Stream) -> tuple[list[tuple[Group, Latents]], list[str]]:
    """The latents of each group's lowest seed, and notes; groups of one algorithm are neighbors."""
    groups = sorted(stream.groups, key=lambda group: (group.algorithm, group.first.together))
    read = [(group, *artifacts.read_latents(group.first)) for group in groups]
    notes = [f"{group.first.name}: {problem}" for group, _, all_ in read for problem in all_]
    return [(group, latents) for group, latents, _ in read if latents], notes


def group_resilience(stream: Stream) -> tuple[list[tuple[Group, list[Resilience]]], list[str]]:
    """The resilience of all seeds of each group, and notes."""
    read = [
        (group, run, *artifacts.read_resilience(run))
        for group in stream.groups
        for run in group.runs
    ]
    notes = [f"{run.name}: {problem}" for _, run, _, all_ in read for problem in all_]
    found = [
        (group, [one for g, _, one, _ in read if g is group and one]) for group in stream.groups
    ]
    return [(group, known) for group, known in found if known], notes


def resilience_panels(known: Sequence[tuple[Group, list[Resilience]]]) -> list[Panel]:
    """Accuracy under noise and under occlusion, the mean over seeds."""
    panels = []
    for kind, label in CORRUPTIONS.items():
        lines = []
        for group, found in known:
            if x := getattr(found[0], kind):
                same = [
                    getattr(one, f"{kind}_accuracy") for one in found if getattr(one, kind) == x
                ]
                lines.append(group_line(group, x, mean_curve(same)))
        panels += [Panel(kind.capitalize(), lines, label)] if lines else []
    return panels


def recognition_panels(stream: Stream) -> list[Panel]:
    """The lowest recognition loss of each task after each task, against γ, for each run that recorded it."""
    panels = []
    for group in stream.groups:
        run, events = group.first, group.first.timeline.recognized
        losses = [[_lowest(event, task) for event in events] for task in run.tasks]
        known = [loss for one in losses for loss in one if math.isfinite(loss)]
        if not known:
            continue
        steps, gamma = range(1, len(events) + 1), run.options.get("gamma")
        lines = [
            Line(shorten(task, 16), steps, loss, class_style(i))
            for i, (task, loss) in enumerate(zip(run.tasks, losses, strict=True))
        ]
        level = (gamma, "γ") if isinstance(gamma, int | float) and abs(gamma) < 1e18 else None
        # With recognition by density a loss may be negative, which has no logarithm.
        scale: Data = {"y_label": "recognition loss", "y_range": None, "log": min(known) > 0}
        panels.append(Panel(group.name, lines, level=level, **scale))
    return panels


def _lowest(event: Mapping[str, Any], task: str) -> float:
    losses = event.get("losses")
    values = losses.get(task) if isinstance(losses, Mapping) else None
    known = [v for v in values if isinstance(v, int | float)] if isinstance(values, list) else []
    return float(min(known, default=math.nan))
