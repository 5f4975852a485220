"""Torch at run time: threads, denormal numbers, devices, conversion from numpy."""

from collections.abc import Iterator
from contextlib import contextmanager
from numbers import Integral
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dgdmn.config import default_threads
from dgdmn.core.batch import Batch
from dgdmn.core.errors import UsageError
from dgdmn.storage import to_numpy

# numpy looks up the smallest number once and warns if denormals are flushed at that moment
np.finfo(np.float32), np.finfo(np.float64)


@contextmanager
def use_threads(n: int | None) -> Iterator[None]:
    """Set torch threads inside this block, and treat numbers below 1e-38 as zero.

    Squares of small gradients decay to denormals, which can be a hundred times as slow. No weight changes:
    RMSProp adds ε to their root (docs/decisions/speed.md). A processor that cannot flush ignores this.
    """
    is_number = isinstance(n, Integral) and not isinstance(n, bool)
    if n is not None and not (is_number and 1 <= n <= 1024):  # libgomp ends a process with too many
        raise UsageError(f"threads is {n!r}; it must be a whole number in [1, 1024]")
    threads, flushed = torch.get_num_threads(), denormals_are_flushed()
    try:
        torch.set_num_threads(int(n or default_threads()))
        torch.set_flush_denormal(True)
        yield
    finally:
        torch.set_num_threads(threads)
        torch.set_flush_denormal(flushed)


def denormals_are_flushed() -> bool:
    """Whether denormals are flushed to zero; torch has no getter for this."""
    return float(torch.tensor(1e-40) * 1.0) == 0.0


def check_device(device: str) -> None:
    """Refuse a device that torch does not have here."""
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise UsageError(f"device {device!r} cannot be used here ({reason}); use 'cpu'") from error


def as_tensor(array: NDArray[Any], device: str) -> Tensor:
    """A numpy array as a tensor on its device; on the CPU they share memory."""
    return torch.from_numpy(np.ascontiguousarray(array)).to(device)


def as_tensors(batch: Batch, device: str) -> Batch:
    return Batch(as_tensor(batch.x, device), as_tensor(batch.y, device))


def copy_tensor(array: Any, device: str) -> Tensor:
    """A copy in torch's own, aligned memory: sums over unaligned rows differ in the last bit."""
    return torch.tensor(to_numpy(array)).to(device)
