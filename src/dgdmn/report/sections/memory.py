"""Inside the memory: dreams after every sleep, latent space, resilience, recognition losses."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dgdmn.core.text import MISSING, format_percent, format_ratio, shorten
from dgdmn.report import artifacts
from dgdmn.report.artifacts import (
    Dreams,
    Resilience,
    choose_evenly,
    dream_quality,
    embed,
    read_dreams,
)
from dgdmn.report.charts import Array, Line, Panel, scatter_svg, sort_labels
from dgdmn.report.images import picture
from dgdmn.report.load import Run
from dgdmn.report.sections import Data, compare, group_line, step_lines
from dgdmn.report.style import class_style
from dgdmn.report.table import MAX_LINES, Group, Stream, mean_curve

MAX_SLEEPS = 8  # of more sleeps, this many are chosen evenly, with the first and the last
MAX_COLUMNS = 36  # samples side by side that fit on a page
MAX_TILES = 4_000  # samples in all pictures of a page, to keep a report of many runs small
CORRUPTIONS = {"noise": "Gaussian noise, standard deviation", "occlusion": "occlusion factor"}


def dream_section(stream: Stream, tiles: int) -> Data:
    """The dreams of each group's lowest seed, and charts of their quality; empty if there are none."""
    views = [_dream_view(group.first, tiles) for group in stream.groups]
    kinds = ("sleeps", "image", "quality", "notes")
    shown = [view for view in views if any(map(view.get, kinds))]
    return {"views": shown, "quality": _quality_charts(stream)} if shown else {}


