"""Read arrays from .npz, .npy and .csv files, folders of images, and idx files.

Files are not trusted: sizes are checked before values are read, and every failure is one sentence.
"""

import csv
import gzip
import itertools
import math
import os
import sys
import warnings
import zipfile
import zlib
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from glob import glob
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from dgdmn.core.errors import DataError, DgdmnError, UsageError
from dgdmn.core.text import join_names, shorten

if TYPE_CHECKING:
    from PIL.Image import Image

NPZ_KEYS = {"X": ("X", "x", "images"), "y": ("y", "labels", "label"), "task": ("task", "tasks")}
IMAGE_SUFFIXES = {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".pgm", ".ppm"}
IMAGE_FORMATS = ("PNG", "JPEG", "BMP", "GIF", "TIFF", "WEBP", "PPM")
"""What Pillow may decode, whatever the suffix says; for others it may start programs."""
MAX_PIXELS = 4096 * 4096
"""Most pixels of an image, checked before it is decoded."""
MAX_BYTES = 1 << 30
"""Most bytes of the values of a file or folder, checked before they are read. Reading takes about twice that."""
LABEL_BYTES = 64
"""What a label or task counts beside its text: about what Python needs for a string."""
MAX_ROW_CHARACTERS = 1 << 24
"""Most characters of a csv row."""


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
    if path.exists() and not path.is_dir() and not path.is_file():
        raise DataError(f"{path} is a pipe or a device: save the data as a file")
    read = _read_folder if path.is_dir() else readers[path.suffix.lower()]
    try:
        arrays = read(path, label, task)
        check_arrays(arrays, str(path), DataError)
        return arrays._replace(X=to_float(arrays.X))
    except DgdmnError:
        raise
    except Exception as error:  # any failure here is the fault of the file
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        line = (reason.splitlines() or [type(error).__name__])[0]
        raise DataError(f"{path} cannot be read: {line}") from error


def _check_size(path: Path, size: int) -> None:
    if size > MAX_BYTES:
        sizes = f"{size:,} bytes of values, more than {MAX_BYTES:,}"
        raise DataError(f"{path} has {sizes}: split it, or pass arrays in Python")


def _read_numpy(path: Path, label: str | None, task: str | None) -> Arrays:
    with path.open("rb") as file:
        if file.read(len(npy.MAGIC_PREFIX)) == npy.MAGIC_PREFIX:
            return Arrays(_read_array(file, path, "X")[0], None, None)
        arrays, size = list[Any](), 0
        with zipfile.ZipFile(file) as members:
            for part, name in (("X", None), ("y", label), ("task", task)):
                found = _find_member(members.namelist(), path, part, name)
                if found is None:
                    arrays.append(None)
                    continue
                with members.open(found) as member:
                    values, size = _read_array(member, path, part, size)
                arrays.append(values)
        return Arrays(*arrays)


def _find_member(members: Sequence[str], path: Path, part: str, name: str | None) -> str | None:
    wanted = NPZ_KEYS[part] if name is None else (name,)
    for key in wanted:
        if f"{key}.npy" in members:
            return f"{key}.npy"
    if name is None and part != "X":
        return None
    have = join_names(member.removesuffix(".npy") for member in members) or "none"
    raise UsageError(f"{path} has no array {wanted[0]!r}: it has {have}")


def _read_array(file: Any, path: Path, part: str, size: int = 0) -> tuple[NDArray[Any], int]:
    """An array in npy format, and `size` plus its bytes. Its header is checked before the rest is read."""
    file.seek(0)
    version = npy.read_magic(file)
    if version not in ((1, 0), (2, 0)):  # 3.0 is for records with field names
        raise DataError(f"{path} holds no plain arrays: save numbers and text only")
    read_header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, _, dtype = read_header(file)
    if dtype.hasobject:
        raise DataError(f"{path} holds no plain arrays: save it without Python objects")
    if any(length < 0 for length in shape):
        raise DataError(f"{path} is damaged: {part} has shape {shape}")
    size += math.prod(shape) * _bytes_per_value(dtype, part)
    _check_size(path, size)
    file.seek(0)
    return npy.read_array(file, allow_pickle=False), size


def _bytes_per_value(dtype: np.dtype[Any], part: str) -> int:
    """Bytes in memory: `to_float` may widen X, and a label is a Python object for a while."""
    if part != "X":
        return dtype.itemsize + LABEL_BYTES
    widened = to_float(np.empty(0, dtype)) if dtype.kind in "bui" else np.empty(0, dtype)
    return max(1, widened.itemsize)


