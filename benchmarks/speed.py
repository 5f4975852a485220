"""How close training comes to the machine's limit: `make bench`, or `python benchmarks/speed.py --threads 1 2`.

The project's loop trains the dense VAE of the paper's Digits preset (784-400-200-z32, batch 128, RMSProp with
clipping). Its rate in flops is compared with a large float32 matrix product and with a plain loop, as a tutorial would
write it, with torch's RMSprop and clipping. All three are measured in turns in one process with the same number of
threads, and the best of many short tries counts, because shared machines have slow moments; medians are printed too.
Each thread count gets its own process, with large pages as the processes of `dgdmn run` have. The tiny learner
(784-24-24-10), which is mostly overhead, is timed in microseconds a step.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from statistics import median

import torch

from dgdmn.config import resolve
from dgdmn.core.batch import Batch
from dgdmn.core.events import ignore
from dgdmn.networks.classifier import Classifier
from dgdmn.networks.factory import NetworkFactory
from dgdmn.networks.runtime import use_threads
from dgdmn.networks.vae import VAE
from dgdmn.runs.environment import with_large_pages

ROWS, BATCH, TRIES = 6_400, 128, 64
STEPS = 15
"""Steps of one try."""
SIZE = 2048
"""Rows and columns of the large product."""
LAYERS = ((784, 400), (400, 200), (200, 64), (32, 200), (200, 400), (400, 784))


def flops_per_step() -> int:
    """Forward pass, weight gradients and input gradients of every layer; the first needs no input gradient."""
    products = [n_in * n_out for n_in, n_out in LAYERS]
    return 6 * BATCH * sum(products) - 2 * BATCH * products[0]


def plain_loop(network: VAE, x: torch.Tensor, rng: torch.Generator) -> None:
    """One epoch as in a tutorial: `backward`, torch's clipping and RMSprop with their defaults."""
    optimizer = torch.optim.RMSprop(network.parameters(), lr=0.001, alpha=0.9)
    for rows in torch.randperm(len(x), generator=rng).split(BATCH):
        optimizer.zero_grad()
        network.loss(x[rows], rng).backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        torch.nn.utils.clip_grad_value_(network.parameters(), 0.5)
        optimizer.step()


def seconds(work: Callable[[], object]) -> float:
    """How long a function takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def measure(threads: int) -> str:
    """Rates and their ratios, as a line."""
    rng = torch.Generator().manual_seed(0)
    x = torch.rand(ROWS, 784, generator=rng) * (torch.rand(ROWS, 784, generator=rng) < 0.2)
    batch = Batch(x, torch.randint(10, (ROWS,), generator=rng))
    config = replace(resolve("paper", "digits"), generator_epochs=1, learner_epochs=1)
    factory = NetworkFactory(config, (28, 28))
    vae, plain = factory.generator("ltm", rng), factory.generator("ltm", rng)
    learner = factory.learner("ltm", 10, rng)
    assert isinstance(vae, VAE)
    assert isinstance(plain, VAE)
    assert isinstance(learner, Classifier)
    a, b = torch.randn(SIZE, SIZE), torch.randn(SIZE, SIZE)
    vae.fit(x, rng, ignore)  # warm up
    work = STEPS * flops_per_step()
    limits, rates, plain_rates = [], [], []
    for number in range(TRIES):  # in turns, so that a slow moment affects all three
        limits.append(2 * SIZE**3 / seconds(lambda: a @ b))
        first = number * STEPS * BATCH % (ROWS - STEPS * BATCH)  # other rows than the last try
        part = x[first : first + STEPS * BATCH]
        rates.append(work / seconds(lambda part=part: vae.fit(part, rng, ignore)))
        plain_rates.append(work / seconds(lambda part=part: plain_loop(plain, part, rng)))
    tiny = min(seconds(lambda: learner.fit(batch, rng, ignore)) for _ in range(16))
    best, limit = max(rates), max(limits)
    return (
        f"{threads} {'thread' if threads == 1 else 'threads'}: "
        f"VAE step {1e3 * flops_per_step() / best:.2f} ms, "
        f"{best / 1e9:.1f} of {limit / 1e9:.1f} Gflop/s = {best / limit:.0%} "
        f"(medians {median(rates) / median(limits):.0%}), "
        f"{best / max(plain_rates):.2f} times a plain loop; "
        f"learner step {1e6 * tiny / (ROWS // BATCH):.0f} µs"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--here", action="store_true", help="measure in this process")
    arguments = parser.parse_args()
    for count in arguments.threads:
        if arguments.here:
            with use_threads(count):  # denormals are flushed too, as when a memory learns
                print(measure(count))
        else:
            command = [sys.executable, __file__, "--here", "--threads", str(count)]
            subprocess.run(command, check=True, env=with_large_pages(os.environ))
