"""Which machine a run is on: times compare with those of the same one only (no torch in here)."""

from __future__ import annotations

import os
import platform
from pathlib import Path

_NUMBERS = ("cpu family", "model", "stepping")


def machine() -> dict[str, str | int | None]:
    """What a run records of it, and how it computes: before 2026-11-17 denormal numbers were not zero, and slow."""
    return {
        "system": platform.system(),
        "cpu": platform.machine(),
        "cores": os.cpu_count(),
        "processor": processor(),
        "denormals": "zero",
    }


def processor(told: Path = Path("/proc/cpuinfo")) -> str:
    """The processor's name, and on Linux its numbers: a cloud has several by one name. Empty where nothing is told."""
    try:
        lines = told.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.processor()
    known: dict[str, str] = {}
    for line in lines:  # a block for each core: the first is enough
        key, _, value = line.partition(":")
        known.setdefault(key.strip(), value.strip())
    numbers = "-".join(known[name] for name in _NUMBERS if name in known)
    return ", ".join(filter(None, [known.get("model name", ""), numbers]))
