"""A memory that keeps learning: the deep generative dual memory network for continual learning."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dgdmn.algorithms.dgdmn import DGDMN
    from dgdmn.algorithms.dgdmn_recog import DGDMNRecog
    from dgdmn.algorithms.dgr import DGR
    from dgdmn.algorithms.dropnn import DropNN
    from dgdmn.algorithms.er import ER
    from dgdmn.algorithms.ewc import EWC
    from dgdmn.algorithms.gem import GEM
    from dgdmn.algorithms.icarl import ICaRL
    from dgdmn.algorithms.joint import Joint
    from dgdmn.algorithms.lwf import LwF
    from dgdmn.algorithms.nn import NN
    from dgdmn.algorithms.ppr import PPR
    from dgdmn.algorithms.saving import load
    from dgdmn.algorithms.si import SI
    from dgdmn.presets import Preset

__version__ = "0.1.0"
__all__ = [
    "DGDMN", "DGR", "ER", "EWC", "GEM", "NN", "PPR", "SI", "DGDMNRecog", "DropNN", "ICaRL", "Joint", "LwF", "Preset",
    "load",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Import an estimator, and with it torch, only when it is touched."""
    if name == "Preset":
        return importlib.import_module("dgdmn.presets").Preset
    if name == "load":
        return importlib.import_module("dgdmn.algorithms.saving").load
    if name in __all__:
        from dgdmn.algorithms import ALGORITHMS, algorithm

        return algorithm(next(key for key, kind in ALGORITHMS.items() if kind == name))
    raise AttributeError(f"module 'dgdmn' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
