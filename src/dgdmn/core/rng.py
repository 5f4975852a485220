"""Random numbers are passed in: one seed at the start, a child generator for each use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import torch


@dataclass
class SeedStream:
    """A numbered source of independent random generators.

    Every use takes its own child, so how many numbers one step draws does not change those of the next.

    >>> a, b = SeedStream(0), SeedStream(0)
    >>> a.next().initial_seed() == b.next().initial_seed() != a.next().initial_seed()
    True
    """

    entropy: int
    used: int = 0
    """Number of children taken; with the entropy, this is the whole state."""

    def side_stream(self) -> SeedStream:
        """A separate stream, always the same one, for draws that must not affect this stream."""
        return SeedStream(self.entropy, used=1 << 31)

    def next(self) -> torch.Generator:
        """The next child, as a torch generator."""
        import torch

        return torch.Generator().manual_seed(self._next_seed())

    def next_numpy(self) -> np.random.Generator:
        """The next child, as a numpy generator."""
        return np.random.default_rng(self._next_seed())

    def _next_seed(self) -> int:
        child = np.random.SeedSequence(self.entropy, spawn_key=(self.used,))
        self.used += 1
        return int(child.generate_state(1, np.uint64)[0] >> 1)
