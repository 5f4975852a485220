"""Read arrays from .npz, .npy and .csv files, folders of images, and idx files."""

import csv
import gzip
import math
import os
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dgdmn.core.errors import DataError, DgdmnError, UsageError

NPZ_KEYS = {"X": ("X", "x", "images"), "y": ("y", "labels", "label"), "task": ("task", "tasks")}
IMAGE_SUFFIXES = {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".pgm", ".ppm"}
READ_ERRORS = (OSError, EOFError, UnicodeDecodeError, csv.Error, zipfile.BadZipFile, zlib.error)


class Arrays(NamedTuple):
    """Samples, and labels, tasks and feature names where the source has them."""

    X: NDArray[Any]
    y: NDArray[Any] | None
    task: NDArray[Any] | None
    names: tuple[str, ...] = ()


def read_arrays(
    path: str | os.PathLike[str], *, label: str | None = None, task: str | None = None
) -> Arrays:
    """Read samples, labels and tasks from an .npz, .npy or .csv file or a folder of images.

    `label` and `task` name csv columns or npz arrays; by default "label" and "task" where they
    exist. A folder holds images, or a folder per class, or folders per task and class.
    """
    path = Path(path)
    readers = {".csv": _read_csv, ".npz": _read_numpy, ".npy": _read_numpy}
    if not path.is_dir() and path.suffix.lower() not in readers:
        raise UsageError(f"{path} has an unknown type: give .npz, .npy, .csv or a folder of images")
    read = _read_folder if path.is_dir() else readers[path.suffix.lower()]
    try:
        arrays = read(path, label, task)
    except READ_ERRORS as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise DataError(f"{path} cannot be read: {reason}") from error
    check_arrays(arrays, str(path), DataError)
    return arrays._replace(X=to_float(arrays.X))


def _read_numpy(path: Path, label: str | None, task: str | None) -> Arrays:
    names = {"X": None, "y": label, "task": task}
    try:
        with path.open("rb") as file:  # np.load does not close a damaged file that it opens itself
            loaded = np.load(file, allow_pickle=False)
            if isinstance(loaded, np.ndarray):
                return Arrays(loaded, None, None)
            return Arrays(*(_npz_member(loaded, path, part, name) for part, name in names.items()))
    except UsageError:
        raise
    except ValueError as error:
        raise DataError(f"{path} holds no plain arrays: save it without Python objects") from error


def _npz_member(file: Any, path: Path, part: str, name: str | None) -> Any:
    wanted = NPZ_KEYS[part] if name is None else (name,)
    for key in wanted:
        if key in file.files:
            return file[key]
    if name is None and part != "X":
        return None
    raise UsageError(f"{path} has no array {wanted[0]!r}: it has {', '.join(file.files) or 'none'}")


def _read_csv(path: Path, label: str | None, task: str | None) -> Arrays:
    with path.open(newline="", encoding="utf-8-sig") as file:
        lines = [line for line in csv.reader(file) if line]
    if len(lines) < 2:
        raise DataError(f"{path} has no rows: give a header line and at least one row")
    columns, rows = lines[0], lines[1:]
    counted = [str(i) for i in range(len(columns))]  # how pandas names columns without a name
    if columns != counted and all(_is_number(name) for name in columns):
        raise DataError(f"{path} has no header: its first line is numbers, give each column a name")
    name, times = Counter(columns).most_common(1)[0]
    if times > 1:
        raise DataError(f"{path} has {times} columns named {name!r}: give each its own name")
    y_at, task_at = _column(path, columns, label, "label"), _column(path, columns, task, "task")
    features = [i for i in range(len(columns)) if i not in (y_at, task_at)]
    if not features:
        raise DataError(f"{path} has no feature columns besides {', '.join(columns)}")
    for number, row in enumerate(rows, start=2):
        if len(row) != len(columns):
            raise DataError(f"{path} has {len(row)} values in row {number}, not {len(columns)}")
        for i, cell in enumerate(row):
            where = f"row {number}, column {columns[i]!r}"
            if i in features and not _is_number(cell):
                raise DataError(f"{path} has {cell!r} in {where}: features are numbers")
            if i not in features and not cell.strip():
                part = "label" if i == y_at else "task"
                raise DataError(f"{path} has no {part} in {where}: fill or remove it")
    y, tasks = (None if i is None else to_labels(row[i] for row in rows) for i in (y_at, task_at))
    X = np.array([[float(row[i]) for i in features] for row in rows])
    return Arrays(X, y, tasks, tuple(columns[i] for i in features))


