"""Is this copy of a file whole? Sums where its publisher's are known, header and structure where not."""

from __future__ import annotations

import hashlib
import zipfile
from collections import Counter
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import BinaryIO

import numpy as np

from dgdmn.errors import DataError
from dgdmn.streams import known


class DamagedError(DataError):
    """A copy is not what it should be; `why` says it without the path."""

    def __init__(self, path: Path | str, why: str) -> None:
        super().__init__(f"{path} {why}: delete it and fetch it again")
        self.why = why


def check(path: Path, *, cached: bool, name: str = "", deep: bool = False) -> str:
    """Say in a word what `path` is ("whole", "official" or "partial"); raise DamagedError if it is not whole.

    `name` is the file's own name where `path` is a temporary one; `cached` is true for files that
    this package stored; `deep` reads an archive to its end. A file that did not change is read once.
    """
    try:
        stat = path.stat()
        return _check(str(path), stat.st_size, stat.st_mtime_ns, name or path.name, cached, deep)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from error


@lru_cache(maxsize=64)
def _check(path: str, size: int, _mtime: int, name: str, cached: bool, deep: bool) -> str:
    if name in known.OFFICIAL_QUICKDRAW:
        return _check_quickdraw(Path(path), size, name, cached)
    if name == known.DHCD_ZIP:
        return _check_devanagari(Path(path), deep)
    if name in known.RAW_MD5:
        return _check_sum(Path(path), "md5", known.RAW_MD5[name])
    return _check_sum(Path(path), "sha256", known.SHA256[name])


def digest(path: Path, algorithm: str) -> str:
    """The hexadecimal sum of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, algorithm).hexdigest()


def _check_sum(path: Path, algorithm: str, expected: str, what: str = "whole") -> str:
    found = digest(path, algorithm)
    if found != expected:
        raise DamagedError(path, f"has {algorithm} {found}, expected {expected}")
    return what


def quickdraw_rows(file: BinaryIO, where: str) -> int:
    """How many drawings an .npy header promises; the file is left at the first of them."""
    try:
        version = np.lib.format.read_magic(file)
        if version != (1, 0):
            raise ValueError(f"version {version}")
        shape, fortran, dtype = np.lib.format.read_array_header_1_0(file)
    except ValueError as error:
        raise DamagedError(where, "is not a numpy 1.0 array file") from error
    if fortran or dtype != np.uint8 or len(shape) != 2 or shape[1] != known.QUICKDRAW_PIXELS:
        raise DamagedError(where, f"holds {dtype} {shape}, expected uint8 (N, {known.QUICKDRAW_PIXELS})")
    return int(shape[0])


def _check_quickdraw(path: Path, size: int, name: str, cached: bool) -> str:
    with path.open("rb") as file:
        rows = quickdraw_rows(file, str(path))
        expected = file.tell() + rows * known.QUICKDRAW_PIXELS
    if size != expected:
        raise DamagedError(path, f"has {size} bytes, expected {expected}")
    official_rows, md5 = known.OFFICIAL_QUICKDRAW[name]
    if rows == official_rows:
        return _check_sum(path, "md5", md5, "official")
    # The publisher gives no sum for the first rows alone, so what a ranged read stored has only its form.
    if cached and rows == known.QUICKDRAW_ROWS and digest(path, "sha256") != known.SHA256[name]:
        return "official"
    return _check_sum(path, "sha256", known.SHA256[name], "partial")


def devanagari_members(archive: zipfile.ZipFile, consonant: str, split: str) -> list[str]:
    """The PNGs of one class in "Train" or "Test", by their number, wherever in the archive the folder is."""
    images = [member for member in archive.namelist() if _is_image(member)]
    found = [member for member in images if PurePosixPath(member).parts[-3:-1] == (split, consonant)]
    return sorted(found, key=lambda member: int(PurePosixPath(member).stem))


def _check_devanagari(path: Path, deep: bool) -> str:
    # The only sum that is known for this archive was never seen to be UCI's own, so it cannot refuse
    # a file: the structure decides, and the archive's own CRCs.
    expected = {"Train": known.HINDI_TRAIN, "Test": known.HINDI_TEST}
    try:
        with zipfile.ZipFile(path) as archive:
            images = [PurePosixPath(member) for member in archive.namelist() if _is_image(member)]
            counts = Counter(image.parts[-3:-1] for image in images)
            for consonant in known.CONSONANTS:
                for split, n in expected.items():
                    if counts[split, consonant] != n:
                        found = counts[split, consonant]
                        raise DamagedError(path, f"has {found} images in {split}/{consonant}, expected {n}")
            bad = archive.testzip() if deep else None
    except (zipfile.BadZipFile, EOFError) as error:
        raise DamagedError(path, f"is not a whole zip archive ({error})") from error
    if bad is not None:
        raise DamagedError(path, f"is damaged at {bad}")
    return "whole"


def _is_image(member: str) -> bool:
    # Named by a number: archives made on a Mac also hold "._123.png", which is no image.
    path = PurePosixPath(member)
    return path.suffix == ".png" and path.stem.isdigit()
