"""How close training comes to the machine's limit: `make bench`, or `python benchmarks/speed.py --threads 1 2`.

The dense VAE of the paper's Digits preset (784-400-200-z32, batch 128, RMSProp with clipping) is trained
by the project's own loop; its flops are compared with the rate of a large float32 matrix product, measured
in the same run with the same threads, in turns. Shared machines have slow moments, and two threads wait for the slower
core, so each has as many tries, of about a tenth of a second each, and the best counts; medians are printed beside it.
Each thread count gets a process of its own, with large pages as the processes of `dgdmn run` have. The tiny learner
(784-24-24-10), which is mostly overhead, is timed in microseconds a step.

Machines differ in how much of that rate a loop can reach: the faster their products, the more the rest weighs. So the
same network is also trained by a plain loop, as a tutorial would write it, with torch's own RMSprop and clipping.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from dataclasses import replace
from statistics import median

import torch

from dgdmn.events import ignore
from dgdmn.experiments.large_pages import with_large_pages
from dgdmn.networks.blueprint import Blueprint
from dgdmn.networks.denormals import flushed
from dgdmn.networks.learner import Classifier
from dgdmn.networks.vae import VAE
from dgdmn.presets import preset
from dgdmn.samples import Samples

ROWS, BATCH, TRIES = 6_400, 128, 64
STEPS = 15
"""Of one try."""
SIZE = 2048
"""Of the large product."""
LAYERS = ((784, 400), (400, 200), (200, 64), (32, 200), (200, 400), (400, 784))


def flops_of_a_step() -> int:
    """Forward, weight gradients and input gradients of every layer; the first needs no input gradient."""
    products = [n_in * n_out for n_in, n_out in LAYERS]
    return 6 * BATCH * sum(products) - 2 * BATCH * products[0]


def plain_loop(network: VAE, x: torch.Tensor, rng: torch.Generator) -> None:
    """Epochs as in a tutorial: `backward`, torch's clipping and its RMSprop, each with its defaults."""
    optimiser = torch.optim.RMSprop(network.parameters(), lr=0.001, alpha=0.9)
    for rows in torch.randperm(len(x), generator=rng).split(BATCH):
        optimiser.zero_grad()
        network.loss(x[rows], rng).backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        torch.nn.utils.clip_grad_value_(network.parameters(), 0.5)
        optimiser.step()


def _seconds(work: object) -> float:
    began = time.perf_counter()
    work()  # type: ignore[operator]
    return time.perf_counter() - began


def measure(threads: int) -> str:
    """Rates and their ratio with this many threads."""
    torch.set_num_threads(threads)
    rng = torch.Generator().manual_seed(0)
    x = torch.rand(ROWS, 784, generator=rng) * (torch.rand(ROWS, 784, generator=rng) < 0.2)
    samples = Samples(x, torch.randint(10, (ROWS,), generator=rng))
    blueprint = Blueprint(replace(preset("paper", "digits"), generator_epochs=1, learner_epochs=1), (28, 28))
    vae, learner = blueprint.generator("ltm", rng), blueprint.learner("ltm", 10, rng)
    assert isinstance(vae, VAE)
    assert isinstance(learner, Classifier)
    a, b = torch.randn(SIZE, SIZE), torch.randn(SIZE, SIZE)
    vae.fit(x, rng, ignore)
    plain = blueprint.generator("ltm", rng)
    assert isinstance(plain, VAE)
    work = STEPS * flops_of_a_step()
    limits, rates, plain_rates = [], [], []
    for number in range(TRIES):  # interleaved, so that a slow minute of the machine hits both
        limits.append(2 * SIZE**3 / _seconds(lambda: a @ b))
        first = number * STEPS * BATCH % (ROWS - STEPS * BATCH)  # other rows than the try before
        part = x[first : first + STEPS * BATCH]
        rates.append(work / _seconds(lambda part=part: vae.fit(part, rng, ignore)))
        plain_rates.append(work / _seconds(lambda part=part: plain_loop(plain, part, rng)))
    tiny = min(_seconds(lambda: learner.fit(samples, rng, ignore)) for _ in range(16)) / (ROWS // BATCH)
    share, middle = max(rates) / max(limits), median(rates) / median(limits)
    return (
        f"{threads} thread(s): VAE step {1e3 * flops_of_a_step() / max(rates):.2f} ms, "
        f"{max(rates) / 1e9:.1f} of {max(limits) / 1e9:.1f} Gflop/s = {share:.0%} (medians {middle:.0%}), "
        f"{max(rates) / max(plain_rates):.2f} times a plain loop; "
        f"learner step {1e6 * tiny:.0f} µs"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--here", action="store_true", help="measure in this process, with the pages it has")
    arguments = parser.parse_args()
    for count in arguments.threads:
        if arguments.here:
            with flushed():  # as a memory learns
                print(measure(count))
        else:
            command = [sys.executable, __file__, "--here", "--threads", str(count)]
            subprocess.run(command, check=True, env=with_large_pages(os.environ))
