"""Latent codes of a task's samples, kept from learning to sleep."""

from dataclasses import dataclass, field, replace
from typing import Self

import torch
from torch import Tensor

from dgdmn.core.batch import Batch
from dgdmn.core.rng import SeedStream
from dgdmn.memory.latent_prior import check_arrays
from dgdmn.networks.protocols import LatentGenerator
from dgdmn.storage import State, check_class_indices


@dataclass(frozen=True, eq=False)
class CodeBuffer:
    """Codes and labels of samples, 2 bytes a number. Immutable: `store` returns a new buffer.

    Decoded by the generator that encoded them, they give the samples with its blur. They are much closer to
    the data than weights are, so they are deleted with the task memory.
    """

    capacity: int
    """Maximum number of codes; if there are more samples, a random subset is kept."""
    latent_dim: int
    codes: Tensor = field(default_factory=lambda: torch.zeros(0, 0, dtype=torch.float16))
    """Shape (n, latent_dim), float16."""
    labels: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.int64))

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def bytes_per_sample(self) -> int:
        return self.latent_dim * self.codes.itemsize + self.labels.itemsize

    def decode(self, generator: LatentGenerator) -> Batch:
        return Batch(generator.decode_mean(self.codes.float()), self.labels)

    def store(self, generator: LatentGenerator, batch: Batch, rng: SeedStream) -> Self:
        """A buffer with the codes of these samples instead."""
        if len(batch) > self.capacity:
            batch = batch.subsample(self.capacity, rng.next())
        return replace(self, codes=generator.encode(batch.x)[0].half(), labels=batch.y)

    def state(self) -> State:
        codes = self.codes if len(self) else self.codes.reshape(0, self.latent_dim)
        return {"codes": codes, "labels": self.labels}

    def with_state(self, state: State, n_classes: int) -> Self:
        n = len(check_class_indices(state["labels"], n_classes))
        if n > self.capacity:
            raise ValueError(f"{n} codes; at most {self.capacity} are kept")
        shapes = {"codes": (n, self.latent_dim), "labels": (n,)}
        return replace(self, **check_arrays(self, state, shapes))
