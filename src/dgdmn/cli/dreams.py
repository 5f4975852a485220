"""`dgdmn dream` and `export`: what a memory on disk writes for other programs."""

import io
import math
from argparse import Namespace
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from dgdmn.algorithms.estimator import ContinualClassifier
from dgdmn.cli.output import check_target, csv_text, show
from dgdmn.cli.store import generative_info, load_memory, plain_errors
from dgdmn.core.errors import UsageError
from dgdmn.core.files import npz_bytes, write_atomic
from dgdmn.core.text import count_noun, format_bytes, join_names
from dgdmn.features import FrontEnd
from dgdmn.report.images import tile
from dgdmn.streams.readers import MAX_BYTES


def dream(args: Namespace) -> None:
    """Write samples of the long-term memory."""
    check_target(args.out)
    kind = args.out.suffix.lower()
    if kind not in (".png", ".csv", ".npz"):
        raise UsageError(f"--out {args.out} has an unknown ending; use .png, .csv or .npz")
    model, notes = load_memory(args)
    info = generative_info(args.memory, model, slept=True)
    inputs, note = model.fitted_.inputs, ""
    seen = inputs.image_shape if isinstance(inputs, FrontEnd) else None
    shape = image_shape_of(seen or info.shape) if kind == ".png" else ()
    if args.n > (most := MAX_BYTES // (8 * math.prod(info.shape))):
        raise UsageError(f"--n is {args.n:,}; at most {most:,} dreams of this shape can be written")
    with plain_errors():
        x, y = model.sample(args.n, random_state=args.seed)
    if kind == ".png":
        content = _sheet(to_gray(model, x).reshape(len(x), *shape))
    elif kind == ".npz":
        content = npz_bytes({"x": x, "y": y})
    else:
        names, flat, left_out = name_columns(model, x)
        rows = ((*(f"{v:.7g}" for v in row), label) for row, label in zip(flat, y, strict=True))
        content = csv_text([*names, notes["label"]], rows).encode(errors="backslashreplace")
        if left_out:
            listed = join_names(map(repr, left_out))
            note = f"; without {listed}: the memory keeps codes of text, which cannot be read back"
    write_atomic(args.out, content)
    show(f"{args.out}: {count_noun(len(x), 'dream')} of {args.memory}{note}")


def name_columns(
    model: ContinualClassifier, x: NDArray[Any]
) -> tuple[Sequence[str], NDArray[Any], Sequence[str]]:
    """Names and values of the columns of numbers, and the names of those that are left out."""
    columns, x = getattr(model, "columns_", None), x.reshape(len(x), -1)
    if columns is None:
        return [f"x{column}" for column in range(x.shape[1])], x, []
    numbers = [name for name, kind in columns.state().items() if kind == "number"]
    left_out = [name for name in columns.names if name not in numbers]
    return numbers, x[:, ~columns.is_coded], left_out


def export(args: Namespace) -> None:
    """Write a memory as an ONNX model."""
    from dgdmn.export.onnx import onnx_bytes

    check_target(args.onnx)
    model, _ = load_memory(args)
    info = model.info()
    if info.generative:
        generative_info(args.memory, model, slept=True)
    content = onnx_bytes(model)
    write_atomic(args.onnx, content)
    if info.awake:
        awake, advice = join_names(info.awake), f"`dgdmn sleep {args.memory}` consolidates them"
        show(f"dgdmn: {args.onnx} lacks the tasks still awake: {awake}; {advice}", error=True)
    shape, classes = ", ".join(("n", *map(str, info.shape))), join_names(model.classes_.tolist())
    show(f"{args.onnx}: {format_bytes(len(content))}; X ({shape}) to probabilities of {classes}")


def image_shape_of(shape: tuple[int, ...]) -> tuple[int, ...]:
    side = math.isqrt(shape[0])
    if len(shape) == 1 and side * side == shape[0] and side > 1:
        return side, side
    if len(shape) == 2 or (len(shape) == 3 and shape[2] in (1, 3)):
        return shape[:2] if shape[2:] == (1,) else shape
    raise UsageError(f"samples of shape {shape} are not images; use .csv or .npz for --out")


def to_gray(model: ContinualClassifier, x: NDArray[Any], tail: float = 0.0) -> NDArray[np.uint8]:
    """Dreams as gray values. A mixture clips nothing, so a share `tail` on both sides is clipped here."""
    inputs = model.fitted_.inputs
    if isinstance(inputs, FrontEnd):
        low, high = np.quantile(x, (tail, 1 - tail))
        low, high = (0.0, 1.0) if low > -0.5 and high < 1.5 else (low, high)
        unit = (x - low) / (high - low or 1.0)
    else:
        unit = inputs.apply(x)
    return np.asarray(np.round(np.clip(unit, 0, 1) * 255), dtype=np.uint8)


def _sheet(pixels: NDArray[np.uint8]) -> bytes:
    columns, content = math.ceil(math.sqrt(len(pixels))), io.BytesIO()
    canvas, empty = tile(np.split(pixels, range(columns, len(pixels), columns)), columns)
    canvas[empty] = 255
    Image.fromarray(canvas).save(content, "PNG")
    return content.getvalue()