def _column(path: Path, columns: Sequence[str], name: str | None, default: str) -> int | None:
    if name is not None and name not in columns:
        raise UsageError(f"{path} has no column {name!r}: it has {', '.join(columns)}")
    wanted = default if name is None else name
    return columns.index(wanted) if wanted in columns else None


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def to_labels(texts: Iterable[str]) -> NDArray[Any]:
    """Return texts as an array, of integers if every text is one in its usual form."""
    texts = list(texts)
    try:
        numbers = [int(text) for text in texts]
    except ValueError:
        return np.array(texts)
    return np.array(numbers if [str(number) for number in numbers] == texts else texts)


def _read_folder(path: Path, *_: str | None) -> Arrays:
    by_depth = {depth: _images_at(path, depth) for depth in (0, 1, 2)}
    depths = [depth for depth, files in by_depth.items() if files]
    if len(depths) != 1:
        problem = "has images at different depths" if depths else "holds no images"
        layouts = "in the folder itself, in class folders, or in task/class folders"
        raise DataError(f"{path} {problem}: put all images {layouts}")
    files = by_depth[depths[0]]
    y = to_labels(file.parent.name for file in files) if depths[0] else None
    tasks = to_labels(file.parent.parent.name for file in files) if depths[0] == 2 else None
    images = [_read_image(file) for file in files]
    for file, image in zip(files, images, strict=True):
        if image.shape[:2] != images[0].shape[:2]:
            size, first = ("{1} x {0}".format(*shown.shape) for shown in (image, images[0]))
            raise DataError(f"{file} is {size} pixels, {files[0].name} is {first}: use one size")
    if any(image.ndim == 3 for image in images):
        images = [image if image.ndim == 3 else np.stack([image] * 3, axis=2) for image in images]
    return Arrays(np.stack(images), y, tasks)


def _images_at(path: Path, depth: int) -> list[Path]:
    found = [file for file in path.glob("/".join("*" * (depth + 1))) if file.is_file()]
    hidden = {f for f in found if any(part.startswith(".") for part in f.relative_to(path).parts)}
    return sorted(f for f in found if f.suffix.lower() in IMAGE_SUFFIXES and f not in hidden)


def _read_image(file: Path) -> NDArray[np.uint8]:
    """Return a gray image as (h, w), any other as (h, w, 3)."""
    from PIL import Image

    try:
        with Image.open(file) as image:
            if image.mode.startswith(("I", "F")):
                raise DataError(f"{file} has more than 8 bits per pixel: save it with 8 bits")
            return np.asarray(image.convert("L" if image.mode in ("1", "L", "LA") else "RGB"))
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise DataError(f"{file} cannot be read as an image: replace or remove it") from error


def read_idx(path: Path) -> NDArray[np.uint8]:
    """Read an idx file of bytes, gzipped or not, as a read-only array."""
    try:
        content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path} cannot be unpacked ({error}): fetch it again") from error
    # Two zero bytes, type 8, the number of axes, the size of each as four bytes, then the values.
    start = 4 + 4 * content[3] if len(content) > 3 else 4
    if content[:3] != b"\0\0\x08" or len(content) < start:
        raise DataError(f"{path} is not an idx file of bytes: fetch it again")
    shape = tuple(int(n) for n in np.frombuffer(content[4:start], ">u4"))
    expected = start + math.prod(shape)
    if len(content) != expected:
        raise DataError(f"{path} has {len(content)} bytes, expected {expected}: fetch it again")
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)


def check_arrays(arrays: Arrays, name: str, error: type[DgdmnError]) -> None:
    """Refuse empty arrays, arrays of different lengths, and values that are not finite numbers."""
    X, y, task, _ = arrays
    if X.ndim < 2 or X.dtype.kind not in "buif":
        shapes = "(n, d), (n, h, w) or (n, h, w, c)"
        raise error(f"{name}: X is {X.dtype} {X.shape}, give numbers of shape {shapes}")
    if X.size == 0:
        raise error(f"{name}: X has shape {X.shape}, give at least one row and one feature")
    for part, values in (("y", y), ("task", task)):
        if values is None:
            continue
        if values.shape != (len(X),):
            raise error(f"{name}: {part} has shape {values.shape}, give {len(X)} values")
        if values.dtype.kind == "O" and len({type(value) for value in values}) > 1:
            raise error(f"{name}: {part} mixes types or lacks values, give values of one type")
        if values.dtype.kind == "f" and not np.isfinite(values).all():
            raise error(f"{name}: {part} has a NaN or infinite value, give every row a value")
    if X.dtype.kind == "f" and not (finite := np.isfinite(X)).all():
        row = int(np.argmin(finite.reshape(len(X), -1).all(axis=1)))
        raise error(f"{name}: X has a NaN or infinite value in row {row} (from 0), fix it")


def to_float(X: NDArray[Any]) -> NDArray[Any]:
    """Return floats and uint8 unchanged, other numbers as the smallest float type that fits."""
    if X.dtype.kind == "f" or X.dtype == np.uint8:
        return X
    return X.astype(np.result_type(X.dtype, np.float32))
