"""Algorithm 1: deep generative replay. Read it beside the paper; line numbers on the right."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor

from dgdmn.events import Listener, Replayed
from dgdmn.memory.dictionary import Entry
from dgdmn.samples import Samples, concat
from dgdmn.seeds import Seeds

if TYPE_CHECKING:
    from dgdmn.memory.generative import GenerativeMemory


def allocate(n_new: int, age: int, n_max: int, kappa: float) -> tuple[int, int]:
    """How many new samples and how many dreams to train on: (N_tasks, N_gen).

    >>> allocate(12_000, 24_000, 60_000, 0.0)
    (12000, 24000)
    >>> allocate(6_000, 114_000, 60_000, 0.1)  # a twentieth is due, κ grants a tenth
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
    dgm: GenerativeMemory,
    new: Samples,
    d_tasks: Mapping[str, Entry],
    past: Samples | None = None,
    *,
    seeds: Seeds,
    listen: Listener,
) -> None:
    """Train a generative memory on new samples and dreams of its own past.

    `d_tasks` names the tasks of the new samples; `past`, where it is given, takes the place of dreams.
    """
    options = dgm.options
    kappa = min(1.0, options.kappa * (len(d_tasks) if options.kappa_per == "task" else 1))
    age = dgm.age if options.allocation == "age" else dgm.balanced_age(new.y)
    n_tasks, n_gen = allocate(len(new), age, options.n_max, kappa)  # lines 3-16
    n_seen = len(new)
    if n_tasks < n_seen:
        new = new.subsample(n_tasks, seeds.next())  # 12

    dreams = (
        dgm.dream(n_gen, seeds)  # 17-18: X_gen from G, Y_gen = L(X_gen)
        if past is None
        else past.subsample(n_gen, seeds.next())
    )
    x_tr = concat(new, dreams)  # 19

    dgm.tasks.add(d_tasks)  # 20
    dgm.age += n_seen if options.age == "seen" else n_tasks + n_gen  # 21

    dgm.train_generator(x_tr, new.x, seeds, listen)  # 22
    if dgm.learns_from_latents:
        anew = options.dreams == "anew" and past is None
        dgm.train_learner_on_latents(new, dreams, anew, seeds, listen)
    else:
        y_tr = x_tr.y
        if options.soft_labels:
            old = torch.arange(len(x_tr), device=y_tr.device) >= len(new)
            y_tr = softened(y_tr, old, dgm.answers(x_tr.x), options.soft_labels)
        dgm.make_room(seeds)
        if options.reconstructed in ("new", "all"):
            new = Samples(dgm.generator.reconstruct(new.x), new.y)  # 23
        if options.reconstructed == "all":
            dreams = Samples(dgm.generator.reconstruct(dreams.x), dreams.y)
        dgm.learner.fit(Samples(concat(new, dreams).x, y_tr), seeds.next(), listen)  # 24-25

    listen(Replayed(tuple(d_tasks), n_tasks, len(dreams), dgm.age, _balance(dreams)))


def softened(y: Tensor, old: Tensor, believed: Tensor, share: float) -> Tensor:
    """Labels as probabilities, those of what is old partly what was believed of it.

    So that a dream between two classes is not taught as surely one of them. It costs a pass over the samples, with
    latent noise at each visit.
    """
    known = F.one_hot(y, believed.shape[1]).float()
    return torch.where(old[:, None], known.lerp(believed, share), known)


def _balance(samples: Samples) -> tuple[int, ...]:
    counts = Counter(samples.y.tolist())
    return tuple(counts[index] for index in range(max(counts, default=-1) + 1))
