"""How much more work jobs side by side do than one alone: `python benchmarks/jobs.py [--jobs 2]`.

Each job is a process of its own with one torch thread and large pages, as `dgdmn run --jobs` starts them, and trains
the dense VAE of the paper's Digits preset. One alone and all at once take turns; the best of each counts.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from dataclasses import replace

import torch

from dgdmn.events import ignore
from dgdmn.experiments.large_pages import with_large_pages
from dgdmn.networks.blueprint import Blueprint
from dgdmn.presets import preset

ROWS, SECONDS, ROUNDS = 12_800, 6.0, 5


def epochs_a_second(begin: float) -> float:
    """Train from a moment on that all jobs know, for a while."""
    torch.set_num_threads(1)
    rng = torch.Generator().manual_seed(0)
    x = torch.rand(ROWS, 784, generator=rng)
    vae = Blueprint(replace(preset("paper", "digits"), generator_epochs=1), (28, 28)).generator("ltm", rng)
    vae.fit(x[:1280], rng, ignore)
    time.sleep(max(0.0, begin - time.time()))
    began, epochs = time.perf_counter(), 0
    while time.perf_counter() - began < SECONDS:
        vae.fit(x, rng, ignore)
        epochs += 1
    return epochs / (time.perf_counter() - began)


def together(jobs: int) -> float:
    """Epochs a second of so many jobs at once."""
    command = [sys.executable, __file__, "--begin", str(time.time() + 6)]
    environment = with_large_pages(os.environ)
    started = [
        subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(jobs)
    ]
    return sum(float(job.communicate()[0]) for job in started)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--begin", type=float, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.begin:
        print(epochs_a_second(arguments.begin))
    else:
        rounds = [(together(1), together(arguments.jobs)) for _ in range(ROUNDS)]
        alone, all_of_them = map(max, zip(*rounds, strict=True))
        print(
            f"{arguments.jobs} jobs of one thread do {all_of_them / alone:.2f} times the work of one "
            f"({alone:.2f} and {all_of_them:.2f} epochs of {ROWS:,} rows a second, best of {ROUNDS})"
        )
