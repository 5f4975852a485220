"""What a plan will cost here: steps counted, bytes measured without content, a few real steps timed."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch

from dgdmn.algorithms import algorithm
from dgdmn.algorithms.base import using_threads
from dgdmn.events import EpochDone, ignore
from dgdmn.experiments.plan import Stage, steps
from dgdmn.memory.dual import DualMemory
from dgdmn.memory.generative import GenerativeMemory
from dgdmn.memory.index import Index
from dgdmn.networks.blueprint import Blueprint
from dgdmn.networks.generator import Role
from dgdmn.networks.layers import hollow
from dgdmn.presets import Preset
from dgdmn.samples import Samples
from dgdmn.seeds import Seeds
from dgdmn.storage import bytes_in

PATIENCE = 0.3
"""Seconds to time one network."""
BATCHES = 8
"""Batches that are timed together."""


@dataclass(frozen=True)
class Cost:
    """What a stage of a plan will take."""

    stage: Stage
    samples: int
    """The most samples that one of its trainings goes over."""
    steps: int
    """Optimiser steps of all its trainings."""
    bytes: int
    """Kept when it ends; a latent prior counts with all the components it may have."""
    seconds: float
    """About as long as its trainings last; what an algorithm does beside them is not in it."""


def costs(
    name: str,
    preset: Preset,
    shape: tuple[int, ...],
    n_classes: int,
    stages: Sequence[Stage],
    threads: int | None = None,
) -> list[Cost]:
    """The cost of each stage, on this machine as it is now."""
    sizes = _sizes(name, preset, shape, n_classes)
    clock = _Clock(preset, shape, n_classes, threads)
    return [
        Cost(
            stage,
            max((epoch.samples for epoch in stage.epochs), default=0),
            sum(steps(epoch, preset.batch_size) for epoch in stage.epochs),
            sizes.kept(stage),
            sum(steps(epoch, preset.batch_size) * clock.step(epoch) for epoch in stage.epochs),
        )
        for stage in stages
    ]


class _Clock:
    """Knows how long a step of each network takes; times each once."""

    def __init__(self, preset: Preset, shape: tuple[int, ...], n_classes: int, threads: int | None) -> None:
        once = replace(preset, generator_epochs=1, learner_epochs=1, min_steps=0, sttm_steps=0)
        self._blueprint, self._batch_size = Blueprint(once, shape), preset.batch_size
        self._n_classes, self._threads = n_classes, threads
        self._seconds: dict[tuple[str, str], float] = {}

    def step(self, epoch: EpochDone) -> float:
        """Seconds of a step of the network that this epoch trains."""
        key = epoch.memory, epoch.network
        if key not in self._seconds:
            with using_threads(self._threads):
                self._seconds[key] = self._timed(*key, min(epoch.samples, BATCHES * self._batch_size))
        return self._seconds[key]

    def _timed(self, memory: str, network: str, n: int) -> float:
        fit = self._training("stm" if memory == "stm" else "ltm", network, n)
        fit()  # the first one also warms up
        began, times = time.perf_counter(), 0
        while times < 2 or time.perf_counter() - began < PATIENCE:
            fit()
            times += 1
        return (time.perf_counter() - began) / times / -(-n // self._batch_size)

    def _training(self, role: Role, network: str, n: int) -> Callable[[], None]:
        """An epoch of a fresh network over n rows of noise."""
        seeds = Seeds(0)
        x = torch.rand(n, torch.Size(self._blueprint.shape).numel(), generator=seeds.next())
        if network == "generator":
            generator = self._blueprint.generator(role, seeds.next())
            return lambda: generator.fit(x, seeds.next(), ignore)
        memory = GenerativeMemory(self._blueprint, role, self._n_classes, seeds)
        samples = Samples(x, torch.arange(n) % self._n_classes)
        if memory.learns_from_latents:
            none = Samples(x[:0], samples.y[:0])
            return lambda: memory.train_learner_on_latents(samples, none, False, seeds, ignore)
        return lambda: memory.learner.fit(samples, seeds.next(), ignore)


@dataclass(frozen=True)
class _Sizes:
    """Bytes of the parts of a memory."""

    weights: int
    """Of what is there from the start."""
    prior: int
    """Of the long-term memory's prior, once it has learnt."""
    small: int
    """Of a task memory, its own prior with it."""
    code: int
    """Of a sample's code and label."""

    def kept(self, stage: Stage) -> int:
        """When a stage ends."""
        awake = stage.awake * self.small + stage.codes * self.code
        return self.weights + stage.slept * self.prior + awake + stage.rows


def _sizes(name: str, preset: Preset, shape: tuple[int, ...], n_classes: int) -> _Sizes:
    model = algorithm(name)(preset)
    with hollow():
        memory = model._begin(model._blueprint(shape), n_classes, Seeds(0))
        dual = memory if isinstance(memory, DualMemory) else None
        long_term: object = dual.ltm if dual else memory
        return _Sizes(
            weights=bytes_in(memory.state()),
            prior=long_term.room() - bytes_in(long_term.state())
            if isinstance(long_term, GenerativeMemory)
            else 0,
            small=(dual.room() - dual.ltm.room()) // preset.n_stm if dual else 0,
            code=Index(1, preset.sttm_latent).each,
        )
