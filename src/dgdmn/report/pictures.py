"""Samples as one small picture: a grid of tiles, few greys, a data: address."""

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image

GREYS = 15
"""Shades; one more of the sixteen that four bits can tell apart is for no picture at all."""
TILE = 28
"""Width and height of a sample on the page, in pixels."""


@dataclass(frozen=True)
class Picture:
    """A picture for an <img>."""

    address: str
    """data:image/png;base64,…"""
    width: int
    """On the page, in pixels."""
    height: int
    alt: str


def grid(rows: Sequence[NDArray[np.uint8]], columns: int, alt: str) -> Picture:
    """A picture with a row of at most so many samples for each array; a short row leaves its end empty."""
    shape = next(row.shape[1:] for row in rows if len(row))
    height, width = shape[:2]
    canvas = np.zeros((len(rows) * height, columns * width, *shape[2:]), np.uint8)
    empty = np.ones(canvas.shape[:2], bool)
    for number, samples in enumerate(rows):
        for place, sample in enumerate(samples[:columns]):
            tile = np.s_[number * height : (number + 1) * height, place * width : (place + 1) * width]
            canvas[tile], empty[tile] = sample, False
    return Picture(_address(canvas, empty), columns * TILE, len(rows) * TILE, alt)


def _address(canvas: NDArray[np.uint8], empty: NDArray[np.bool_]) -> str:
    grey = canvas.ndim == 2 or canvas.shape[2] == 1
    content = io.BytesIO()
    if grey:
        image = _few_greys(canvas.reshape(canvas.shape[:2]), empty)
        image.save(content, "PNG", optimize=True, bits=4, transparency=GREYS)
    else:
        Image.fromarray(np.where(empty[..., None], 128, canvas).astype(np.uint8)).quantize(64).save(
            content, "PNG"
        )
    return "data:image/png;base64," + base64.b64encode(content.getvalue()).decode()


def _few_greys(canvas: NDArray[np.uint8], empty: NDArray[np.bool_]) -> Image.Image:
    # half the bytes of 256 greys, and nobody sees the difference in tiles of this size
    levels = np.where(empty, GREYS, canvas.astype(np.uint16) * (GREYS - 1) // 255).astype(np.uint8)
    image = Image.fromarray(levels).convert("P")
    image.putdata(levels.ravel().tolist())
    image.putpalette(
        [round(level * 255 / (GREYS - 1)) for level in range(GREYS) for _ in range(3)] + [128] * 3
    )
    return image
