"""t-SNE of the latent space, sequential beside together."""

from collections.abc import Callable, Sequence
from operator import attrgetter

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from dgdmn.report import artefacts
from dgdmn.report.entries import Entry, datasets
from dgdmn.report.figures.canvas import class_colour, panels
from dgdmn.report.runs import Run
from dgdmn.report.tsne import embed
from dgdmn.report.words import short


def latent_maps(runs: Sequence[Run], called: Callable[[Entry], str] = attrgetter("name")) -> Figure | None:
    """A map of test samples for each algorithm; together stands beside sequential."""
    entries = [entry for dataset in datasets(runs) for entry in dataset.entries]
    entries.sort(key=lambda entry: (entry.algorithm, entry.first.together))
    found = [(entry, known) for entry in entries if (known := artefacts.latents(entry.first)[0])]
    if not found:
        return None
    figure, axes = panels(len(found), 2, size=(3.0, 3.0))
    for (entry, latents), one in zip(found, axes, strict=True):
        places, y = embed(latents.z, latents.y)
        for number, label in enumerate(sorted(set(y), key=lambda label: (len(label), label))):
            chosen = places[np.array([name == label for name in y])]
            one.scatter(chosen[:, 0], chosen[:, 1], s=4, color=class_colour(number), linewidths=0)
            middle = _inmost(chosen)
            one.text(middle[0], middle[1], short(label, 12), ha="center", va="center", fontweight="bold")
        one.set(title=short(called(entry), 48), xticks=[], yticks=[])
    return figure


def _inmost(places: NDArray[np.float64]) -> NDArray[np.float64]:
    """The place nearest to all others of a class: a median of coordinates may lie among those of another."""
    apart = np.linalg.norm(places[:, None] - places[None], axis=2)
    nearest: NDArray[np.float64] = places[apart.sum(axis=1).argmin()]
    return nearest
