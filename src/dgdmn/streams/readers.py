"""Read arrays from tables, .npz and .npy files, folders of images, and idx files.

Files are not trusted: sizes are checked before values are read, and every failure is one sentence.
"""

import gzip
import itertools
import math
import os
import warnings
import zipfile
import zlib
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from glob import glob
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from dgdmn.core.errors import DataError, DgdmnError, UsageError
from dgdmn.core.text import join_names
from dgdmn.streams import tables
from dgdmn.streams.tables import (
    LABEL_BYTES,
    MAX_BYTES,
    Arrays,
    ColumnOptions,
    check_size,
    to_labels,
)

if TYPE_CHECKING:
    from PIL.Image import Image

__all__ = ["MAX_BYTES", "Arrays", "check_arrays", "read_arrays", "read_idx", "rows_by_value"]

Size = tuple[int, int]  # width and height
NPZ_KEYS = {"X": ("X", "x", "images"), "y": ("y", "labels", "label"), "task": ("task", "tasks")}
FILE_TYPES = ".csv, .tsv, .csv.gz, .tsv.gz, .parquet, .npz, .npy or a folder of images"
IMAGE_SUFFIXES = {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".pgm", ".ppm"}
IMAGE_FORMATS = ("PNG", "JPEG", "BMP", "GIF", "TIFF", "WEBP", "PPM")
"""Formats that Pillow may decode, whatever the suffix. For other formats it may start external programs."""
GRAY = ("1", "L", "LA")
"""Pillow's modes of images without color."""
MAX_PIXELS = 4096 * 4096
"""Most pixels of an image, checked before it is decoded."""


def read_arrays(
    path: str | os.PathLike[str],
    *,
    label: str | None = None,
    task: str | None = None,
    needs_task: bool = True,
    needs_labels: bool = True,
    order_by: str | None = None,
    ignore: Collection[str] = (),
    text: Collection[str] = (),
    shape: tuple[int, ...] = (),
    remembered: tuple[str, Collection[str], Collection[str]] = ("label", (), ()),
) -> Arrays:
    """Read samples, labels and tasks from a table, an .npz or .npy file or a folder of images.

    `label` and `task` name columns of a table or npz arrays; by default "label" and "task" where they
    exist. `order_by`, `ignore` and `text` name columns of a table: one to order rows by, those to leave out, and
    those that are sentences. A folder holds images, or a folder per class, or folders per task and class;
    they are resized to `shape`, or to one size if they have several. `remembered`: label column,
    columns to leave out and task columns from earlier calls; a file need not have them. With `needs_task=False`
    the same holds for `task`. With `needs_labels=False`, labels and tasks of some rows of a table may be missing:
    they are None.
    """
    path = Path(path)
    wanted = ColumnOptions(label, task, order_by, ignore, text, *remembered, needs_labels)
    if not needs_task and task is not None:
        wanted = wanted._replace(task=None, remembered_tasks=(task,))
    packed = path.suffix.lower() == ".gz"
    kind = "".join(path.suffixes[-2 if packed else -1 :]).lower()
    readers = dict.fromkeys((".csv", ".tsv", ".csv.gz", ".tsv.gz"), tables.read_csv)
    readers[".parquet"] = tables.read_parquet
    if not path.is_dir() and kind not in {*readers, ".npz", ".npy"}:
        raise UsageError(f"{path} has an unknown type: give {FILE_TYPES}")
    if path.exists() and not path.is_dir() and not path.is_file():
        raise DataError(f"{path} is a pipe or a device: save the data as a file")
    if (path.is_dir() or kind not in readers) and (order_by is not None or ignore or text):
        lacks = "it has no columns to order by, ignore or read as text"
        raise UsageError(f"{path} is not a table: {lacks}")
    try:
        if path.is_dir():
            arrays = _read_folder(path, shape)
        elif kind in readers:
            arrays = readers[kind](path, wanted)
        else:
            arrays = _read_numpy(path, label, task, needs_task)
        check_arrays(arrays, str(path), DataError, needs_labels=needs_labels)
        return arrays._replace(X=to_float(arrays.X))
    except DgdmnError:
        raise
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8 text: save it as UTF-8 (Excel: CSV UTF-8)") from error
    except Exception as error:  # any failure here is the fault of the file
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        line = (reason.splitlines() or [type(error).__name__])[0]
        raise DataError(f"{path} cannot be read: {line}") from error


def _read_numpy(path: Path, label: str | None, task: str | None, needs_task: bool) -> Arrays:
    with path.open("rb") as file:
        if file.read(len(npy.MAGIC_PREFIX)) == npy.MAGIC_PREFIX:
            return Arrays(_read_array(file, path, "X")[0], None, None)
        arrays, size = list[Any](), 0
        with zipfile.ZipFile(file) as members:
            if not needs_task and f"{task}.npy" not in members.namelist():
                task = None
            for part, name in (("X", None), ("y", label), ("task", task)):
                values = None
                if found := _find_member(members.namelist(), path, part, name):
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
    check_size(path, size)
    file.seek(0)
    return npy.read_array(file, allow_pickle=False), size


