"""Anyone's own files as arrays: .npz, .npy, .csv and folders of images."""

from __future__ import annotations

import csv
import os
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dgdmn.errors import DataError, DgdmnError, UsageError

KEYS = {"X": ("X", "x", "images"), "y": ("y", "labels", "label"), "task": ("task", "tasks")}
SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".pgm", ".ppm"})


class Arrays(NamedTuple):
    """What a file holds: samples, and labels, tasks and the features' names where it has them."""

    X: NDArray[Any]
    y: NDArray[Any] | None
    task: NDArray[Any] | None
    names: tuple[str, ...] = ()


def read_arrays(path: str | os.PathLike[str], *, label: str | None = None, task: str | None = None) -> Arrays:
    """Read X, y, task and names from an .npz, .npy or .csv file or a folder of images; y and task may be None.

    `label` and `task` name a csv column or npz array; unnamed, "label" and "task" are taken if they
    are there. A folder holds images, or one sub-folder for each class, or task/class two levels deep.
    """
    place = Path(path)
    try:
        found = _read(place, label, task)
    except (OSError, EOFError, UnicodeDecodeError, csv.Error, zipfile.BadZipFile, zlib.error) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise DataError(f"{place} cannot be read: {why}") from error
    check_arrays(found, str(place), DataError)
    return found._replace(X=plain(found.X))


def _read(place: Path, label: str | None, task: str | None) -> Arrays:
    if place.is_dir():
        return _read_folder(place)
    kind = place.suffix.lower()
    if kind == ".csv":
        return _read_csv(place, label, task)
    if kind not in (".npz", ".npy"):
        raise UsageError(f"{place} is of no known kind: give .npz, .npy, .csv or a folder of images")
    # Opened here: numpy leaves a file that turns out to be damaged open.
    with place.open("rb") as file:
        return _read_numpy(file, place, label, task)


