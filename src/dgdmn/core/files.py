"""Files: atomic writes, JSON, directory locks, and one-line messages for operating-system errors."""

import dataclasses
import errno
import io
import json
import math
import os
import re
import secrets
import shutil
import stat
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

import filelock
import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from dgdmn.core.errors import DgdmnError, UsageError

LOCK = ".lock"
MAX_BYTES = 64_000_000  # limit of a file that is read at once, and of what an npz unpacks to
MAX_JSON_BYTES = 4_000_000  # JSON takes up to 70 times its bytes in memory
_MAX_EMPTY = 1_000_000  # largest product of the sizes of an array that has no bytes
_TEMPORARY = re.compile(r"\..+\.[0-9a-f]{16}\.tmp")


def append_bytes(path: Path, content: bytes, *, durable: bool) -> None:
    """Append to a regular file, or leave it as it was. A link is not followed."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
    with os_errors("write", path), _open_regular(path, flags) as file:
        size = os.fstat(file.fileno()).st_size
        try:
            file.write(content)
            file.flush()
            if durable:
                os.fsync(file.fileno())
        except OSError:
            with suppress(OSError):  # a partial line would corrupt the next one
                os.ftruncate(file.fileno(), size)
            raise


def truncate_file(path: Path, size: int) -> None:
    """Cut a regular file to its first `size` bytes. A link is not followed."""
    with os_errors("write", path), _open_regular(path, os.O_WRONLY) as file:
        os.ftruncate(file.fileno(), size)
        os.fsync(file.fileno())


def write_atomic(path: Path, content: bytes, *, durable: bool = True) -> None:
    """Write a file completely or not at all: to a new temporary file, then rename.

    The rename replaces a link and never its target. Without `durable`, nothing waits for the disk.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    with os_errors("write", path):
        if not path.is_symlink() and (path.is_char_device() or path.is_block_device()):
            raise DgdmnError(f"{path} is a device; choose another name")
        try:
            with _open_regular(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL) as file:
                file.write(content)
                file.flush()
                if durable:
                    os.fsync(file.fileno())
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        if durable and os.name == "posix":  # elsewhere a directory cannot be opened
            directory = os.open(path.parent, os.O_RDONLY)
            try:
                os.fsync(directory)
            finally:
                os.close(directory)


def remove_temporaries(directory: Path) -> None:
    """Remove temporary files that killed writers left. Call it while holding the directory's lock."""
    for path in directory.glob(".*.tmp"):
        if _TEMPORARY.fullmatch(path.name):
            with suppress(OSError):
                path.unlink()


def make_directory(directory: Path) -> None:
    """Make a directory inside one that we own; refuse a link or a file in its place."""
    with os_errors("write", directory):
        with suppress(FileExistsError):
            directory.mkdir()
        if directory.is_symlink() or not directory.is_dir():
            raise DgdmnError(f"{directory} is a link or a file, not a directory; remove it")


def remove_directory(directory: Path) -> None:
    """Remove a directory and its content; a link, a file or a pipe in its place is left alone."""
    if directory.is_dir() and not directory.is_symlink():
        shutil.rmtree(directory, ignore_errors=True)