def _read_csv(path: Path, label: str | None, task: str | None) -> Arrays:
    with path.open(newline="", encoding="utf-8-sig") as file:
        rows = _csv_rows(path, file)
        columns = next(rows, [])
        first = next(rows, None)
        if first is None:
            raise DataError(f"{path} has no rows: give a header line and at least one row")
        y_at, task_at, features = _find_columns(path, columns, label, task)
        texts = {
            i: (part, list[str]())
            for i, part in ((y_at, "label"), (task_at, "task"))
            if i is not None
        }
        values, longest = array("d"), 0
        for number, row in enumerate(itertools.chain([first], rows), start=2):
            if len(row) != len(columns):
                raise DataError(f"{path} has {len(row)} values in row {number}, not {len(columns)}")
            numbers = [_to_number(row[i]) for i in features]
            if None in numbers:
                i = features[numbers.index(None)]
                where = f"row {number}, column {columns[i]!r}"
                raise DataError(f"{path} has {shorten(row[i])!r} in {where}: features are numbers")
            values.extend(numbers)  # type: ignore[arg-type]  # None is refused above
            for i, (part, cells) in texts.items():
                if not row[i].strip():
                    where = f"row {number}, column {columns[i]!r}"
                    raise DataError(f"{path} has no {part} in {where}: fill or remove it")
                cells.append(sys.intern(row[i]))
                longest = max(longest, len(row[i]))
            text_bytes = len(texts) * (LABEL_BYTES + 4 * longest)
            _check_size(path, (number - 1) * (values.itemsize * len(features) + text_bytes))
    y, tasks = (None if i is None else to_labels(texts[i][1]) for i in (y_at, task_at))
    X = np.frombuffer(values).reshape(-1, len(features))
    return Arrays(X, y, tasks, tuple(columns[i] for i in features))


def _csv_rows(path: Path, file: TextIO) -> Iterator[list[str]]:
    """The rows that are not empty. A row that is too long is refused before it is split."""
    length = 0

    def lines() -> Iterator[str]:
        nonlocal length
        while line := file.readline(MAX_ROW_CHARACTERS):
            length += len(line)
            if length >= MAX_ROW_CHARACTERS:
                most = f"{MAX_ROW_CHARACTERS:,} characters"
                raise DataError(f"{path} has a row of more than {most}: give a csv file")
            yield line

    for row in csv.reader(lines()):
        length = 0
        if row:
            yield row


def _find_columns(
    path: Path, columns: list[str], label: str | None, task: str | None
) -> tuple[int | None, int | None, list[int]]:
    """The places of the labels, the tasks and the features."""
    counted = [str(i) for i in range(len(columns))]  # how pandas names columns without a name
    if columns != counted and None not in map(_to_number, columns):
        raise DataError(f"{path} has no header: its first line is numbers, give each column a name")
    name, times = Counter(columns).most_common(1)[0]
    if times > 1:
        raise DataError(f"{path} has {times} columns named {name!r}: give each its own name")
    y_at, task_at = _column(path, columns, label, "label"), _column(path, columns, task, "task")
    features = [i for i in range(len(columns)) if i not in (y_at, task_at)]
    if not features:
        raise DataError(f"{path} has no feature columns besides {join_names(columns)}")
    return y_at, task_at, features


def _column(path: Path, columns: Sequence[str], name: str | None, default: str) -> int | None:
    if name is not None and name not in columns:
        raise UsageError(f"{path} has no column {name!r}: it has {join_names(columns)}")
    wanted = default if name is None else name
    return columns.index(wanted) if wanted in columns else None


def _to_number(text: str) -> float | None:
    """A number as csv files write it: `float` alone also takes 1_000 and the digits of all scripts."""
    try:
        return float(text) if text.isascii() and "_" not in text else None
    except ValueError:
        return None


def to_labels(texts: Iterable[str]) -> NDArray[Any]:
    """Return texts as an array, of integers if every text is one in its usual form."""
    texts = list(texts)
    if any(text.endswith("\0") for text in set(texts)):
        raise ValueError("a label or task ends with a NUL character, which an array drops")
    try:
        numbers = {text: int(text) for text in set(texts)}
    except ValueError:
        return np.array(texts)
    usual = all(str(number) == text and abs(number) < 2**63 for text, number in numbers.items())
    return np.array([numbers[text] for text in texts] if usual else texts)