def _read_numpy(file: BinaryIO, place: Path, label: str | None, task: str | None) -> Arrays:
    try:
        loaded = np.load(file, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return Arrays(loaded, None, None)
        names = {"X": None, "y": label, "task": task}
        return Arrays(*(_member(loaded, place, part, name) for part, name in names.items()))
    except ValueError as error:
        if isinstance(error, DgdmnError):
            raise
        raise DataError(f"{place} holds no plain arrays: save it without Python objects") from error


def _member(file: Any, place: Path, part: str, name: str | None) -> Any:
    wanted = (name,) if name is not None else KEYS[part]
    for key in wanted:
        if key in file.files:
            return file[key]
    if name is not None or part == "X":
        raise UsageError(f"{place} has no array {wanted[0]!r}: it has {', '.join(file.files) or 'none'}")
    return None


def _read_csv(place: Path, label: str | None, task: str | None) -> Arrays:
    with place.open(newline="", encoding="utf-8-sig") as file:
        lines = [line for line in csv.reader(file) if line]
    if len(lines) < 2:
        raise DataError(f"{place} has no rows: give a header line and at least one row")
    columns, rows = lines[0], lines[1:]
    counted = [str(i) for i in range(len(columns))]  # what pandas calls columns without names
    if columns != counted and all(_is_number(name) for name in columns):
        raise DataError(f"{place} has no header: its first line is numbers, give each column a name")
    name, times = Counter(columns).most_common(1)[0]
    if times > 1:
        raise DataError(f"{place} has {times} columns named {name!r}: give each its own name")
    for number, row in enumerate(rows, start=2):
        if len(row) != len(columns):
            raise DataError(f"{place} has {len(row)} values in row {number}, its header has {len(columns)}")
    taken = {part: _column(place, columns, name, part) for part, name in (("label", label), ("task", task))}
    features = [i for i in range(len(columns)) if i not in taken.values()]
    if not features:
        raise DataError(f"{place} has no feature columns besides {', '.join(columns)}")
    for name, i in taken.items():
        for number, row in enumerate(rows, start=2):
            if i is not None and not row[i].strip():
                raise DataError(
                    f"{place} has no {name} in row {number}, column {columns[i]!r}: fill or remove it"
                )
    y, tasks = (None if i is None else labels([row[i] for row in rows]) for i in taken.values())
    names = tuple(columns[i] for i in features)
    return Arrays(_numbers(place, columns, rows, features), y, tasks, names)


def _column(place: Path, columns: Sequence[str], name: str | None, default: str) -> int | None:
    wanted = default if name is None else name
    if wanted in columns:
        return columns.index(wanted)
    if name is None:
        return None
    raise UsageError(f"{place} has no column {name!r}: it has {', '.join(columns)}")


def _numbers(place: Path, columns: Sequence[str], rows: list[list[str]], features: list[int]) -> NDArray[Any]:
    result = np.empty((len(rows), len(features)))
    for r, row in enumerate(rows):
        for f, column in enumerate(features):
            try:
                result[r, f] = float(row[column])
            except ValueError as error:
                where = f"row {r + 2}, column {columns[column]!r}"
                raise DataError(f"{place} has {row[column]!r} in {where}: features are numbers") from error
    return result


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def labels(values: Iterable[str]) -> NDArray[Any]:
    """Texts as an array, of integers if every one reads as an integer and back."""
    texts = list(values)
    try:
        numbers = [int(text) for text in texts]
    except ValueError:
        return np.array(texts)
    return np.array(numbers if [str(n) for n in numbers] == texts else texts)


def _read_folder(place: Path) -> Arrays:
    by_depth = {depth: _images(place, depth) for depth in (0, 1, 2)}
    depths = [depth for depth, files in by_depth.items() if files]
    if len(depths) != 1:
        problem = "holds no images" if not depths else "has images at different depths"
        raise DataError(f"{place} {problem}: put them all in it, in class folders, or in task/class folders")
    depth = depths[0]
    files = by_depth[depth]
    y = labels(file.parent.name for file in files) if depth else None
    tasks = labels(file.parent.parent.name for file in files) if depth == 2 else None
    return Arrays(_pictures(files), y, tasks)


def _images(place: Path, depth: int) -> list[Path]:
    found = place.glob("/".join(["*"] * (depth + 1)))
    images = [file for file in found if file.suffix.lower() in SUFFIXES and file.is_file()]
    return sorted(file for file in images if not _is_hidden(file.relative_to(place)))


def _is_hidden(file: Path) -> bool:
    return any(part.startswith(".") for part in file.parts)


def _pictures(files: list[Path]) -> NDArray[np.uint8]:
    """All images as (n, h, w) if every one is grey, else (n, h, w, 3)."""
    pictures = [_picture(file) for file in files]
    for file, picture in zip(files, pictures, strict=True):
        if picture.shape[:2] != pictures[0].shape[:2]:
            size, first = ("{1} x {0}".format(*p.shape) for p in (picture, pictures[0]))
            raise DataError(f"{file} is {size} pixels, {files[0].name} is {first}: give all one size")
    if any(picture.ndim == 3 for picture in pictures):
        pictures = [p if p.ndim == 3 else np.repeat(p[:, :, None], 3, axis=2) for p in pictures]
    return np.stack(pictures)


def _picture(file: Path) -> NDArray[np.uint8]:
    from PIL import Image

    try:
        with Image.open(file) as image:
            if image.mode.startswith(("I", "F")):
                raise DataError(f"{file} has more than 8 bits a pixel: save it as 8-bit grey or RGB")
            return np.asarray(image.convert("L" if image.mode in ("1", "L", "LA") else "RGB"))
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise DataError(f"{file} cannot be read as an image: replace or remove it") from error


def check_arrays(arrays: Arrays, name: str, error: type[DgdmnError]) -> None:
    """Refuse lengths that differ, values that are no finite numbers, and nothing at all."""
    X, y, task, _ = arrays
    if X.ndim < 2 or X.dtype.kind not in "buif":
        raise error(
            f"{name}: X is {X.dtype} {X.shape}, give numbers of shape (n, d), (n, h, w) or (n, h, w, c)"
        )
    if X.size == 0:
        raise error(f"{name}: X has shape {X.shape}, give at least one row and one feature")
    for part, values in (("y", y), ("task", task)):
        if values is not None:
            _check_column(values, len(X), f"{name}: {part}", error)
    if X.dtype.kind == "f" and not (finite := np.isfinite(X)).all():
        row = int(np.argmin(finite.reshape(len(X), -1).all(axis=1)))
        raise error(f"{name}: X has a NaN or infinite value in row {row} (from 0), remove or fill it")


def _check_column(values: NDArray[Any], n: int, name: str, error: type[DgdmnError]) -> None:
    if values.shape != (n,):
        raise error(f"{name} has shape {values.shape}, give one value for each of {n} rows")
    if values.dtype.kind == "O" and len({type(value) for value in values}) > 1:
        raise error(f"{name} mixes types or lacks values, give every row a value of one type")
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise error(f"{name} has a NaN or infinite value, give every row a value")


def plain(X: NDArray[Any]) -> NDArray[Any]:
    """Floats and uint8 as they are, any other numbers as the smallest float that suits them."""
    if X.dtype.kind == "f" or X.dtype == np.uint8:
        return X
    return X.astype(np.result_type(X.dtype, np.float32))
