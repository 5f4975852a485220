"""Numbers too small to be normal, below 10⁻³⁸: a processor may take a hundred times as long for one of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

# numpy looks for the smallest number once, and warns where it finds that denormals are zero
np.finfo(np.float32), np.finfo(np.float64)


@contextmanager
def flushed() -> Iterator[None]:
    """Take them for zero meanwhile, where the processor can, in this thread and in those that it starts.

    Squares of small gradients end there, and running averages of them stay there: .9 times the smallest number is
    that number again. No weight notices: RMSProp adds ε to their root (docs/decisions/speed.md).
    """
    before = are_flushed()
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(before)


def are_flushed() -> bool:
    """Whether they are zero now; torch does not tell."""
    return float(torch.tensor(1e-40) * 1.0) == 0.0
