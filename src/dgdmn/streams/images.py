"""Hindi (Devanagari consonants), Shapes (Quick, Draw!) and the embedded digits of scikit-learn."""

import io
import zipfile
import zlib
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dgdmn.core.errors import DataError
from dgdmn.streams import fetch
from dgdmn.streams.base import Pixels, Rows, TaskStream, label_rows, seeded_rng, split

SIZE = (28, 28)
TRAIN, TEST = 4500, 500
MAX_SHIFT, MAX_TURN, MAX_SCALE, MAX_SHEAR = 2.0, np.deg2rad(10), 0.1, 0.1
"""Bounds of a random warp: pixels, radians, and two ratios."""
EMBEDDED = "scikit-learn's 1,797 digits, scaled from 8 x 8 to 28 x 28: not comparable with MNIST"

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]
Characters = dict[str, tuple[Pixels, ...]]


def hindi(*, seed: int = 0, validation: float = 0.0) -> TaskStream:
    """Return eight tasks: the consonants ka to ja, 1,700 + 300 images each, 32 x 32."""
    tasks = [(name.rpartition("_")[2], (label,)) for label, name in enumerate(fetch.CONSONANTS)]
    return TaskStream("hindi", tasks, (32, 32), _load_hindi, seed=seed, validation=validation)


def _load_hindi(number: int) -> tuple[Rows, Rows]:
    train, test = read_consonants()[fetch.CONSONANTS[number]]
    return label_rows(train, number), label_rows(test, number)


def read_consonants() -> Characters:
    """Return the training and test images (n, 32, 32) of the first eight consonants."""
    return fetch.read("devanagari", parse_characters)


def parse_characters(path: Path, names: Sequence[str] = fetch.CONSONANTS) -> Characters:
    """Return the training and test images of these classes of the Devanagari dataset."""
    if path.suffix == ".zip":
        return _parse_zip(path, names)
    with np.load(path, allow_pickle=False) as file:
        images, labels, parts = (file[key] for key in ("images", "labels", "split"))
        label = {str(name): number for number, name in enumerate(file["class_names"])}
    return {
        name: tuple(images[(labels == label[name]) & (parts == part)] for part in (0, 1))
        for name in names
    }


def _parse_zip(path: Path, names: Sequence[str]) -> Characters:
    from PIL import Image

    def decode(member: str) -> Pixels:
        with Image.open(io.BytesIO(archive.read(member))) as image:
            return np.asarray(image.convert("L")).reshape(32, 32)

    def stack(part: str, name: str) -> Pixels:
        return np.stack([decode(member) for member in members[part, name]])

    try:
        with zipfile.ZipFile(path) as archive:
            members = fetch.zip_members(archive)
            return {name: (stack("Train", name), stack("Test", name)) for name in names}
    except KeyError as error:
        missing = "/".join(error.args[0])
        raise DataError(f"{path} has no images in {missing}: fetch it again") from error
    except (OSError, EOFError, ValueError, zipfile.BadZipFile, zlib.error) as error:
        raise DataError(f"{path} is damaged ({error}): delete it and fetch it again") from error


def embedded(*, seed: int = 0, validation: float = 0.0) -> TaskStream:
    """Return ten tasks of one digit each, without a download; every seed has the same test rows."""
    tasks = [(str(digit), (digit,)) for digit in range(10)]
    return TaskStream(
        "embedded", tasks, SIZE, _load_embedded, seed=seed, validation=validation, note=EMBEDDED
    )


def _load_embedded(digit: int) -> tuple[Rows, Rows]:
    from sklearn.datasets import load_digits

    data = load_digits()
    small = data.images[data.target == digit].astype(np.float32) / 16
    axis = interpolation_matrix(8, SIZE[0])
    rows = label_rows(np.clip(axis @ small @ axis.T, 0, 1), digit)
    # Seed 0 instead of the stream's seed: runs with different seeds share the test rows.
    return split(rows, 0.2, seeded_rng(0, "embedded test part", digit), str(digit))


def interpolation_matrix(n_in: int, n_out: int) -> Floats:
    """Return the (n_out, n_in) matrix that resizes one axis linearly, aligned at pixel centers."""
    at = np.clip((np.arange(n_out) + 0.5) * n_in / n_out - 0.5, 0, n_in - 1)
    distance = np.abs(at[:, None] - np.arange(n_in)[None, :])
    weights: Floats = np.maximum(0, 1 - distance).astype(np.float32)
    return weights


def shapes(*, seed: int = 0, validation: float = 0.0) -> TaskStream:
    """Return six tasks, one shape each; the seed decides the split into training and test rows.

    Where a shape has too few drawings, warped copies fill its training rows up.
    """
    tasks = [(shape, (label,)) for label, shape in enumerate(fetch.SHAPES)]
    load = partial(_load_shape, seed)
    augment = partial(_augment, seed, validation)
    return TaskStream(
        "shapes", tasks, SIZE, load, seed=seed, validation=validation, note=_note, augment=augment
    )


