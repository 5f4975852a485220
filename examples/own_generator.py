"""Your own generator: a dual memory that generates samples with PCA instead of a VAE.

python examples/own_generator.py
"""

import numpy as np
import torch

from dgdmn import DGDMN
from dgdmn.core.events import EpochDone
from dgdmn.streams import load


class PCAGenerator(torch.nn.Module):
    """Model inputs as a mean plus k principal directions with Gaussian coordinates."""

    def __init__(self, shape, role, rng):  # noqa: ARG002 (nothing here is random)
        super().__init__()
        d = int(np.prod(shape))
        self.k = min(12 if role == "stm" else 60, d)
        self.register_buffer("mean", torch.full((d,), 0.5))
        self.register_buffer("directions", torch.zeros(self.k, d))
        self.register_buffer("spread", torch.zeros(self.k))

    def fit(self, x, rng, callback):  # noqa: ARG002
        """Fit to x, which contains the memory's own dreams of old tasks."""
        self.mean = x.mean(dim=0)
        _, values, directions = torch.linalg.svd(x - self.mean, full_matrices=False)
        k = min(self.k, len(values))
        self.directions = torch.cat([directions[:k], torch.zeros(self.k - k, x.shape[1])])
        self.spread = torch.cat([values[:k] / len(x) ** 0.5, torch.zeros(self.k - k)])
        callback(EpochDone("generator", 1, 1, len(x), float(self.reconstruction_loss(x).mean())))

    def sample(self, n, rng):
        z = torch.randn(n, self.k, generator=rng) * self.spread
        return (self.mean + z @ self.directions).clamp(0, 1)

    def reconstruct(self, x):
        return (self.mean + (x - self.mean) @ self.directions.T @ self.directions).clamp(0, 1)

    def reconstruction_loss(self, x):
        return (x - self.reconstruct(x)).square().sum(dim=1)


def main():
    stream = load("embedded")
    memory = DGDMN(generator=PCAGenerator, n_stm=5, min_steps=100, random_state=0)
    for task in stream:
        memory.partial_fit(task.train.x, task.train.y, classes=stream.classes, task=task.name)
    correct = [memory.predict_long_term(task.test.x) == task.test.y for task in stream]
    print(f"accuracy after {len(stream)} tasks with PCA: {np.concatenate(correct).mean():.3f}")


if __name__ == "__main__":
    main()
