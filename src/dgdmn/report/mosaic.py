"""Images as one picture: the newest dreams, side by side by label."""

import io
import math
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from dgdmn.errors import DgdmnError

COLUMNS, ROWS = 16, 4
LIMIT = 1 << 26
"""Most bytes that a file of dreams may unpack to."""


def dreams_png(path: Path) -> bytes:
    """The dreams of an artefact as a PNG, ordered by label, evenly chosen where there are many."""
    x, y = _read(path)
    order = np.argsort(y, kind="stable")
    chosen = order[np.linspace(0, len(order) - 1, min(len(order), COLUMNS * ROWS)).astype(int)]
    content = io.BytesIO()
    Image.fromarray(tiled(x[chosen])).save(content, "PNG", optimize=True)
    return content.getvalue()


def tiled(images: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Images (n, h, w) or (n, h, w, 3) in rows of `COLUMNS`, a line of grey between them."""
    n, height, width = images.shape[:3]
    rows, columns = math.ceil(n / COLUMNS), min(n, COLUMNS)
    grid = np.full((rows * (height + 1) - 1, columns * (width + 1) - 1, *images.shape[3:]), 128, np.uint8)
    for index, image in enumerate(images):
        top, left = index // COLUMNS * (height + 1), index % COLUMNS * (width + 1)
        grid[top : top + height, left : left + width] = image
    return grid


def _read(path: Path) -> tuple[NDArray[np.uint8], NDArray[Any]]:
    try:
        with zipfile.ZipFile(path) as file:
            if sum(member.file_size for member in file.infolist()) > LIMIT:
                raise DgdmnError(f"{path.name} is too large to show")
        with path.open("rb") as opened, np.load(opened, allow_pickle=False) as arrays:
            x, y = np.asarray(arrays["x"]), np.asarray(arrays["y"])
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise DgdmnError(f"{path.name} is damaged: {error}") from error
    x = x[..., 0] if x.ndim == 4 and x.shape[3] == 1 else x
    if x.dtype != np.uint8 or x.size == 0 or x.ndim not in (3, 4) or x.shape[3:] not in ((), (3,)):
        raise DgdmnError(f"{path.name} does not hold images")
    if y.shape != (len(x),):
        raise DgdmnError(f"{path.name} does not hold a label for each image")
    return x, y
