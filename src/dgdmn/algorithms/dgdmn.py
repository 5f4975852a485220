"""DGDMN: the deep generative dual memory network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

from dgdmn.algorithms.dual import DualClassifier


@final
@dataclass(eq=False, repr=False, kw_only=True)
class DGDMN(DualClassifier):
    """A short-term memory learns each task; sleep consolidates n_stm of them into the long-term memory.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> memory = DGDMN(random_state=0)
    >>> for label in (0, 1):  # two tasks of one class each; the second fills the short-term memory
    ...     X = rng.normal([4 * label, -4 * label], 1, size=(80, 2))
    ...     memory = memory.set_params(value_range=(-8, 8)).partial_fit(X, np.full(80, label), task=str(label))
    >>> memory.consolidated_tasks()
    ('0', '1')
    >>> memory.predict([[0, 0], [4, -4]]).tolist()
    [0, 1]
    """

    category: ClassVar[str] = "replay"
    keeps: ClassVar[str] = "weights; with `best` codes until it sleeps"
    source: ClassVar[str] = "Kamra 2018, section 3.2"
