"""The most memory that a run has at once."""

from __future__ import annotations

import contextlib
import re
import resource
import sys
from pathlib import Path

_OURS = Path("/proc/self")


def forget_peak() -> None:
    """Count from here on, where Linux lets us: a process may have made other runs before."""
    with contextlib.suppress(OSError):
        (_OURS / "clear_refs").write_text("5")


def peak_mb() -> float:
    """Peak resident memory, MiB.

    Linux also says it in `ru_maxrss`, but that a child inherits from the process that started it.
    """
    with contextlib.suppress(OSError):
        if found := re.search(r"VmHWM:\s*(\d+) kB", (_OURS / "status").read_text()):
            return int(found[1]) / 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1 << 20 if sys.platform == "darwin" else 1 << 10)
