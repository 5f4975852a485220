"""What a run will cost, told beforehand: the real algorithm over networks that only count."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from dgdmn.algorithms import algorithm
from dgdmn.algorithms.exemplars import room
from dgdmn.algorithms.generative import GenerativeClassifier
from dgdmn.events import EpochDone, Event, Listener
from dgdmn.networks.blueprint import Blueprint
from dgdmn.networks.generator import Role
from dgdmn.networks.layers import image_shape
from dgdmn.networks.rmsprop import RMSProp
from dgdmn.networks.training import Loss, Schedule, Step
from dgdmn.presets import Preset
from dgdmn.samples import Samples


def planned_epochs(
    name: str, preset: Preset, tasks: Sequence[tuple[str, Any]], shape: tuple[int, ...]
) -> list[EpochDone]:
    """Every epoch that learning these tasks will train, in order.

    A task is its name and the labels of its rows. The algorithm runs as it is, on inputs without
    content and over networks that train nothing, so the plan cannot differ from the run. The shape is
    that of a real input: it decides how many exemplars there is room for.
    """
    epochs: list[EpochDone] = []

    def note(event: Event) -> None:
        if isinstance(event, EpochDone):
            epochs.append(event)

    learner_epochs = preset.joint_epochs if name == "joint" else preset.learner_epochs
    doubles: dict[str, Any] = {"learner": partial(_CountingLearner, _schedule(preset, learner_epochs))}
    if "generator" in algorithm(name)._get_param_names():
        doubles["generator"] = partial(_CountingGenerator, _schedule(preset, preset.generator_epochs))
    classes = sorted({label for _, y in tasks for label in np.unique(y).tolist()})
    if "exemplars" in algorithm(name)._get_param_names():
        outputs = max(preset.n_classes, len(classes))
        preset = replace(preset, exemplars=room(Blueprint(preset, shape), outputs))
    model = algorithm(name)(preset, listen=note, random_state=0, **doubles)
    for task, y in tasks:
        model.partial_fit(np.zeros((len(y), 1)), y, classes=classes, task=task)
    if isinstance(model, GenerativeClassifier):
        model.sleep()
    return epochs


def cost(epoch: EpochDone, preset: Preset, shape: tuple[int, ...]) -> float:
    """About how many multiplications an epoch takes forward."""
    small = epoch.memory == "stm"
    if epoch.network == "generator":
        kernels = preset.sttm_generator_convolutions if small else preset.generator_convolutions
        layers = preset.sttm_generator_layers if small else preset.generator_layers
        latent = preset.sttm_latent if small else preset.latent
        return 2 * epoch.samples * _products(shape, kernels, 4, (*layers, latent))
    kernels = preset.sttm_learner_convolutions if small else preset.learner_convolutions
    layers = preset.sttm_learner_layers if small else preset.learner_layers
    return epoch.samples * _products(shape, kernels, 3, layers)


def _products(shape: tuple[int, ...], kernels: tuple[int, ...], size: int, layers: tuple[int, ...]) -> float:
    if not kernels:
        return sum(a * b for a, b in itertools.pairwise((math.prod(shape), *layers)))
    height, width, channels = image_shape(shape)
    total = 0.0
    for n_in, n_out in itertools.pairwise((channels, *kernels)):
        pixels = height * width if size == 3 else height * width // 4
        total += pixels * size * size * n_in * n_out
        height, width = height // 2, width // 2
    return total + sum(a * b for a, b in itertools.pairwise((height * width * kernels[-1], *layers)))


def _schedule(preset: Preset, epochs: int) -> Schedule:
    return Schedule(epochs=epochs, batch_size=preset.batch_size, min_steps=preset.min_steps)


class _Counting:
    """Trains nothing and says what it would have trained."""

    network: str

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule

    def _count(self, n: int, listen: Listener) -> None:
        epochs = self._schedule.epochs_for(n)
        for epoch in range(1, epochs + 1):
            listen(EpochDone(self.network, epoch, epochs, n, math.nan))

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        pass


class _CountingGenerator(_Counting):
    network = "generator"

    def __init__(self, schedule: Schedule, shape: tuple[int, ...], role: Role, rng: torch.Generator) -> None:
        super().__init__(schedule)

    def fit(self, x: Tensor, rng: torch.Generator, listen: Listener) -> None:
        self._count(len(x), listen)

    def sample(self, n: int, rng: torch.Generator) -> Tensor:
        return torch.zeros(n, 1)

    def reconstruct(self, x: Tensor) -> Tensor:
        return x

    def reconstruction_loss(self, x: Tensor) -> Tensor:
        return torch.zeros(len(x))


class _CountingLearner(_Counting):
    network = "learner"

    def __init__(
        self,
        schedule: Schedule,
        shape: tuple[int, ...],
        n_classes: int,
        role: Role,
        rng: torch.Generator,
    ) -> None:
        super().__init__(schedule)
        self._n_classes = n_classes

    def fit(self, samples: Samples, rng: torch.Generator, listen: Listener) -> None:
        self._count(len(samples), listen)

    def train_with(
        self,
        loss: Loss,
        data: tuple[Tensor, ...],
        rng: torch.Generator,
        listen: Listener,
        step: Step = RMSProp.step,
        also: Sequence[Tensor] = (),
    ) -> None:
        self._count(len(data[0]), listen)

    def __call__(self, x: Tensor, rng: torch.Generator | None = None) -> Tensor:
        return torch.zeros(len(x), self._n_classes)

    def features(self, x: Tensor) -> Tensor:
        return torch.zeros(len(x), 1)

    def parameters(self) -> Iterator[nn.Parameter]:
        return iter(())

    def probabilities(self, x: Tensor) -> Tensor:
        return torch.zeros(len(x), self._n_classes)

    def grow(self, n_classes: int, rng: torch.Generator) -> None:
        self._n_classes = n_classes