@contextmanager
def _open_regular(path: Path, flags: int, *, follow_link: bool = False) -> Iterator[BinaryIO]:
    """Open a regular file without waiting for a pipe."""
    writes = flags != os.O_RDONLY
    refused = DgdmnError(f"{path} is not a regular file; replace it by a copy")
    for name in ("O_NONBLOCK", "O_BINARY", *([] if follow_link else ["O_NOFOLLOW"])):
        flags |= getattr(os, name, 0)  # each system has some of them
    try:
        descriptor = os.open(path, flags, 0o666)
    except OSError as error:
        if error.errno in {errno.ELOOP, errno.ENXIO}:  # a link, a socket
            raise refused from error
        raise
    with os.fdopen(descriptor, "wb" if writes else "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise refused
        if writes and found.st_nlink > 1:  # the other name may be outside the directory
            raise DgdmnError(f"{path} has a second name (a hard link); replace it by a copy")
        yield file


@contextmanager
def open_regular(path: Path, *, follow_link: bool = True) -> Iterator[BinaryIO]:
    """Open a regular file for reading; anything else, such as a pipe, is refused without waiting."""
    with os_errors("read", path), _open_regular(path, os.O_RDONLY, follow_link=follow_link) as file:
        yield file


def read_bytes(path: Path, limit: int = MAX_BYTES) -> bytes:
    """The content of a regular file; one of more than `limit` bytes raises an error without being read."""
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > limit:
            raise DgdmnError(f"{path} has {size:,} bytes, at most {limit:,} are read; remove it")
        return file.read(size)


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON file that holds an object."""
    content = read_bytes(path, MAX_JSON_BYTES)
    try:
        value = json.loads(content)
        if not isinstance(value, dict):
            raise ValueError("it is not a JSON object")
    except (ValueError, RecursionError, MemoryError) as error:
        raise DgdmnError(f"{path} is damaged: {error}; restore it or run it again") from error
    return value


@contextmanager
def directory_lock(directory: Path, *, wait: float = 0.0) -> Iterator[None]:
    """Hold a directory for writing, after waiting at most `wait` seconds for another process.

    The lock ends with its process. A thread that holds it already may take it again. Temporary files that
    killed writers left are removed.
    """
    with os_errors("write", directory):
        directory.mkdir(parents=True, exist_ok=True)
        lock = filelock.FileLock(directory.resolve() / LOCK, is_singleton=True)
        try:
            lock.acquire(timeout=wait)
        except filelock.Timeout as error:
            problem = f"{directory} is in use by another process"
            raise DgdmnError(f"{problem}; wait until it ends, or stop it") from error
    try:
        remove_temporaries(directory)
        yield
    finally:
        lock.release()


@contextmanager
def os_errors(verb: str, path: Path) -> Iterator[None]:
    """Turn an OSError into one line that says what to do."""
    try:
        yield
    except OSError as error:
        full = error.errno in {errno.ENOSPC, errno.EDQUOT}
        advice = "free space there" if full else "check the path and its permissions"
        problem = f"cannot {verb} {path}: {error.strerror or type(error).__name__}"
        raise DgdmnError(f"{problem}; {advice} or choose another directory") from error


def json_bytes(value: Any, indent: int | None = None) -> bytes:
    """A JSON document that ends with a line break."""
    text = json.dumps(_plain(value), ensure_ascii=False, allow_nan=False, indent=indent)
    return text.encode(errors="backslashreplace") + b"\n"  # a lone surrogate as a JSON escape


def npz_bytes(arrays: dict[str, NDArray[Any]]) -> bytes:
    """Arrays as a compressed npz, nothing pickled."""
    for key, array in arrays.items():
        if array.dtype.hasobject:
            advice = "use numbers or strings, pickled data is not supported"
            raise UsageError(f"array {key!r} has dtype object; {advice}")
        if key in {"file", "allow_pickle"}:
            raise UsageError(f"array name {key!r} is reserved by numpy; give it another name")
    content = io.BytesIO()
    np.savez_compressed(content, **arrays)  # type: ignore[arg-type]  # mypy takes ** for allow_pickle
    return content.getvalue()


def read_npz(path: Path, limit: int = MAX_BYTES) -> dict[str, NDArray[Any]]:
    """The arrays of an npz file, nothing unpickled; all sizes are checked before arrays are made.

    Raises a DgdmnError for anything that `npz_bytes` does not write, or that unpacks to more than `limit`.
    """
    content = read_bytes(path, limit)
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = archive.infolist()
            unpacked = sum(member.file_size for member in members)
            if unpacked > limit:
                raise ValueError(f"it unpacks to {unpacked:,} bytes; at most {limit:,} are read")
            return {member.filename[:-4]: _read_npy(archive, member) for member in members}
    except Exception as error:  # the formats of zip and npy have many ways to be wrong
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise DgdmnError(f"{path} is damaged: {reason}; restore it or run it again") from error


def _read_npy(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> NDArray[Any]:
    name = member.filename
    if not name.endswith(".npy") or member.flag_bits & 1:
        raise ValueError(f"{name!r} is encrypted or not an npy array")
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError(f"{name!r} has an unknown compression")
    file = io.BytesIO(archive.read(member))
    if (version := npy.read_magic(file)) != (1, 0):
        raise ValueError(f"{name!r} has npy version {version}; 1.0 is read")
    shape, _, dtype = npy.read_array_header_1_0(file)
    size = len(file.getbuffer()) - file.tell()
    if dtype.hasobject or min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize != size:
        raise ValueError(f"{name!r} has shape {shape} and dtype {dtype} in {size:,} bytes")
    if math.prod(max(1, n) for n in shape) > max(size, _MAX_EMPTY):
        raise ValueError(f"{name!r} has shape {shape} and no content")
    file.seek(0)
    array: NDArray[Any] = npy.read_array(file, allow_pickle=False)
    return array


def _plain(value: Any) -> Any:
    """The value in JSON types: numpy and dataclasses unpacked, NaN and infinities null."""
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist())
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(_plain(key)): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, Path):
        return str(value)
    raise UsageError(f"cannot save {value!r} as JSON; use numbers, text, lists, dicts or arrays")
