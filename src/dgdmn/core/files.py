"""Files: atomic writes, JSON, directory locks, and one-line errors for what the system refuses."""

import dataclasses
import errno
import io
import json
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import filelock
import numpy as np
from numpy.typing import NDArray

from dgdmn.core.errors import DgdmnError, UsageError

LOCK = ".lock"


def append_bytes(path: Path, content: bytes, *, durable: bool) -> None:
    """Append to a file, or leave it as it was."""
    with os_errors("write", path):
        size = path.stat().st_size if path.exists() else None
    try:
        with os_errors("write", path), path.open("ab") as file:
            file.write(content)
            file.flush()
            if durable:
                os.fsync(file.fileno())
    except DgdmnError:
        # A partial line would corrupt the next one.
        with suppress(OSError):
            path.unlink(missing_ok=True) if size is None else os.truncate(path, size)
        raise


def write_atomic(path: Path, content: bytes) -> None:
    """Write a file completely or not at all: to a temporary file, then rename."""
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        with os_errors("write", path):
            with temporary.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
            _sync_directory(path.parent)
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def _sync_directory(directory: Path) -> None:
    if os.name != "posix":  # elsewhere a directory cannot be opened
        return
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON file that holds an object."""
    with os_errors("read", path):
        content = path.read_bytes()
    try:
        value = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise DgdmnError(f"{path} is damaged: {error}; restore it or run it again") from error
    if not isinstance(value, dict):
        raise DgdmnError(f"{path} is damaged: it is not a JSON object; restore it or run it again")
    return value


@contextmanager
def directory_lock(directory: Path) -> Iterator[None]:
    """Hold a directory for writing; refuse if another process does. The lock ends with its process."""
    with os_errors("write", directory):
        directory.mkdir(parents=True, exist_ok=True)
        lock = filelock.FileLock(directory / LOCK, timeout=0)
        try:
            lock.acquire()
        except filelock.Timeout as error:
            raise DgdmnError(
                f"{directory} is in use by another process; wait until it ends, or stop it"
            ) from error
    try:
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
        reason = error.strerror or type(error).__name__
        raise DgdmnError(
            f"cannot {verb} {path}: {reason}; {advice} or choose another directory"
        ) from error


def json_bytes(value: Any, indent: int | None = None) -> bytes:
    """A JSON document that ends with a line break."""
    text = json.dumps(_plain(value), ensure_ascii=False, allow_nan=False, indent=indent)
    return text.encode(errors="backslashreplace") + b"\n"  # a lone surrogate as a JSON escape


def npz_bytes(arrays: dict[str, NDArray[Any]]) -> bytes:
    """Arrays as a compressed npz, nothing pickled."""
    for key, array in arrays.items():
        if array.dtype.hasobject:
            raise UsageError(
                f"array {key!r} has dtype object; use numbers or strings, pickled data is not supported"
            )
        if key in {"file", "allow_pickle"}:
            raise UsageError(f"array name {key!r} is reserved by numpy; give it another name")
    content = io.BytesIO()
    np.savez_compressed(content, **arrays)  # type: ignore[arg-type]  # mypy takes ** for allow_pickle
    return content.getvalue()


def _plain(value: Any) -> Any:
    """The value in JSON types: numpy and dataclasses unpacked, NaN and infinities null."""
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist())
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)
        }
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
