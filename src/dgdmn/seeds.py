"""Random numbers are passed in: one seed at the door, a child for each use."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch


@dataclass
class Seeds:
    """A source of independent torch generators.

    Every use takes a child of its own: how many numbers one step draws does not change those of the next.

    >>> a, b = Seeds(0), Seeds(0)
    >>> torch.equal(torch.rand(3, generator=a.next()), torch.rand(3, generator=b.next()))
    True
    """

    entropy: int
    used: int = 0
    """How many were taken: all there is to save of it."""

    def aside(self) -> Seeds:
        """A source of its own, always the same, for what must leave no trace here."""
        return Seeds(self.entropy, used=1 << 31)

    def next(self) -> torch.Generator:
        """A fresh generator, different from all before."""
        child = np.random.SeedSequence(self.entropy, spawn_key=(self.used,))
        self.used += 1
        return torch.Generator().manual_seed(int(child.generate_state(1, np.uint64)[0] >> 1))
