"""A scikit-learn classifier that learns one task after another without forgetting and without storing data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dgdmn.algorithms.dgdmn import DGDMN, DGR, DGDMNRecog
    from dgdmn.algorithms.exemplars import ER
    from dgdmn.algorithms.gem import GEM
    from dgdmn.algorithms.generative import merge
    from dgdmn.algorithms.icarl import ICaRL
    from dgdmn.algorithms.ncm import NCM
    from dgdmn.algorithms.nn import NN, PPR, DropNN, Joint
    from dgdmn.algorithms.persistence import load
    from dgdmn.algorithms.ridge import Ridge
    from dgdmn.algorithms.slda import SLDA
    from dgdmn.algorithms.slowdown import EWC, SI, LwF
    from dgdmn.config import Config
    from dgdmn.runs.estimators import run_stream

__version__ = "0.1.0"
__all__ = [
    "DGDMN",
    "DGR",
    "ER",
    "EWC",
    "GEM",
    "NCM",
    "NN",
    "PPR",
    "SI",
    "SLDA",
    "Config",
    "DGDMNRecog",
    "DropNN",
    "ICaRL",
    "Joint",
    "LwF",
    "Ridge",
    "load",
    "merge",
    "run_stream",
]


def __getattr__(name: str) -> Any:
    """Import an estimator, and with it torch, only when it is used."""
    if name not in __all__:
        raise AttributeError(f"module 'dgdmn' has no attribute {name!r}")
    from dgdmn.config.registry import ALGORITHMS, load_target

    targets = {info.target.partition(":")[2]: info.target for info in ALGORITHMS.values()}
    targets |= {"Config": "dgdmn.config:Config", "load": "dgdmn.algorithms.persistence:load"}
    targets |= {"merge": "dgdmn.algorithms.generative:merge"}
    targets |= {"run_stream": "dgdmn.runs.estimators:run_stream"}
    return load_target(targets[name])


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
