"""Pictures decoded again: every tile where it belongs."""

import base64
import io

import numpy as np
import pytest
from PIL import Image

from dgdmn.report.pictures import TILE, grid


def decoded(picture):
    head, content = picture.address.split(",")
    assert head == "data:image/png;base64"
    return np.array(Image.open(io.BytesIO(base64.b64decode(content))).convert("RGBA"))


@pytest.mark.parametrize("shape", [(5, 4), (5, 4, 1)])
def test_grey_tiles_and_empty_places(shape):
    rng = np.random.default_rng(0)
    rows = [
        rng.integers(0, 256, (3, *shape), dtype=np.uint8),
        rng.integers(0, 256, (1, *shape), dtype=np.uint8),
    ]
    picture = grid(rows, 2, "alt")
    assert (picture.width, picture.height, picture.alt) == (2 * TILE, 2 * TILE, "alt")
    pixels = decoded(picture)
    assert pixels.shape == (10, 8, 4)
    for place, sample in enumerate(rows[0][:2]):
        tile = pixels[:5, 4 * place : 4 * place + 4, 0].astype(int)
        assert np.abs(tile - sample.reshape(5, 4)).max() <= 255 / 14
    assert (pixels[:5, :, 3] == 255).all()
    assert (pixels[5:, 4:, 3] == 0).all(), "no second sample in the second row"


def test_coloured_tiles():
    red, blue = np.zeros((1, 4, 4, 3), np.uint8), np.zeros((1, 4, 4, 3), np.uint8)
    red[..., 0], blue[..., 2] = 255, 255
    pixels = decoded(grid([red, blue], 1, ""))
    assert np.abs(pixels[0, 0, :3].astype(int) - (255, 0, 0)).max() < 10
    assert np.abs(pixels[7, 3, :3].astype(int) - (0, 0, 255)).max() < 10


def test_it_is_small():
    digits = np.zeros((64, 28, 28), np.uint8)
    digits[:, 8:20, 12:16] = 200
    assert len(grid(list(digits.reshape(8, 8, 28, 28)), 8, "").address) < 2_000
