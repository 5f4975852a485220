"""Images as one picture: a grid of samples as PNG."""

import base64
import io
from collections.abc import Sequence
from typing import Any

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray
from PIL import Image

TILE = 28  # width and height of a sample on the page in pixels


def tile(rows: Sequence[NDArray[Any]], columns: int, empty: int = 128) -> NDArray[np.uint8]:
    """A canvas with one row of at most `columns` samples for each array; its rest has the color `empty`."""
    height, width, *channels = next((row.shape[1:] for row in rows if len(row)), (1, 1))
    canvas = np.full((len(rows) * height, columns * width, *channels), empty, np.uint8)
    for r, samples in enumerate(rows):
        for c, sample in enumerate(samples[:columns]):
            canvas[r * height : (r + 1) * height, c * width : (c + 1) * width] = sample
    return canvas.squeeze(2) if channels == [1] else canvas


def picture(rows: Sequence[NDArray[Any]], columns: int, alt: str) -> Markup:
    """A grid of samples as an <img> with a data URL."""
    address = "data:image/png;base64," + base64.b64encode(grid_png(rows, columns)).decode()
    tag = Markup('<img src="{}" width="{}" height="{}" alt="{}">')
    return tag.format(address, columns * TILE, len(rows) * TILE, alt)


def grid_png(rows: Sequence[NDArray[Any]], columns: int) -> bytes:
    """A grid of samples as PNG, with few shades, because tiles are small and many."""
    canvas, content = tile(rows, columns), io.BytesIO()
    Image.fromarray(canvas).quantize(16 if canvas.ndim == 2 else 64).save(
        content, "PNG", optimize=True
    )
    return content.getvalue()
