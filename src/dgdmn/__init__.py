"""A memory that keeps learning: the deep generative dual memory network for continual learning."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dgdmn.algorithms.dgdmn import DGDMN
    from dgdmn.algorithms.dgr import DGR
    from dgdmn.algorithms.joint import Joint
    from dgdmn.algorithms.nn import NN
    from dgdmn.presets import Preset

__version__ = "0.1.0"
__all__ = ["DGDMN", "DGR", "NN", "Joint", "Preset"]

_HOMES = {"DGDMN": "algorithms.dgdmn", "DGR": "algorithms.dgr", "NN": "algorithms.nn", "Joint": "algorithms.joint",
          "Preset": "presets"}  # fmt: skip


def __getattr__(name: str) -> Any:
    """Import an estimator, and with it torch, only when it is touched."""
    if name not in _HOMES:
        raise AttributeError(f"module 'dgdmn' has no attribute {name!r}")
    return getattr(importlib.import_module(f"dgdmn.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