def tiles_per_run(streams: Sequence[Stream]) -> int:
    """Samples that each run may show, so that all fit on the page."""
    names = [group.first.artifacts for stream in streams for group in stream.groups]
    dreaming = sum(any(name.startswith("dreams-") for name in found) for found in names)
    return max(100, min(600, MAX_TILES // max(1, dreaming)))


def _dream_view(run: Run, tiles: int) -> Data:
    (dreams, notes), (shown, more) = read_dreams(run), artifacts.read_reconstructions(run)
    labels, blocks = dream_blocks(run, dreams, MAX_SLEEPS, tiles)
    fitting = min(MAX_COLUMNS, tiles // max(1, len(labels))) // max(1, len(blocks))
    each, image = max(1, min(8, fitting)), None
    if shown is not None:
        alt = f"Test samples above, their reconstructions below, {run.name}"
        image = picture(shown, len(shown[0]), alt)
    sleeps = [(at, picture(rows, each, f"Dreams {at}, {run.name}")) for at, rows in blocks]
    counts = {replay.step: replay.per_class for replay in run.timeline.replays}
    quality = [
        (f"task {step}", *map(format_ratio, pair), _rarest(run, counts.get(step, ())))
        for step, pair in dream_quality(run, dreams).items()
    ]
    view = {"name": run.name, "labels": labels, "sleeps": sleeps, "image": image}
    return view | {"quality": quality, "notes": notes + more}


def dream_blocks(
    run: Run, dreams: Sequence[Dreams], max_sleeps: int, tiles: int = 10_000
) -> tuple[list[str], list[tuple[str, list[Array]]]]:
    """Names of the rows, and for each chosen sleep a title and one array of images for each row."""
    kept = [one for one in dreams if len(one.x)]
    found = {label for one in kept for label in one.labels}
    # All classes in the order of the stream: one that is not learned yet has an empty row.
    rows = list(dict.fromkeys([*run.classes, *sorted(found)])) if found else []
    if not rows:
        return [], []
    rows = [rows[i] for i in choose_evenly(len(rows), MAX_LINES)]
    limit = max(2, min(max_sleeps, tiles // (2 * len(rows))))
    chosen = [kept[i] for i in choose_evenly(len(kept), limit)]
    names = [shorten(row, 18) for row in rows]
    images = [[one.x[np.array(one.labels) == row] for row in rows] for one in chosen]
    return names, [(f"after task {c.step}", x) for c, x in zip(chosen, images, strict=True)]


def _rarest(run: Run, counts: Sequence[int]) -> str:
    if not sum(counts):
        return MISSING
    place = counts.index(min(counts))
    name = run.classes[place] if place < len(run.classes) else str(place)
    return f"{shorten(name, 18)}: {format_percent(counts[place] / sum(counts))}"


def _quality_charts(stream: Stream) -> Data:
    groups = [group for group in stream.groups if not group.first.together]
    found = [[dream_quality(run, read_dreams(run)[0]) for run in g.runs] for g in groups]
    panels, across = [], (1, max(stream.n_tasks, 2))
    for place, name in enumerate(("Label purity", "Class balance")):
        values = [[{step: pair[place] for step, pair in one.items()} for one in f] for f in found]
        lines = step_lines(dict(zip(groups, values, strict=True)))
        label = name.split()[1]
        panels.append(Panel(f"{name} of replay", lines, y_label=label, x_range=across))
    return compare(groups, panels, stream.title)


def latent_section(stream: Stream) -> Data:
    """The latent space and the resilience of the groups that recorded them; empty if there are none."""
    (found, notes), (known, more) = latent_maps(stream), group_resilience(stream)
    label, restored = "t-SNE of the latent space", []
    named = [(g.name, z, y, f"{label}, {g.first.name}") for g, z, y in found]
    maps = [(name, scatter_svg(z, y, alt), sort_labels(y)) for name, z, y, alt in named]
    for group, (first, *_) in known:
        if first.images is not None:
            alt = f"Corrupted samples above, their reconstructions below, {group.name}"
            restored.append((alt, picture(first.images, len(first.images[0]), alt)))
    charts = compare(stream.groups, resilience_panels(known), stream.title)
    together = any(group.first.together for group, *_ in found)
    data = {
        "maps": maps,
        "together": together,
        "corrupted": charts,
        "restored": restored,
        "notes": notes + more,
    }
    return data if maps or charts["views"] or data["notes"] else {}


def latent_maps(stream: Stream) -> tuple[list[tuple[Group, Array, list[str]]], list[str]]:
    """Points and labels of each group's lowest seed, and notes; groups of one algorithm are neighbors."""
    maps, notes = [], list[str]()
    for group in sorted(stream.groups, key=lambda group: (group.algorithm, group.first.together)):
        found, more = artifacts.read_latents(group.first)
        notes += [f"{group.first.name}: {note}" for note in more]
        maps += [(group, embed(found[0]), found[1])] if found else []
    return maps, notes


def group_resilience(stream: Stream) -> tuple[list[tuple[Group, list[Resilience]]], list[str]]:
    """The resilience of all seeds of each group that recorded it, and notes."""
    known, notes = dict[Group, list[Resilience]](), list[str]()
    for group in stream.groups:
        for run in group.runs:
            found, more = artifacts.read_resilience(run)
            notes += [f"{run.name}: {note}" for note in more]
            if found:
                known.setdefault(group, []).append(found)
    return list(known.items()), notes


def resilience_panels(known: Sequence[tuple[Group, list[Resilience]]]) -> list[Panel]:
    """Accuracy under noise and under occlusion, the mean over seeds."""
    panels = []
    for kind, label in CORRUPTIONS.items():
        lines = []
        for group, found in known:
            if curves := [one.curves[kind] for one in found if kind in one.curves]:
                x = curves[0][0]
                y = mean_curve([accuracy for levels, accuracy in curves if levels == x])
                lines.append(group_line(group, x, y))
        panels += [Panel(kind.capitalize(), lines, label)] if lines else []
    return panels


def recognition_panels(groups: Sequence[Group]) -> list[Panel]:
    """The lowest recognition loss of each task after each task, against γ, for each run that recorded it."""
    panels = []
    for group in groups:
        run, events = group.first, group.first.timeline.recognized
        losses = [[_lowest(event, task) for event in events] for task in run.tasks]
        known = [loss for one in losses for loss in one if math.isfinite(loss)]
        if not known:
            continue
        steps, gamma = range(1, len(events) + 1), run.options.get("gamma")
        named = enumerate(zip(run.tasks, losses, strict=True))
        lines = [Line(shorten(k, 16), steps, loss, class_style(i)) for i, (k, loss) in named]
        level = (gamma, "γ") if isinstance(gamma, int | float) and abs(gamma) < 1e18 else None
        # With recognition by density a loss may be negative, which has no logarithm.
        scale: Data = {"y_label": "recognition loss", "y_range": None, "log": min(known) > 0}
        panels.append(Panel(group.name, lines, level=level, **scale))
    return panels


def _lowest(event: Mapping[str, Any], task: str) -> float:
    losses = event.get("losses")
    values = losses.get(task) if isinstance(losses, Mapping) else None
    found = values if isinstance(values, list) else []
    known = [v for v in found if isinstance(v, int | float) and abs(v) < 1e18]
    return float(min(known, default=math.nan))
