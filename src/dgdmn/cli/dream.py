"""`dgdmn dream`: draw what a memory on disk dreams of."""

from __future__ import annotations

import csv
import io
import math
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dgdmn.cli.memories import MemoryPath, opened
from dgdmn.cli.run import parse
from dgdmn.errors import UsageError
from dgdmn.wording import counted

if TYPE_CHECKING:  # torch and numpy wait until the arguments are parsed, so that --help is quick
    import numpy as np
    from numpy.typing import NDArray

KINDS = (".png", ".csv", ".npz")
GAP = 2
"""Pixels between two pictures."""


@dataclass(frozen=True)
class Dream:
    """Let the long-term memory dream, and keep the dreams as a picture (.png), a table (.csv) or arrays (.npz)."""

    memory: MemoryPath
    """The memory, a directory."""
    out: Path
    """Where to: .png for samples that are images, .csv, or .npz with `x` and `y`."""
    n: int = 64
    """How many."""
    seed: int = 0
    """Another seed gives other dreams."""
    threads: int = 0
    """torch threads; 0: as many as torch likes."""


def main(arguments: list[str], debug: bool = False) -> int:  # noqa: ARG001
    """Parse, dream, draw."""
    args = parse(Dream, arguments, "dgdmn dream")
    kind = args.out.suffix.lower()
    if kind not in KINDS:
        raise UsageError(f"--out {args.out} ends with none of {', '.join(KINDS)}")
    if args.seed < 0:
        raise UsageError(f"seed is {args.seed}; it must be at least 0")
    from dgdmn.algorithms.generative import GenerativeClassifier
    from dgdmn.algorithms.saving import name_of
    from dgdmn.disk import npz_bytes, replace

    model, _ = opened(args.memory, args.threads)
    if not isinstance(model, GenerativeClassifier):
        raise UsageError(f"{args.memory} is of {name_of(type(model))}, which cannot dream")
    if not model.consolidated_tasks():
        raise UsageError(f"{args.memory} has not slept yet; `dgdmn sleep {args.memory}` first")
    shape = _picture_shape(model.learnt_.shape) if kind == ".png" else ()
    x, y = model.sample(args.n, random_state=args.seed)
    if kind == ".png":
        unit = model.learnt_.scaling.apply(x).reshape(len(x), *shape)
        content = _png(unit)
    else:
        content = npz_bytes({"x": x, "y": y}) if kind == ".npz" else _csv(x, y)
    replace(args.out, content)
    sys.stdout.write(f"{args.out}: {counted(len(x), 'dream')} of {args.memory}\n")
    return 0


def _picture_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Height, width and perhaps 3 channels of one sample."""
    if len(shape) == 3 and shape[2] == 1:
        return shape[:2]
    if len(shape) == 2 or (len(shape) == 3 and shape[2] == 3):
        return shape
    side = math.isqrt(shape[0])
    if len(shape) == 1 and side * side == shape[0] and side > 1:
        return side, side
    raise UsageError(f"samples of shape {shape} are no images; let --out end with .csv or .npz")


def _png(pictures: NDArray[np.float32]) -> bytes:
    """Pictures with values in [0, 1] side by side, about as many across as down."""
    import numpy as np
    from PIL import Image

    n, height, width = pictures.shape[:3]
    across = math.ceil(math.sqrt(n))
    down = math.ceil(n / across)
    sheet = np.full(
        (down * (height + GAP) - GAP, across * (width + GAP) - GAP, *pictures.shape[3:]), 255, np.uint8
    )
    for index, picture in enumerate(pictures):
        top, left = (index // across) * (height + GAP), (index % across) * (width + GAP)
        sheet[top : top + height, left : left + width] = np.round(picture * 255)
    content = io.BytesIO()
    Image.fromarray(sheet).save(content, "PNG")
    return content.getvalue()


def _csv(x: NDArray[np.float32], y: NDArray[Any]) -> bytes:
    rows = x.reshape(len(x), -1)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow((*(f"x{column}" for column in range(rows.shape[1])), "label"))
    writer.writerows((*(f"{value:.7g}" for value in row), label) for row, label in zip(rows, y, strict=True))
    return text.getvalue().encode()