def _bytes_per_value(dtype: np.dtype[Any], part: str) -> int:
    """Bytes in memory: `to_float` may widen X, and a label is a Python object for a while."""
    if part != "X":
        return dtype.itemsize + LABEL_BYTES
    widened = to_float(np.empty(0, dtype)) if dtype.kind in "bui" else np.empty(0, dtype)
    return max(1, widened.itemsize)


def _read_folder(path: Path, shape: tuple[int, ...]) -> Arrays:
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
    names = tuple(file.relative_to(path).as_posix() for file in files)
    return Arrays(_read_images(path, files, shape), y, tasks, files=names)


def _read_images(path: Path, files: list[Path], shape: tuple[int, ...]) -> NDArray[np.uint8]:
    """Images of one size as (n, h, w), or as (n, h, w, 3) if one is not gray."""
    from PIL.Image import Resampling

    sizes, channels = list[Size](), 3 if len(shape) == 3 and shape[2] == 3 else 1
    for file in files:
        with _open_image(file) as image:
            sizes.append(image.size)
            channels = max(channels, 1 if image.mode in GRAY else 3)
    size = _common_size(path, sizes, (shape[1], shape[0]) if len(shape) >= 2 else None)
    check_size(path, len(files) * math.prod(size) * channels)
    images = np.empty((len(files), size[1], size[0], channels), np.uint8)
    for place, file in enumerate(files):
        with _open_image(file) as image:
            plain = image.convert("L" if image.mode in GRAY else "RGB")
            plain = plain if plain.size == size else plain.resize(size, Resampling.BILINEAR)
            images[place] = np.asarray(plain).reshape(size[1], size[0], -1)  # gray fills all three
    return images if channels == 3 else images[..., 0]


def _common_size(path: Path, sizes: Sequence[Size], given: Size | None) -> Size:
    """The given size, that of more than half of the images, or the median width and height."""
    size, times = Counter(sizes).most_common(1)[0]
    if 2 * times <= len(sizes):
        width, height = np.median(sizes, axis=0)
        size = round(float(width)), round(float(height))
    size = given or size
    if n := len(sizes) - Counter(sizes)[size]:
        text = f"{path}: {n} of {len(sizes)} images are resized to {size[0]} x {size[1]} pixels"
        warnings.warn(text, stacklevel=5)
    return size


@contextmanager
def _open_image(file: Path) -> Iterator["Image"]:
    """Open an upright image of an allowed format and size. Errors inside the block are errors of the image file."""
    from PIL import ExifTags, Image, ImageOps

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
                # Cameras store a turned photo as it was taken, and how to turn it.
                is_turned = image.getexif().get(ExifTags.Base.Orientation, 1) != 1
                yield ImageOps.exif_transpose(image) if is_turned else image
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


def check_arrays(
    arrays: Arrays, name: str, error: type[DgdmnError], *, needs_labels: bool = True
) -> None:
    """Refuse empty arrays, arrays of different lengths, and values that are not finite; NaN may be in rows (n, d)."""
    X, y, task = arrays[:3]
    if X.ndim < 2 or X.dtype.kind not in "buif":
        shapes = "(n, d), (n, h, w) or (n, h, w, c)"
        advice = "; for a data frame use from_frame" if X.dtype.kind == "O" else ""
        raise error(f"{name}: X is {X.dtype} {X.shape}, give numbers of shape {shapes}{advice}")
    if X.size == 0:
        raise error(f"{name}: X has shape {X.shape}, give at least one row and one feature")
    for part, values in (("y", y), ("task", task)):
        if values is None:
            continue
        if values.shape != (len(X),):
            raise error(f"{name}: {part} has shape {values.shape}, give {len(X)} values")
        if values.dtype.kind == "O" and not needs_labels:
            values = np.array([value for value in values if value is not None] or [""])
        kinds = [type(value) for value in values] if values.dtype.kind == "O" else [values.dtype]
        if len(set(kinds)) > 1:
            raise error(f"{name}: {part} mixes types or lacks values, give values of one type")
        dtype = np.dtype(kinds[0])
        if dtype.kind not in "buifUT":
            raise error(f"{name}: {part} has type {dtype}, give text or numbers")
        if dtype.kind == "f" and not (finite := np.isfinite(values.astype(dtype))).all():
            row = int(np.argmin(finite))
            raise error(
                f"{name}: {part} has no finite value in row {row} (from 0); give every row one"
            )
        texts = values.tolist() if values.dtype.kind in "UO" else ()
        for text in {text for text in texts if isinstance(text, str)}:
            if text.encode(errors="replace").decode() != text:
                raise error(f"{name}: {part} has {text!r}, which is not valid text; rename it")
            if part == "task" and needs_labels and not text.strip():
                raise error(f"{name}: task has an empty name, give every row a task")
    missing = np.isnan(X) if X.ndim == 2 and X.dtype.kind == "f" else False  # an image has none
    if X.dtype.kind == "f" and not (right := np.isfinite(X) | missing).all():
        row = int(np.argmin(right.reshape(len(X), -1).all(axis=1)))
        what = "an infinite value" if X.ndim == 2 else "a NaN or infinite value"
        raise error(f"{name}: X has {what} in row {row} (from 0); fix or remove it")


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