def _read_folder(path: Path, *_: str | None) -> Arrays:
    patterns = ("*", "*/*", "*/*/*")  # `glob` skips hidden names, `Path.glob` does not
    visible = [sorted(path / name for name in glob(p, root_dir=path)) for p in patterns]  # noqa: PTH207
    by_depth = [
        [file for file in found if file.suffix.lower() in IMAGE_SUFFIXES and not file.is_dir()]
        for found in visible
    ]
    depths = [depth for depth, files in enumerate(by_depth) if files]
    if len(depths) != 1:
        problem = "has images at different depths" if depths else "holds no images"
        layouts = "in the folder itself, in class folders, or in task/class folders"
        raise DataError(f"{path} {problem}: put all images {layouts}")
    files = by_depth[depths[0]]
    parents = {folder for file in files for folder in file.parents}
    for folder in itertools.chain(*visible[: depths[0]]):
        if folder.is_dir() and folder not in parents:
            advice = f"add some or remove it; formats are {', '.join(IMAGE_FORMATS)}"
            raise DataError(f"{folder} holds no images of a known format: {advice}")
    for file in files:
        if not file.resolve().is_relative_to(path.resolve()):
            raise DataError(f"{file} is a link out of {path}: copy the image into the folder")
        if not file.is_file():
            raise DataError(f"{file} is not a regular file: replace or remove it")
    y = to_labels(file.parent.name for file in files) if depths[0] else None
    tasks = to_labels(file.parent.parent.name for file in files) if depths[0] == 2 else None
    return Arrays(_read_images(path, files), y, tasks)


def _read_images(path: Path, files: list[Path]) -> NDArray[np.uint8]:
    """Images of one size as (n, h, w), or as (n, h, w, 3) if one is not gray."""
    images, first, channels = list[NDArray[np.uint8]](), (0, 0), 1
    for file in files:
        with _open_image(file) as image:
            if image.size != (first := first if images else image.size):
                size, one_size = ("{} x {}".format(*shown) for shown in (image.size, first))
                one = f"{files[0].name} is {one_size}"
                raise DataError(f"{file} is {size} pixels, {one}: use one size")
            is_gray = image.mode in ("1", "L", "LA")
            channels = max(channels, 1 if is_gray else 3)
            _check_size(path, len(files) * math.prod(first) * channels)
            images.append(np.asarray(image.convert("L" if is_gray else "RGB")))
    if channels == 3:
        images = [image if image.ndim == 3 else np.stack([image] * 3, axis=2) for image in images]
    return np.stack(images)


@contextmanager
def _open_image(file: Path) -> Iterator["Image"]:
    """An image of an allowed format and size. An error while it is open is the fault of its file."""
    from PIL import Image

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about sizes and colors that are checked here
            with file.open("rb") as content, Image.open(content, formats=IMAGE_FORMATS) as image:
                width, height = image.size
                if width * height > MAX_PIXELS:
                    size = f"{width} x {height} pixels, more than {MAX_PIXELS:,}"
                    raise DataError(f"{file} has {size}: make it smaller")
                if image.mode.startswith(("I", "F")):
                    raise DataError(f"{file} has more than 8 bits per pixel: save it with 8 bits")
                yield image
    except DgdmnError:
        raise
    except Exception as error:
        advice = f"replace or remove it; formats are {', '.join(IMAGE_FORMATS)}"
        raise DataError(f"{file} cannot be read as an image: {advice}") from error


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
        kinds = [type(value) for value in values] if values.dtype.kind == "O" else [values.dtype]
        if len(set(kinds)) > 1:
            raise error(f"{name}: {part} mixes types or lacks values, give values of one type")
        dtype = np.dtype(kinds[0])
        if dtype.kind not in "buifUT":
            raise error(f"{name}: {part} has type {dtype}, give text or numbers")
        if dtype.kind == "f" and not np.isfinite(values.astype(dtype)).all():
            raise error(f"{name}: {part} has a NaN or infinite value, give every row a value")
        texts = values.tolist() if values.dtype.kind in "UO" else ()
        for text in {text for text in texts if isinstance(text, str)}:
            if text.encode(errors="replace").decode() != text:
                raise error(f"{name}: {part} has {text!r}, which is not valid text; rename it")
            if part == "task" and not text.strip():
                raise error(f"{name}: task has an empty name, give every row a task")
    if X.dtype.kind == "f" and not (finite := np.isfinite(X)).all():
        row = int(np.argmin(finite.reshape(len(X), -1).all(axis=1)))
        raise error(f"{name}: X has a NaN or infinite value in row {row} (from 0), fix it")


def rows_by_value(values: NDArray[Any]) -> dict[Any, list[int]]:
    """The rows of each value, in the order of first appearance."""
    rows: dict[Any, list[int]] = {}
    for row, value in enumerate(values.tolist()):
        rows.setdefault(value, []).append(row)
    return rows


def to_float(X: NDArray[Any]) -> NDArray[Any]:
    """Return floats and uint8 unchanged, other numbers as the smallest float type that fits."""
    if X.dtype.kind == "f" or X.dtype == np.uint8:
        return X
    return X.astype(np.result_type(X.dtype, np.float32))
