"""The cost of `deep` relative to `paper`: `python benchmarks/presets.py digits hindi`.

The plan counts every optimizer step of a DGDMN on a stream. A step of each network is timed here, both presets in
turns on the same number of threads; the best of a few rounds counts. So the ratio comes from one run on one machine,
unlike the times of long runs on shared cores. Fitting priors, predicting and loading are not included.
"""

from __future__ import annotations

import argparse
import math
import time
from dataclasses import replace

import numpy as np

from dgdmn.config import PAPER, Config, default_threads, resolve
from dgdmn.core.batch import Batch
from dgdmn.core.events import Context, EpochDone, Event
from dgdmn.core.rng import SeedStream
from dgdmn.memory.generative import DeepGenerativeMemory
from dgdmn.memory.task_log import TaskInfo
from dgdmn.networks.factory import NetworkFactory
from dgdmn.networks.protocols import Role
from dgdmn.networks.runtime import use_threads
from dgdmn.runs.plan import Stage, plan_stream
from dgdmn.streams import load

PRESETS, ROWS, ROUNDS = ("paper", "deep"), 1_280, 4
Times = dict[tuple[str, str], float]
"""Seconds of one step, by memory and network."""


def time_steps(config: Config, shape: tuple[int, ...], role: Role) -> Times:
    """Train both networks of a memory on new rows and as many dreams; time the second epoch."""
    short = {"generator_epochs": 2, "learner_epochs": 2, "min_steps": 0, "sttm_min_steps": 0}
    config = replace(config, **short, n_max=10 * ROWS, code_buffer=False)
    memory = DeepGenerativeMemory(NetworkFactory(config, shape), role, 10, SeedStream(0))
    rng, times, began = np.random.default_rng(0), {}, 0.0

    def note(event: Event) -> None:
        nonlocal began
        if isinstance(event, EpochDone):
            steps = math.ceil(event.samples / config.batch_size)
            times[event.memory, event.network] = (time.perf_counter() - began) / steps
            began = time.perf_counter()

    for task in ("a", "b"):
        x = rng.random((ROWS, math.prod(shape)), dtype=np.float32)
        batch = Batch(x, np.arange(ROWS) % 10)
        memory.learn(batch, {task: TaskInfo(1, batch.classes())}, Context(SeedStream(1), note))
    return times


def total(stages: list[Stage], config: Config, times: Times) -> float:
    """Seconds of all trainings of a plan."""
    return sum(
        math.ceil(epoch.samples / config.batch_size) * times[epoch.memory, epoch.network]
        for stage in stages
        for epoch in stage.epochs
    )


def compare(name: str, threads: int) -> str:
    """The estimated times of both presets on a stream and their ratio, as a line."""
    stream = load(name)
    tasks = [(task.name, task.train.y) for task in stream]
    configs = [resolve(preset, name) for preset in PRESETS]
    best: list[Times] = [{}, {}]
    with use_threads(threads):
        for _ in range(ROUNDS):
            for fastest, config in zip(best, configs, strict=True):
                for role in ("stm", "ltm"):
                    for key, seconds in time_steps(config, stream.shape, role).items():
                        fastest[key] = min(seconds, fastest.get(key, math.inf))
    paper, deep = (
        total(plan_stream("dgdmn", config, tasks, stream.shape), config, times)
        for config, times in zip(configs, best, strict=True)
    )
    noun = "thread" if threads == 1 else "threads"
    return (
        f"{name}: training takes about {paper:.0f} s with paper and {deep:.0f} s with deep, "
        f"ratio {deep / paper:.2f} ({threads} {noun}, best of {ROUNDS})"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("stream", nargs="+", choices=list(PAPER))
    parser.add_argument("--threads", type=int, default=default_threads())
    arguments = parser.parse_args()
    for stream_name in arguments.stream:
        print(compare(stream_name, arguments.threads), flush=True)