def _load_shape(seed: int, number: int) -> tuple[Rows, Rows]:
    drawings = read_drawings()[fetch.SHAPES[number]]
    order = seeded_rng(seed, "shapes split", number).permutation(len(drawings))
    n_test = min(len(drawings) // 5, TEST)
    train, test = drawings[order[n_test : n_test + TRAIN]], drawings[order[:n_test]]
    return label_rows(train, number), label_rows(test, number)


def read_drawings() -> dict[str, Pixels]:
    """Return at most the first 5,000 drawings (n, 28, 28) of each shape."""
    return fetch.read("quickdraw", _parse_drawings)


def _parse_drawings(*paths: Path) -> dict[str, Pixels]:
    # An official file has over 100,000 rows: map it and copy the first ones.
    maps = {path.stem: np.load(path, mmap_mode="r", allow_pickle=False) for path in paths}
    first = slice(fetch.QUICKDRAW_ROWS)
    return {shape: np.array(rows[first]).reshape(-1, *SIZE) for shape, rows in maps.items()}


def _augment(seed: int, validation: float, number: int, train: Rows) -> Rows:
    n = TRAIN - round(validation * TRAIN)
    # Runs after the test and validation splits, so no copy of a held-out drawing is trained on.
    return label_rows(add_warped(train.x, n, seeded_rng(seed, "shapes warp", number)), number)


def _note() -> str:
    counts = {shape: len(drawings) for shape, drawings in read_drawings().items()}
    if min(counts.values()) >= TRAIN + TEST:
        return "Quick, Draw! as in the paper: 4,500 training and 500 test drawings of each shape"
    listed = ", ".join(f"{shape} {n:,}" for shape, n in counts.items())
    return (
        f"partial Quick, Draw! data ({listed} drawings): a fifth of each shape, at most 500, "
        "is the test part as drawn; the training part is brought to 4,500 "
        "by small random warps of its own drawings"
    )


def add_warped(images: Floats, n: int, rng: np.random.Generator) -> Floats:
    """Append warped copies until there are `n` images; each is copied about equally often."""
    missing = n - len(images)
    if missing <= 0:
        return images
    rounds = -(-missing // len(images))
    copied = np.concatenate([rng.permutation(len(images)) for _ in range(rounds)])[:missing]
    return np.concatenate([images, warp(images[copied], *random_affine(missing, rng))])


def random_affine(n: int, rng: np.random.Generator) -> tuple[Doubles, Doubles]:
    """Draw `n` small maps: matrices (n, 2, 2) and shifts (n, 2), rows before columns."""
    turn, shear = (rng.uniform(-bound, bound, n) for bound in (MAX_TURN, MAX_SHEAR))
    scale = rng.uniform(1 - MAX_SCALE, 1 + MAX_SCALE, (n, 2))
    cos, sin = np.cos(turn), np.sin(turn)
    rotation = np.stack([cos, -sin, sin, cos], axis=1).reshape(n, 2, 2)
    skew = np.stack([np.ones(n), shear, np.zeros(n), np.ones(n)], axis=1).reshape(n, 2, 2)
    return rotation @ skew * scale[:, None, :], rng.uniform(-MAX_SHIFT, MAX_SHIFT, (n, 2))


def warp(images: Floats, matrix: Doubles, shift: Doubles) -> Floats:
    """Sample images bilinearly at `matrix @ (p - center) + center + shift`; outside is black."""
    n, h, w = images.shape
    center = np.array([(h - 1) / 2, (w - 1) / 2])
    grid = np.stack(np.meshgrid(np.arange(h), np.arange(w), indexing="ij")).reshape(2, h * w)
    at = matrix @ (grid - center[:, None]) + (center + shift)[:, :, None]  # (n, 2, h * w)
    corner = np.floor(at).astype(np.int64)
    rest = (at - corner).astype(np.float32)
    # A black border of one pixel makes everything outside read as black.
    padded = np.pad(images, ((0, 0), (1, 1), (1, 1))).reshape(n, -1)
    result = np.zeros((n, h * w), dtype=np.float32)
    for down in (0, 1):
        for right in (0, 1):
            row = np.clip(corner[:, 0] + down, -1, h) + 1
            column = np.clip(corner[:, 1] + right, -1, w) + 1
            weight = np.abs(1 - down - rest[:, 0]) * np.abs(1 - right - rest[:, 1])
            result += weight * np.take_along_axis(padded, row * (w + 2) + column, axis=1)
    return np.clip(result, 0, 1).reshape(n, h, w)
