"""Images as one picture: a grid of samples as PNG."""

import base64
import io
from collections.abc import Sequence
from typing import Any

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray
from PIL import Image

GRAYS = 15  # shades of gray; the sixteenth value of four bits marks empty tiles
TILE = 28  # width and height of a sample on the page in pixels


def tile(rows: Sequence[NDArray[Any]], columns: int) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
    """A canvas with one row of at most `columns` samples for each array, and a mask of its empty part."""
    height, width, *channels = next((row.shape[1:] for row in rows if len(row)), (1, 1))
    canvas = np.zeros((len(rows) * height, columns * width, *channels), np.uint8)
    empty = np.ones(canvas.shape[:2], bool)
    for r, samples in enumerate(rows):
        for c, sample in enumerate(samples[:columns]):
            part = np.s_[r * height : (r + 1) * height, c * width : (c + 1) * width]
            canvas[part], empty[part] = sample, False
    return canvas, empty


def picture(rows: Sequence[NDArray[Any]], columns: int, alt: str) -> Markup:
    """A grid of samples as an <img> with a data URL."""
    address = "data:image/png;base64," + base64.b64encode(grid_png(rows, columns)).decode()
    tag = Markup('<img src="{}" width="{}" height="{}" alt="{}">')
    return tag.format(address, columns * TILE, len(rows) * TILE, alt)


def grid_png(rows: Sequence[NDArray[Any]], columns: int) -> bytes:
    """A grid of samples as PNG, with few shades, because tiles are small and many."""
    canvas, empty = tile(rows, columns)
    content = io.BytesIO()
    if canvas.ndim == 3 and canvas.shape[2] == 3:
        canvas[empty] = 128
        Image.fromarray(canvas).quantize(64).save(content, "PNG")
        return content.getvalue()
    gray = canvas.reshape(canvas.shape[:2]).astype(np.uint16) * (GRAYS - 1) // 255
    levels = np.where(empty, GRAYS, gray).astype(np.uint8)
    image = Image.frombytes("P", levels.shape[::-1], levels.tobytes())
    palette = [round(level * 255 / (GRAYS - 1)) for level in range(GRAYS) for _ in range(3)]
    image.putpalette(palette + [128] * 3)
    image.save(content, "PNG", optimize=True, bits=4, transparency=GRAYS)
    return content.getvalue()
