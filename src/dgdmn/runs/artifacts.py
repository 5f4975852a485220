"""What a report shows besides accuracies: dreams, reconstructions, latents and resilience."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.neighbors import NearestNeighbors

from dgdmn.algorithms.estimator import ContinualClassifier
from dgdmn.algorithms.generative import GenerativeClassifier
from dgdmn.features import FrontEnd
from dgdmn.records import RunWriter
from dgdmn.streams import Rows
from dgdmn.streams.base import concat_rows, seeded_rng

Images = NDArray[np.float32]

DREAMS = 512  # dreams that are sampled and labeled
SHOWN = 8  # dreams kept of each task (of each label, if there is one task), and test rows shown corrupted
RECONSTRUCTED = 4  # test rows of each task that are reconstructed
REFERENCE_ROWS = (200, 10_000)
"""Test rows that dreams are compared with: of each class of each task, and in total."""
LATENTS, LATENT_COLUMNS = 1_000, 64
"""Test rows whose latents are kept, and the most numbers kept of each: a code of features may have hundreds."""
TESTED = 2_000  # test rows that are corrupted
NOISE = (0.0, 0.1, 0.15, 0.2, 0.25, 0.3)
"""Standard deviations of the noise (the paper's figure on resilience)."""
OCCLUSION = (0.1, 0.13, 0.16, 0.19, 0.22, 0.25, 0.28)
"""Sizes of the black square, as a share of the image (the same figure)."""
NEIGHBORS = 5  # test rows that vote on the label of a dream


@dataclass(frozen=True, eq=False)
class LabeledRows(Rows):
    """Rows of several tasks, one task after the other."""

    task: NDArray[np.int64]  # the column of each row's task in the accuracy matrix


def stack_tasks(parts: Mapping[str, Rows]) -> LabeledRows:
    """The rows of all tasks."""
    tasks = np.repeat(np.arange(len(parts)), [len(rows) for rows in parts.values()])
    rows = concat_rows([*parts.values()])
    return LabeledRows(rows.x, rows.y, tasks)


def draw_balanced(
    tests: Mapping[str, Rows], each: int, limit: int, rng: np.random.Generator
) -> LabeledRows:
    """At most `each` rows of each class of each task, and at most `limit` in total; but one of each at least."""
    each = min(each, max(1, limit // sum(len(np.unique(rows.y)) for rows in tests.values())))

    def draw(rows: Rows) -> Rows:
        classes = [np.flatnonzero(rows.y == y) for y in np.unique(rows.y)]
        return rows.take(np.concatenate([rng.permutation(group)[:each] for group in classes]))

    return stack_tasks({name: draw(rows) for name, rows in tests.items()})


class NearestRows:
    """Real rows that decide the label and the task of an input: its nearest neighbors vote."""

    def __init__(self, rows: LabeledRows) -> None:
        self._rows, neighbors = rows, min(NEIGHBORS, len(rows.x))
        self._index = NearestNeighbors(n_neighbors=neighbors).fit(rows.x.reshape(len(rows.x), -1))

    def vote(self, x: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """The label and the task that most of the nearest rows have; ties go to the nearest."""
        nearest = self._index.kneighbors(x.reshape(len(x), -1), return_distance=False)
        return majority(self._rows.y[nearest]), majority(self._rows.task[nearest])


def majority(votes: NDArray[Any]) -> NDArray[Any]:
    """The most frequent value of each row; of several, the one that comes first."""
    frequency = (votes[:, :, None] == votes[:, None, :]).sum(axis=2)
    winner: NDArray[Any] = votes[np.arange(len(votes)), frequency.argmax(axis=1)]
    return winner


def add_noise(x: Images, sd: float, rng: np.random.Generator) -> Images:
    """x + sd · N(0, 1), not clipped.

    The paper does not clip either: at sd .3 its network has .745, ours .742 without clipping and .500 with it.
    """
    return x + np.float32(sd) * rng.standard_normal(x.shape, dtype=np.float32)


def occlude(x: Images, factor: float) -> Images:
    """Images (n, h, w) or (n, h, w, channels) with a black square of half-width int(factor · side / 2).

    The paper does not describe its square. This one gives its network's accuracies: .939 .770 .607 for .938
    .798 .611 at half-widths of 1, 2 and 3; other colors, even widths or random places do not.
    """
    covered = x.copy()
    covered[:, _middle(x.shape[1], factor), _middle(x.shape[2], factor)] = 0
    return covered


def _middle(side: int, factor: float) -> slice:
    half = int(factor * side / 2)
    return slice(side // 2 - half, side // 2 + half + 1) if half else slice(0)


def _distinct_squares(x: Images) -> list[int]:
    """For each occlusion, the first one that covers the same square; empty if the inputs are not images."""
    sides = x.shape[1:3] if _are_images(x) else ()
    squares = [[_middle(side, factor) for side in sides] for factor in OCCLUSION if sides]
    return [squares.index(square) for square in squares]


def has_features(model: ContinualClassifier) -> bool:
    """Whether the memory learns from features of a front end."""
    return isinstance(model.fitted_.inputs, FrontEnd)


class Artifacts:
    """Writes the artifacts of a run, made from its test rows. The run's seed decides all draws."""

    def __init__(self, writer: RunWriter, tests: Mapping[str, Rows], seed: int) -> None:
        self._writer, self._tests, self._seed = writer, tests, seed

    def write_dreams(self, model: ContinualClassifier, step: int) -> None:
        """Write dreams of the long-term memory, if it has just consolidated everything."""
        if not isinstance(model, GenerativeClassifier):
            return
        if model.awake_tasks() or not model.has_dreams():
            return
        x, labels = model.sample(DREAMS, random_state=self._seed)
        judged, tasks = self._references.vote(x)
        groups = tasks if len(self._tests) > 1 else judged
        shown = np.concatenate([np.flatnonzero(groups == one)[:SHOWN] for one in np.unique(groups)])
        kept = {"x": _to_bytes(x[shown]), "y": labels[shown]}
        self._writer.artifact(f"dreams-{step:03d}", labels=labels, judged=judged, **kept)

    def write_final(self, model: ContinualClassifier) -> None:
        """Write reconstructions, latents and resilience of the model at the end of a run."""
        if isinstance(model, GenerativeClassifier):
            if model.has_dreams():
                first = np.arange(RECONSTRUCTED)
                tests = self._tests.items()
                rows = stack_tasks({name: part.take(first[: len(part)]) for name, part in tests})
                x, seen = _to_bytes(rows.x), _to_bytes(model.reconstruct(rows.x))
                self._writer.artifact("reconstructions", x=x, reconstructed=seen)
            if model.has_latents():
                rows = self._draw("latents", LATENTS, LATENTS)
                z = model.latents(rows.x)[:, :LATENT_COLUMNS]
                self._writer.artifact("latents", z=z, y=rows.y)
        self._write_resilience(model)

    def final_tests(self, model: ContinualClassifier) -> float:
        """How many times as many rows as one test of all tasks `write_final` predicts, about."""
        rows = self._draw("resilience", TESTED, TESTED)
        levels = len(NOISE) * (1 if has_features(model) else 2) + len(
            set(_distinct_squares(rows.x))
        )
        share = len(rows.x) / sum(len(part) for part in self._tests.values())
        return levels * share if _are_gray(rows.x) else 0.0

    @cached_property
    def _references(self) -> NearestRows:
        return NearestRows(self._draw("judges", *REFERENCE_ROWS))

    def _write_resilience(self, model: ContinualClassifier) -> None:
        """Write accuracies on corrupted rows, and a few of these rows as the memory restores them."""
        rows = self._draw("resilience", TESTED, TESTED)
        if not _are_gray(rows.x):
            return  # the levels are for gray values; other inputs have another scale
        noisy = [self._add_noise(rows.x, sd) for sd in NOISE]

        def predict(x: Images) -> NDArray[Any]:
            return model.predict(model.prepare_unclipped(x))

        arrays: dict[str, Any] = {
            "noise": np.array(NOISE),
            "noise_accuracy_unclipped": _accuracies(predict, noisy, rows),
        }
        # The paper's networks see clipped values.
        if not has_features(model):
            clipped = (np.clip(x, 0, 1) for x in noisy)
            arrays["noise_accuracy"] = _accuracies(predict, clipped, rows)
        if _are_images(rows.x):
            first = _distinct_squares(rows.x)  # equal squares are tested once
            covered = (occlude(rows.x, OCCLUSION[place]) for place in sorted(set(first)))
            accuracy = _accuracies(predict, covered, rows)
            arrays["occlusion"] = np.array(OCCLUSION)
            arrays["occlusion_accuracy"] = accuracy[np.searchsorted(sorted(set(first)), first)]
        # Rows lie task by task: evenly spaced ones show many tasks.
        few = np.linspace(0, len(rows.x) - 1, SHOWN).astype(int)
        x = rows.x[np.tile(few, 2)]
        if isinstance(model, GenerativeClassifier) and model.has_dreams():
            corrupted = self._add_noise(x, NOISE[-1])
            if _are_images(x):
                corrupted[len(few) :] = occlude(x[len(few) :], OCCLUSION[-1])
            arrays["corrupted"] = _to_bytes(corrupted)
            arrays["restored"] = _to_bytes(model.reconstruct(model.prepare_unclipped(corrupted)))
        self._writer.artifact("resilience", **arrays, x=_to_bytes(x))

    def _add_noise(self, x: Images, sd: float) -> Images:
        """Noise from the same draw for each sd: a curve shows the effect of sd alone."""
        return add_noise(x, sd, seeded_rng(self._seed, "noise"))

    def _draw(self, use: str, each: int, limit: int) -> LabeledRows:
        return draw_balanced(self._tests, each, limit, seeded_rng(self._seed, use))


def _accuracies(
    predict: Callable[[Images], NDArray[Any]], corrupted: Iterable[Images], rows: LabeledRows
) -> NDArray[np.float64]:
    """Mean accuracy over the tasks, for each corruption of the same rows."""
    tasks = [rows.task == task for task in np.unique(rows.task)]
    correct = [predict(x) == rows.y for x in corrupted]
    return np.array([np.mean([one[task].mean() for task in tasks]) for one in correct])


def _are_gray(x: NDArray[Any]) -> bool:
    return bool(x.min() >= 0 and x.max() <= 1)


def _are_images(x: NDArray[Any]) -> bool:
    return x.ndim > 2


def _to_bytes(x: NDArray[Any]) -> NDArray[np.uint8]:
    return np.asarray(np.round(np.clip(x, 0, 1) * 255), dtype=np.uint8)
