"""What a run will cost, told beforehand: the real algorithm over networks that only count."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np
import torch

from dgdmn.algorithms import algorithm
from dgdmn.algorithms.base import ContinualClassifier
from dgdmn.algorithms.dual import DualClassifier
from dgdmn.algorithms.exemplars import room
from dgdmn.algorithms.generative import GenerativeClassifier
from dgdmn.algorithms.saving import described, restored
from dgdmn.events import EpochDone, Event, SleepBegan
from dgdmn.experiments.counting import CountingGenerator, CountingLearner
from dgdmn.networks.blueprint import Blueprint
from dgdmn.networks.generator import Role
from dgdmn.networks.layers import image_shape
from dgdmn.networks.training import Schedule
from dgdmn.presets import Preset
from dgdmn.storage import tensors_in


@dataclass
class Stage:
    """A task that is learnt, or a sleep."""

    what: Literal["learn", "sleep"]
    tasks: tuple[str, ...]
    epochs: list[EpochDone]
    awake: int
    """Task memories in use when it ends, asleep again or not."""
    codes: int = 0
    """Codes that they keep."""
    slept: bool = False
    """Whether the long-term memory has learnt something by its end, and so has a prior where there is to be one."""
    rows: int = 0
    """Bytes of training rows kept when it ends."""


def planned_epochs(
    name: str, preset: Preset, tasks: Sequence[tuple[str, Any]], shape: tuple[int, ...]
) -> list[EpochDone]:
    """Every epoch that learning these tasks will train, in order."""
    return [epoch for stage in planned_stages(name, preset, tasks, shape) for epoch in stage.epochs]


def planned_stages(
    name: str, preset: Preset, tasks: Sequence[tuple[str, Any]], shape: tuple[int, ...]
) -> list[Stage]:
    """What learning these tasks and a last sleep will train, one stage after the other.

    A task is its name and the labels of its rows. The algorithm runs as it is, on inputs without
    content and over networks that train nothing, so the plan cannot differ from the run, but for what
    recognition makes of real inputs. The shape is that of a real one: it decides how many exemplars there is
    room for.
    """
    classes = sorted({label for _, y in tasks for label in np.unique(y).tolist()})
    doubles = _doubles(name, preset)
    if "exemplars" in algorithm(name)._get_param_names():
        outputs = max(preset.n_classes, len(classes))
        preset = replace(preset, exemplars=room(Blueprint(preset, shape), outputs))
    # one Gaussian a class says as much of inputs without content as many, and is fitted at once
    small = replace(preset, prior_components=min(1, preset.prior_components))
    model = algorithm(name)(small, random_state=0, **doubles)
    return _stages(model, preset, tasks, classes, math.prod(shape))


def next_stages(model: ContinualClassifier, sizes: Sequence[int]) -> list[Stage]:
    """What new tasks of so many rows each, and then a sleep, will train in a memory that has learnt.

    Each brings a class of its own, so that it cannot be recognised as an old one.
    """
    about, state = described(model)
    about["learnt"] |= {"shape": [1], "closed": False, "n_fixed": 0}
    state["scaling"] = {"low": torch.tensor(0.0), "high": torch.tensor(1.0)}
    if "room" in state:
        about["options"] |= {"exemplars": state["room"]}
    if model.learnt_.options.prior_components:
        about["options"] |= {"prior_components": 1}
    doubles = _doubles(about["algorithm"], model.learnt_.options)
    counting = restored(
        {**about, "features": 1, "feature_names": []}, _narrow(state), device="cpu", **doubles
    )
    last = max(about["learnt"]["labels"])
    tasks = [
        (f"next task {n}", np.full(size, f"{last}+{n}" if isinstance(last, str) else last + n))
        for n, size in enumerate(sizes, start=1)
    ]
    return _stages(counting, model.learnt_.options, tasks, None, math.prod(model.learnt_.shape))


def steps(epoch: EpochDone, batch_size: int) -> int:
    """Optimiser steps of an epoch."""
    return math.ceil(epoch.samples / batch_size)


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


def _doubles(name: str, preset: Preset) -> dict[str, Any]:
    """The networks that count, in the place of an algorithm's own."""

    def schedule(epochs: int, least: int = 0) -> Schedule:
        return Schedule(epochs=epochs, batch_size=preset.batch_size, min_steps=max(least, preset.min_steps))

    def generator(_shape: tuple[int, ...], role: Role, _rng: torch.Generator) -> CountingGenerator:
        return CountingGenerator(schedule(preset.generator_epochs, preset.sttm_steps if role == "stm" else 0))

    learner_epochs = preset.joint_epochs if name == "joint" else preset.learner_epochs
    doubles: dict[str, Any] = {"learner": partial(CountingLearner, schedule(learner_epochs))}
    if "generator" in algorithm(name)._get_param_names():
        doubles["generator"] = generator
    return doubles


def _stages(
    model: ContinualClassifier,
    preset: Preset,
    tasks: Sequence[tuple[str, Any]],
    classes: list[Any] | None,
    width: int,
) -> list[Stage]:
    """Let a model of counting networks learn and sleep."""
    stages: list[Stage] = []
    most = preset.n_max // preset.n_stm if preset.index == "codes" else 0
    awake, slept = _at_first(model)

    def hear(event: Event) -> None:
        nonlocal slept
        if isinstance(event, EpochDone):
            stages[-1].epochs.append(event)
        elif isinstance(event, SleepBegan):
            awake.clear()
            slept = True
            rows = stages[-1].rows if stages else 0
            stages.append(Stage("sleep", event.tasks, [], 0, slept=True, rows=rows))

    model.listen = hear
    for task, y in tasks:
        awake[task] = min(most, awake.get(task, 0) + len(y))
        stages.append(Stage("learn", (task,), [], len(awake), sum(awake.values()), slept))
        model.partial_fit(np.zeros((len(y), 1)), y, classes=classes, task=task)
        stages[-1].rows = _row_bytes(model, width)
    if isinstance(model, GenerativeClassifier):
        model.sleep()
    return stages


def _at_first(model: ContinualClassifier) -> tuple[dict[str, int], bool]:
    """Codes of each task that is awake, and whether the long-term memory has learnt; or learns at once."""
    if not isinstance(model, DualClassifier):
        return {}, True
    if not model.__sklearn_is_fitted__():
        return {}, False
    memory = model._dual(model.learnt_)
    return {held.task: len(held.index or ()) for held in memory.stm.awake}, bool(memory.ltm.tasks)


def _row_bytes(model: ContinualClassifier, width: int) -> int:
    """Bytes of the rows kept, were they as wide as real ones."""
    kept = tensors_in(model.learnt_.memory.state().get("rows"))
    return sum(x.numel() * x.element_size() * (width if x.ndim == 2 else 1) for _, x in kept)


def _narrow(state: Any, key: str = "") -> Any:
    """A state without what belongs to weights, and with rows, codes and latents of one value."""
    if isinstance(state, dict):
        return {name: _narrow(child, name) for name, child in state.items()}
    if isinstance(state, list):
        return [_narrow(child) for child in state if not isinstance(child, torch.Tensor)]
    if key == "roots":
        return state[:, :1, :1]
    return state[:, :1] if key in ("x", "codes", "means") else state
