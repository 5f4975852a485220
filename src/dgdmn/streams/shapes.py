"""Shapes: six tasks, the geometric shapes of Quick, Draw!, 4,500 + 500 drawings of each (appendix B)."""

from __future__ import annotations

from functools import partial

import numpy as np

from dgdmn.streams import known, pixels
from dgdmn.streams.arguments import check_fraction
from dgdmn.streams.task import Rows, TaskStream, generator, unit
from dgdmn.streams.warp import enlarge

TRAIN, TEST = 4500, 500


def stream(*, seed: int = 0, validation: float = 0.0) -> TaskStream:
    """One shape at a time; the split into training and test part is drawn anew for each seed."""
    check_fraction("validation", validation)
    tasks = [(shape, (label,)) for label, shape in enumerate(known.SHAPES)]
    return TaskStream(
        "shapes",
        tasks,
        (28, 28),
        partial(_load, seed),
        seed=seed,
        validation=validation,
        note=_note,
        enlarge=partial(_enlarge, seed, TRAIN - round(validation * TRAIN)),
    )


def _load(seed: int, number: int) -> tuple[Rows, Rows]:
    drawings = pixels.quickdraw()[known.SHAPES[number]]
    order = generator(seed, "shapes split", number).permutation(len(drawings))
    n_test = min(len(drawings) // 5, TEST)
    test, train = order[:n_test], order[n_test : n_test + TRAIN]
    return _rows(drawings[train], number), _rows(drawings[test], number)


def _enlarge(seed: int, n: int, number: int, train: Rows) -> Rows:
    # Comes after the split and the validation cut, so no copy of a held-out drawing is trained on.
    x = enlarge(train.x, n, generator(seed, "shapes warp", number))
    return Rows(x, np.full(len(x), number, dtype=np.int64))


def _rows(x: pixels.Bytes, label: int) -> Rows:
    return Rows(unit(x), np.full(len(x), label, dtype=np.int64))


def _note() -> str:
    counts = {shape: len(drawings) for shape, drawings in pixels.quickdraw().items()}
    if min(counts.values()) >= TRAIN + TEST:
        return (
            "Quick, Draw! as in the paper: 4,500 training and 500 test drawings of each shape, none made up"
        )
    listed = ", ".join(f"{shape} {n:,}" for shape, n in counts.items())
    return (
        f"partial Quick, Draw! data ({listed} drawings): a fifth of each shape, at most 500, "
        "is the test part as drawn; the training part is brought to 4,500 "
        "by small random warps of its own drawings"
    )
