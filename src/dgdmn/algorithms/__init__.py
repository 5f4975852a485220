"""The rows of table 1, each a scikit-learn estimator."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from dgdmn.errors import UsageError, suggestion

if TYPE_CHECKING:
    from dgdmn.algorithms.base import ContinualClassifier

ALGORITHMS = {
    "nn": "NN",
    "dropnn": "DropNN",
    "ppr": "PPR",
    "ewc": "EWC",
    "si": "SI",
    "lwf": "LwF",
    "gem": "GEM",
    "icarl": "ICaRL",
    "er": "ER",
    "dgr": "DGR",
    "dgdmn": "DGDMN",
    "dgdmn-recog": "DGDMNRecog",
    "joint": "Joint",
}
"""Name on the command line and in run directories, and the class in the module of that name."""


def algorithm(name: str) -> type[ContinualClassifier]:
    """The estimator class of that name; torch is imported only now."""
    check_name(name)
    found: type[ContinualClassifier] = getattr(
        importlib.import_module(f"dgdmn.algorithms.{name.replace('-', '_')}"), ALGORITHMS[name]
    )
    return found


def check_name(name: str) -> None:
    """Refuse an algorithm that does not exist."""
    if name not in ALGORITHMS:
        raise UsageError(
            f"no algorithm {name!r}{suggestion(name, ALGORITHMS)}; there are {', '.join(ALGORITHMS)}"
        )
