"""What a report shows beside the numbers: dreams and their judges, reconstructions, latents, resilience."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from dgdmn import paper
from dgdmn.algorithms.base import ContinualClassifier
from dgdmn.algorithms.generative import GenerativeClassifier
from dgdmn.experiments.balance import Labelled, balanced, stacked
from dgdmn.experiments.corruption import noisy, occluded
from dgdmn.experiments.judging import Judges
from dgdmn.records import RunWriter
from dgdmn.streams import Rows
from dgdmn.streams.task import generator

DREAMS = 512
"""Dreams that are judged."""
SHOWN = 8
"""Dreams of each task that are kept, and test rows that are shown corrupted."""
RECONSTRUCTED = 4
"""Test rows of each task that are reconstructed."""
JUDGES = (200, 10_000)
"""Test rows that judge dreams: of each class of each task, and in all."""
LATENTS = 1_000
"""Test rows whose place in latent space is kept."""
TESTED = 2_000
"""Test rows that are corrupted."""
NOISE, OCCLUSION = paper.curve("noise").x, paper.curve("occlusion").x
"""Standard deviations and factors of the paper's figure on resilience."""


class Artefacts:
    """Writes what can be shown of a memory, from test rows; what is drawn is drawn by the run's seed."""

    def __init__(self, writer: RunWriter, tests: dict[str, Rows], seed: int) -> None:
        self._writer, self._tests, self._seed = writer, tests, seed

    def dreams(self, model: ContinualClassifier, step: int) -> None:
        """What the long-term memory dreams of, each time it has just consolidated."""
        if not isinstance(model, GenerativeClassifier) or model.awake_tasks():
            return
        x, labels = model.sample(DREAMS, random_state=self._seed)
        judged, tasks = self._judges.verdicts(x)
        shown = np.concatenate([np.flatnonzero(tasks == task)[:SHOWN] for task in range(len(self._tests))])
        self._writer.artefact(
            f"dreams-{step:03d}",
            labels=labels,
            judged=judged,
            tasks=tasks,
            x=_bytes(x[shown]),
            y=labels[shown],
            task=tasks[shown],
        )

    def at_end(self, model: ContinualClassifier) -> None:
        """What the memory has become, when nothing is awake any more."""
        if isinstance(model, GenerativeClassifier):
            self._reconstructions(model)
            if model.has_latents():
                self._latents(model)
        self._resilience(model)

    @cached_property
    def _judges(self) -> Judges:
        return Judges(self._chosen("judges", *JUDGES))

    def _reconstructions(self, model: GenerativeClassifier) -> None:
        first = np.arange(RECONSTRUCTED)
        rows = stacked({name: rows.take(first[: len(rows)]) for name, rows in self._tests.items()})
        seen = model.reconstruct(rows.x)
        self._writer.artefact("reconstructions", x=_bytes(rows.x), reconstructed=_bytes(seen), task=rows.task)

    def _latents(self, model: GenerativeClassifier) -> None:
        rows = self._chosen("latents", LATENTS, LATENTS)
        self._writer.artefact("latents", z=model.latents(rows.x), x=_bytes(rows.x), y=rows.y, task=rows.task)

    def _resilience(self, model: ContinualClassifier) -> None:
        """Accuracy on corrupted rows."""
        rows = self._chosen("resilience", TESTED, TESTED)
        raw = [self._noisy(rows.x, sd) for sd in NOISE]
        arrays = {
            "noise": np.array(NOISE),
            "noise_accuracy": _accuracies(model, map(_clipped, raw), rows),
            "noise_accuracy_unclipped": _accuracies(model, raw, rows),
        }
        if _pictures(rows.x):
            spoilt = (occluded(rows.x, factor) for factor in OCCLUSION)
            arrays |= {
                "occlusion": np.array(OCCLUSION),
                "occlusion_accuracy": _accuracies(model, spoilt, rows),
            }
        few = np.linspace(0, len(rows.x) - 1, SHOWN).astype(int)  # of many tasks: rows lie task by task
        x = rows.x[np.tile(few, 2)]
        self._writer.artefact("resilience", **arrays, x=_bytes(x), **self._restored(model, x))

    def _restored(self, model: ContinualClassifier, x: NDArray[np.float32]) -> dict[str, NDArray[np.uint8]]:
        """What a memory that reconstructs makes of noise and, in the second half, of a square."""
        if not isinstance(model, GenerativeClassifier):
            return {}
        corrupted = self._noisy(x, NOISE[-1])
        if _pictures(x):
            corrupted[len(x) // 2 :] = occluded(x[len(x) // 2 :], OCCLUSION[-1])
        restored = model._long_term(model.learnt_).generator.reconstruct(_rows(model, corrupted))
        return {"corrupted": _bytes(corrupted), "restored": _bytes(restored.cpu().numpy().reshape(x.shape))}

    def _noisy(self, x: NDArray[np.float32], sd: float) -> NDArray[np.float32]:
        """The same noise at each sd: a curve shows the sd, not the draw."""
        return noisy(x, sd, generator(self._seed, "noise"))

    def _chosen(self, use: str, each: int, most: int) -> Labelled:
        return balanced(self._tests, each, most, generator(self._seed, use))


def _accuracies(
    model: ContinualClassifier, corrupted: Iterable[NDArray[np.float32]], rows: Labelled
) -> NDArray[np.float64]:
    """Mean accuracy over the tasks, for each corruption of the same rows."""
    tasks = [rows.task == task for task in np.unique(rows.task)]
    right = [_answers(model, x) == rows.y for x in corrupted]
    return np.array([np.mean([one[task].mean() for task in tasks]) for one in right])


def _answers(model: ContinualClassifier, x: NDArray[np.float32]) -> NDArray[Any]:
    """The labels that the memory gives, asked behind the estimator's door, which would clip the noise.

    Nothing is awake at a run's end, so no task's name changes an answer.
    """
    learnt = model.learnt_
    outputs = learnt.memory.probabilities(_rows(model, x), "")
    labels: NDArray[Any] = model.classes_[learnt.named(outputs).argmax(axis=1)]
    return labels


def _rows(model: ContinualClassifier, x: NDArray[np.float32]) -> torch.Tensor:
    return torch.from_numpy(x.reshape(len(x), -1)).to(model.device)


def _pictures(x: NDArray[Any]) -> bool:
    """Whether rows have a middle."""
    return x.ndim > 2


def _clipped(x: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.clip(x, 0, 1)


def _bytes(x: NDArray[Any]) -> NDArray[np.uint8]:
    return np.asarray(np.round(_clipped(x) * 255), dtype=np.uint8)
