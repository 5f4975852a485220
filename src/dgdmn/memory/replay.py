"""Algorithm 1: deep generative replay. Read it beside the paper; line numbers on the right."""

import math
from collections import Counter
from collections.abc import Mapping
from typing import Protocol

from dgdmn.config import Config
from dgdmn.core.batch import Batch, concat
from dgdmn.core.events import Context, Replayed
from dgdmn.core.rng import SeedStream
from dgdmn.memory.task_log import TaskInfo, TaskLog


class Replayable(Protocol):
    """What Algorithm 1 needs of a memory: its age and tasks, its dreams, and two networks to train."""

    age: int
    tasks: TaskLog

    def dream(self, n: int, rng: SeedStream) -> Batch: ...
    def train_generator(self, batch: Batch, new: Batch, ctx: Context) -> None: ...
    def train_learner(self, new: Batch, dreams: Batch, ctx: Context, *, resample: bool) -> None: ...


def allocate(n_new: int, age: int, n_max: int, kappa: float) -> tuple[int, int]:
    """How many new samples and how many dreams to train on: (N_tasks, N_gen).

    >>> allocate(12_000, 24_000, 60_000, 0.0)
    (12000, 24000)
    >>> allocate(6_000, 114_000, 60_000, 0.1)  # the share is a twentieth, κ raises it to a tenth
    (6000, 54000)
    """
    n_tasks, n_gen = n_new, age  # lines 3-4
    if n_new + age > n_max:  # 5
        share = n_new / (n_new + age)  # 6: η is the larger of κ and this
        n_tasks = max(math.ceil(kappa * n_max - 1e-9), round(share * n_max))  # 7
        n_gen = n_max - n_tasks  # 8
    n_total = n_tasks + n_gen  # 10
    if n_tasks >= n_new:  # 13
        n_tasks, n_gen = n_new, n_total - n_new  # 14
    return n_tasks, n_gen


def replay(
    dgm: Replayable,
    new: Batch,
    d_tasks: Mapping[str, TaskInfo],
    config: Config,
    ctx: Context,
    past: Batch | None = None,
) -> None:
    """Train a memory on new samples of `d_tasks` and on dreams of its past, or on `past` instead of dreams."""
    kappa = min(1.0, config.kappa * (len(d_tasks) if config.kappa_per == "task" else 1))
    n_tasks, n_gen = allocate(len(new), dgm.age, config.n_max, kappa)  # lines 3-16
    x_tasks = new if n_tasks >= len(new) else new.subsample(n_tasks, ctx.rng.next())  # 12
    x_gen = (  # 17-18: X_gen from G, Y_gen = L(X_gen)
        dgm.dream(n_gen, ctx.rng) if past is None else past.subsample(n_gen, ctx.rng.next())
    )
    x_tr = concat(x_tasks, x_gen)  # 19

    dgm.tasks = dgm.tasks.add(d_tasks)  # 20
    dgm.age += len(new) if config.age == "seen" else n_tasks + n_gen  # 21

    dgm.train_generator(x_tr, x_tasks, ctx)  # 22
    resample = config.resample_dreams and past is None
    dgm.train_learner(x_tasks, x_gen, ctx, resample=resample)  # 23-25

    dreamed = Counter(x_gen.y.tolist())
    counts = tuple(dreamed[label] for label in range(max(dreamed, default=-1) + 1))
    ctx.callback(Replayed(tuple(d_tasks), n_tasks, len(x_gen), dgm.age, counts))
