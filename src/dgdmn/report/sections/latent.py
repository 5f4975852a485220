"""Section 5: latent space, and what noise and occlusion do to a memory."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from dgdmn.report import artefacts, series
from dgdmn.report.artefacts import Latents, Resilience
from dgdmn.report.charts import Axes, Series, line_chart
from dgdmn.report.colours import css_class
from dgdmn.report.entries import Dataset, Entry, mean_curve
from dgdmn.report.pictures import Picture, grid
from dgdmn.report.sections.curves import Compared, legend, line_class, marker, task_class
from dgdmn.report.tsne import embed
from dgdmn.report.words import short


@dataclass(frozen=True)
class Inside:
    """All that the section shows."""

    maps: tuple[tuple[str, Markup], ...]
    """t-SNE of each algorithm, sequential and together side by side."""
    spoilt: Compared
    """Accuracy under noise and occlusion."""
    published: bool
    """Whether points of the paper are among them."""
    restored: tuple[Picture, ...]
    """Spoilt samples and what a memory makes of them."""
    notes: tuple[str, ...]

    @property
    def any(self) -> bool:
        """Whether there is something to show."""
        return bool(self.maps or self.spoilt.charts or self.notes)


def inside(dataset: Dataset) -> Inside:
    """The latent space and the resilience of the runs that recorded them."""
    maps, notes = [], []
    # together beside sequential: same algorithm, neighbours on the page
    for entry in sorted(dataset.entries, key=lambda one: (one.algorithm, one.first.together)):
        found, said = artefacts.latents(entry.first)
        notes += [f"{entry.first.name}: {note}" for note in said]
        if found is not None:
            maps.append((entry.name, scatter(found, f"t-SNE of the latent space, {entry.first.name}")))
    measured = {}
    for entry in dataset.entries:
        pairs = [artefacts.resilience(run) for run in entry.runs]
        notes += [
            f"{run.name}: {note}" for run, (_, said) in zip(entry.runs, pairs, strict=True) for note in said
        ]
        if known := [one for one, _ in pairs if one is not None]:
            measured[entry] = known
    published = bool(series.published_resilience(list(measured), "noise"))
    return Inside(tuple(maps), _charts(dataset, measured), published, _restored(measured), tuple(notes))


def scatter(latents: Latents, title: str) -> Markup:
    """A map of test samples, a colour for each label, its name at its middle."""
    points, y = embed(latents.z, latents.y)
    low, high = points.min(axis=0), points.max(axis=0)
    places = np.round(14 + (points - low) / np.maximum(high - low, 1e-9) * 292, 0).astype(int)
    labels = sorted(set(y), key=lambda label: (len(label), label))
    dots = Markup("").join(
        Markup('<path class="dots {}" d="{}"/>').format(task_class(i), _dots(places[_of(y, label)]))
        for i, label in enumerate(labels)
    )
    names = Markup("").join(_name(places[_of(y, label)], label) for label in labels)
    return Markup('<svg class="map" viewBox="0 0 320 320" role="img" aria-label="{}">{}{}</svg>').format(
        title, dots, names
    )


def _of(y: tuple[str, ...], label: str) -> NDArray[np.bool_]:
    return np.array([one == label for one in y])


def _dots(places: NDArray[np.int_]) -> str:
    return "".join(f"M{x} {y}h0" for x, y in places.tolist())


def _name(places: NDArray[np.int_], label: str) -> Markup:
    x, y = np.median(places, axis=0)
    return Markup('<text class="halo" x="{:g}" y="{:g}" text-anchor="middle">{}</text>').format(
        round(float(x)), round(float(y)) + 4, short(label, 12)
    )


def _charts(dataset: Dataset, measured: dict[Entry, list[Resilience]]) -> Compared:
    kinds = (
        ("noise", "Gaussian noise", "standard deviation"),
        ("occlusion", "Occlusion", "occlusion factor"),
    )
    charts = [(title, _chart(dataset, measured, kind, title, label)) for kind, title, label in kinds]
    return Compared(legend(measured), tuple((title, chart) for title, chart in charts if chart is not None))


def _chart(
    dataset: Dataset, measured: dict[Entry, list[Resilience]], kind: str, title: str, label: str
) -> Markup | None:
    x_of: Callable[[Resilience], tuple[float, ...]] = lambda one: getattr(one, kind)  # noqa: E731
    shown = {entry: known for entry, known in measured.items() if x_of(known[0])}
    lines = [
        Series(
            entry.name,
            line_class(entry),
            x_of(known[0]),
            mean_curve([getattr(one, f"{kind}_accuracy") for one in known if x_of(one) == x_of(known[0])]),
            entry.name,
            marker=marker(entry.algorithm),
        )
        for entry, known in shown.items()
    ]
    if not lines:
        return None
    lines += [
        Series(
            f"{name.upper()}, the paper's",
            css_class(entry.algorithm),
            curve.x,
            curve.series[name],
            entry.name,
            points=True,
        )
        for entry, name, curve in series.published_resilience(list(shown), kind)
    ]
    places = [x for line in lines for x in line.x]
    return line_chart(lines, Axes(f"{title}, {dataset.name}", label, "accuracy", (min(places), max(places))))


def _restored(measured: dict[Entry, list[Resilience]]) -> tuple[Picture, ...]:
    return tuple(
        grid(
            [known[0].corrupted[:16], known[0].restored[:16]],
            min(16, len(known[0].corrupted)),
            f"Spoilt samples above, what the memory makes of them below, {entry.name}",
        )
        for entry, known in measured.items()
        if len(known[0].corrupted)
    )
