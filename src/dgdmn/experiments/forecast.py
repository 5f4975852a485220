"""How long runs will take: as long as they took before, else planned, and timed in a few steps where need be."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from statistics import mean

import numpy as np

from dgdmn import streams
from dgdmn.experiments.plan import Stage, cost, planned_stages
from dgdmn.experiments.spec import RunSpec
from dgdmn.experiments.timing import costs
from dgdmn.presets import preset, stream_options
from dgdmn.streams import TaskStream

ROWS = {
    "digits": 6_000,
    "split-digits": 12_000,
    "tdigits": 6_000,
    "permnist": 30_000,
    "shapes": 4_500,
    "hindi": 1_700,
    "embedded": 144,
}
"""Training rows of a task, about: a forecast needs no data."""
OTHERWISE = 6_000
"""The same for a dataset that is not listed."""


def seconds(specs: Sequence[RunSpec], before: Mapping[RunSpec, float]) -> dict[str, float]:
    """Seconds that each run will take on one thread, by name.

    `before` says how long runs took that were done. One with another seed takes as long; one that is alike, on
    the same dataset, with the same preset and of the same sort of algorithm, as long for each multiplication; any
    other is timed.
    """
    known, wanted = {}, list(dict.fromkeys(map(_seedless, specs)))
    for spec in wanted:
        same = [taken for done, taken in before.items() if _seedless(done) == spec]
        alike = [(done, taken) for done, taken in before.items() if _sort(done) == _sort(spec)]
        if same:
            known[spec] = mean(same)
        elif alike:
            known[spec] = work(spec) * sum(taken for _, taken in alike) / sum(work(done) for done, _ in alike)
    unknown = [spec for spec in wanted if spec not in known]
    for same_sizes in dict.fromkeys((spec.dataset, spec.preset) for spec in unknown):
        known |= _timed(*same_sizes, [spec for spec in unknown if (spec.dataset, spec.preset) == same_sizes])
    return {spec.name: known[_seedless(spec)] for spec in specs}


def work(spec: RunSpec) -> float:
    """About how many multiplications a run takes."""
    shape = _stream(spec).shape
    return sum(
        cost(epoch, spec.options, shape) for stage in _stages(_seedless(spec)) for epoch in stage.epochs
    )


def longest_first(specs: Iterable[RunSpec]) -> list[RunSpec]:
    """The runs in an order that keeps several workers busy to the end."""
    return sorted(specs, key=work, reverse=True)


def _timed(dataset: str, name: str, specs: Sequence[RunSpec]) -> dict[RunSpec, float]:
    """All stages of a preset in one list, so that a network that several runs share is timed once."""
    options, stream = preset(name, dataset), streams.load(dataset)
    outputs = max(options.n_classes, len(stream.classes))
    stages = [stage for spec in specs for stage in _stages(spec)]
    lasting = iter(one.seconds for one in costs("dgdmn", options, stream.shape, outputs, stages, 1))
    return {spec: sum(next(lasting) for _ in _stages(spec)) for spec in specs}


@cache
def _stages(spec: RunSpec) -> list[Stage]:
    stream = _stream(spec)
    rows = spec.options.samples_per_task or ROWS.get(spec.dataset, OTHERWISE)
    tasks = [
        (name, np.resize(np.array(labels), rows))
        for name, labels in zip(stream.task_names, stream.labels, strict=True)
    ]
    tasks += [tasks[number - 1] for number in spec.revise if number <= len(tasks)]  # the run refuses others
    if spec.together:
        tasks = [(tasks[-1][0], np.concatenate([y for _, y in tasks]))]
    return planned_stages(spec.algorithm, spec.trained_with(), tasks, stream.shape)


def _stream(spec: RunSpec) -> TaskStream:
    return streams.load(spec.dataset, **stream_options(spec.dataset, spec.options))


def _seedless(spec: RunSpec) -> RunSpec:
    return replace(spec, seed=0)


def _sort(spec: RunSpec) -> tuple[str, str, str]:
    """Runs that take about the same time for a multiplication: generators have large layers, learners small ones."""
    return spec.dataset, spec.preset, "generative" if spec.algorithm.startswith("dg") else spec.algorithm
