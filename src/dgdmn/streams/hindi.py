"""Hindi: eight tasks, the first eight consonants of the Devanagari characters, 32 x 32."""

from __future__ import annotations

import numpy as np

from dgdmn.streams import known, pixels
from dgdmn.streams.task import Rows, TaskStream, unit


def stream(*, seed: int = 0, validation: float = 0.0) -> TaskStream:
    """The consonants ka to ja in the dataset's order, 1,700 + 300 images each."""
    tasks = [(folder.rpartition("_")[2], (label,)) for label, folder in enumerate(known.CONSONANTS)]
    return TaskStream("hindi", tasks, (32, 32), _load, seed=seed, validation=validation)


def _load(number: int) -> tuple[Rows, Rows]:
    train, test = pixels.devanagari(known.CONSONANTS[number])
    return _rows(train, number), _rows(test, number)


def _rows(x: pixels.Bytes, label: int) -> Rows:
    return Rows(unit(x), np.full(len(x), label, dtype=np.int64))
