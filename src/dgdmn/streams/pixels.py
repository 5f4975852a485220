"""The known files as arrays: read once in a process, kept as read-only uint8."""

from __future__ import annotations

import gzip
import io
import math
import zipfile
import zlib
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dgdmn.errors import DataError
from dgdmn.streams import integrity, known, sources

Bytes = NDArray[np.uint8]


class Parts(NamedTuple):
    """Training and test images (n, h, w) with their labels (n,)."""

    train_x: Bytes
    train_y: Bytes
    test_x: Bytes
    test_y: Bytes


def mnist() -> Parts:
    """The 60,000 + 10,000 images of MNIST."""
    paths = sources.find("mnist")
    return _mnist(*(_stamped(paths[names[0]]) for names in known.DATASETS["mnist"]))


def quickdraw() -> dict[str, Bytes]:
    """At most the first 5,000 drawings (n, 28, 28) of each shape."""
    paths = sources.find("quickdraw")
    return {shape: _drawings(*_stamped(paths[f"{shape}.npy"])) for shape in known.SHAPES}


def devanagari(consonant: str) -> tuple[Bytes, Bytes]:
    """The 1,700 training and 300 test images (n, 32, 32) of one of the first eight consonants."""
    path = sources.find("devanagari")["dhcd.npz"]
    if path.suffix == ".zip":
        return _from_zip(*_stamped(path), consonant)
    return _from_npz(*_stamped(path))[consonant]


def _stamped(path: Path) -> tuple[str, int]:
    # The time is part of the key: a file that was fetched anew is read anew.
    return str(path), path.stat().st_mtime_ns


def _frozen(array: Bytes) -> Bytes:
    array.flags.writeable = False
    return array


@lru_cache(maxsize=1)
def _mnist(*files: tuple[str, int]) -> Parts:
    train_x, train_y, test_x, test_y = (read_idx(Path(path)) for path, _ in files)
    for x, y, (path, _) in ((train_x, train_y, files[1]), (test_x, test_y, files[3])):
        if x.ndim != 3 or y.shape != x.shape[:1]:
            raise DataError(f"{path} has {y.shape} labels for {x.shape} images: fetch both files again")
    return Parts(train_x, train_y, test_x, test_y)


def read_idx(path: Path) -> Bytes:
    """An idx file of bytes, gzipped or not: two zero bytes, type 8, the rank, each size, the values."""
    try:
        content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path} cannot be unpacked ({error}): fetch it again") from error
    if len(content) < 4 or content[:3] != b"\0\0\x08" or len(content) < 4 + 4 * content[3]:
        raise DataError(f"{path} is not an idx file of bytes: fetch it again")
    start = 4 + 4 * content[3]
    shape = tuple(int(n) for n in np.frombuffer(content[4:start], ">u4"))
    if len(content) != start + math.prod(shape):
        raise DataError(f"{path} has {len(content)} bytes, its header promises {start + math.prod(shape)}")
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)


@lru_cache(maxsize=len(known.SHAPES))
def _drawings(path: str, _mtime: int) -> Bytes:
    with Path(path).open("rb") as file:
        rows = min(integrity.quickdraw_rows(file, path), known.QUICKDRAW_ROWS)
        pixels = np.frombuffer(file.read(rows * known.QUICKDRAW_PIXELS), np.uint8)
    if pixels.size != rows * known.QUICKDRAW_PIXELS:
        raise DataError(f"{path} ends early: delete it and fetch it again")
    return pixels.reshape(rows, 28, 28)


@lru_cache(maxsize=1)
def _from_npz(path: str, _mtime: int) -> dict[str, tuple[Bytes, Bytes]]:
    try:
        with np.load(path, allow_pickle=False) as file:
            images, labels, split = (np.asarray(file[key]) for key in ("images", "labels", "split"))
            names = [str(name) for name in file["class_names"]]
    except (OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile, zlib.error) as error:
        raise DataError(f"{path} is not the Devanagari npz ({error}): fetch it again") from error
    return {
        consonant: (
            _frozen(images[(labels == names.index(consonant)) & (split == 0)]),
            _frozen(images[(labels == names.index(consonant)) & (split == 1)]),
        )
        for consonant in known.CONSONANTS
    }


@lru_cache(maxsize=len(known.CONSONANTS))
def _from_zip(path: str, _mtime: int, consonant: str) -> tuple[Bytes, Bytes]:
    try:
        with zipfile.ZipFile(path) as archive:
            train, test = (_decode(archive, path, consonant, split) for split in ("Train", "Test"))
    except (OSError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise DataError(f"{path} is damaged ({error}): delete it and fetch it again") from error
    return train, test


def _decode(archive: zipfile.ZipFile, path: str, consonant: str, split: str) -> Bytes:
    from PIL import Image

    images = []
    for member in integrity.devanagari_members(archive, consonant, split):
        with Image.open(io.BytesIO(archive.read(member))) as image:
            images.append(np.asarray(image.convert("L")))
        if images[-1].shape != (32, 32):
            raise DataError(f"{path} has an image of another size than 32 x 32 at {member}: fetch it again")
    return _frozen(np.stack(images))
