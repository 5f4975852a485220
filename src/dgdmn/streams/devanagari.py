"""Hindi: eight tasks, one consonant of the Devanagari characters each, 32 x 32."""

import io
import zipfile
import zlib
from functools import lru_cache
from pathlib import Path

import numpy as np

from dgdmn.core.errors import DataError
from dgdmn.streams.base import Pixels, Rows, TaskStream, one_class
from dgdmn.streams.fetch import CONSONANTS, IMAGES_PER_CONSONANT, find, zip_members

Parts = tuple[Pixels, ...]
"""Training and test images."""


def hindi(*, seed: int = 0, validation: float = 0.0) -> TaskStream:
    """Return the consonants ka to ja in the dataset's order, 1,700 + 300 images each."""
    tasks = [(folder.rpartition("_")[2], (label,)) for label, folder in enumerate(CONSONANTS)]
    return TaskStream("hindi", tasks, (32, 32), _load, seed=seed, validation=validation)


def read_consonants() -> dict[str, Parts]:
    """Return the training and test images (n, 32, 32) of the first eight consonants, read-only."""
    (path,) = find("devanagari").values()
    return _parse(path, path.stat().st_mtime_ns)


def _load(number: int) -> tuple[Rows, Rows]:
    train, test = read_consonants()[CONSONANTS[number]]
    return one_class(train, number), one_class(test, number)


@lru_cache(maxsize=1)
def _parse(path: Path, _mtime: int) -> dict[str, Parts]:
    parts = _parse_zip(path) if path.suffix == ".zip" else _parse_npz(path)
    for images in (images for pair in parts.values() for images in pair):
        images.flags.writeable = False
    return parts


def _parse_npz(path: Path) -> dict[str, Parts]:
    with np.load(path, allow_pickle=False) as file:
        images, labels, split = (file[key] for key in ("images", "labels", "split"))
        label = {str(name): number for number, name in enumerate(file["class_names"])}
    return {
        name: tuple(images[(labels == label[name]) & (split == part)] for part in (0, 1))
        for name in CONSONANTS
    }


def _parse_zip(path: Path) -> dict[str, Parts]:
    from PIL import Image

    def decode(member: str) -> Pixels:
        with Image.open(io.BytesIO(archive.read(member))) as image:
            return np.asarray(image.convert("L")).reshape(32, 32)

    try:
        with zipfile.ZipFile(path) as archive:
            members = zip_members(archive)
            return {
                name: tuple(
                    np.stack([*map(decode, members[split, name])]) for split in IMAGES_PER_CONSONANT
                )
                for name in CONSONANTS
            }
    except (OSError, EOFError, ValueError, zipfile.BadZipFile, zlib.error) as error:
        raise DataError(f"{path} is damaged ({error}): delete it and fetch it again") from error
