"""A saved memory: files of arrays named by content, then a manifest. A save is complete or absent.

What is read is not trusted: names, sizes and checksums are checked before bytes become arrays, and nothing
is unpickled.
"""

import hashlib
import json
import math
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load as arrays_from_bytes
from safetensors.numpy import save as bytes_from_arrays

from dgdmn.core.errors import DgdmnError, UsageError
from dgdmn.core.files import LOCK, json_bytes, open_regular, os_errors, write_atomic
from dgdmn.core.text import printable, shorten
from dgdmn.storage.tree import State, arrays_in, map_arrays, to_numpy

FORMAT = 2
MANIFEST = "manifest.json"
MAX_MANIFEST_BYTES = 16 << 20
ATTEMPTS = 20
"""How often `read` starts again because a saver replaced what it was reading."""
_PARSE_ERRORS = (KeyError, TypeError, ValueError, AttributeError)
"""What parsing wrong content may raise."""
_ARRAY_FILE = re.compile(r"[0-9a-f]{64}\.safetensors")
_TEMPORARY = re.compile(r"\.(manifest\.json|[0-9a-f]{64}\.safetensors)(\.[0-9a-f]{16})?\.tmp")


def write(directory: Path, about: Mapping[str, Any], state: State) -> None:
    """Save a state and what is known about it; an older memory there is replaced.

    Nothing outside of the directory is written or removed: links are replaced, a linked directory is refused.
    """
    check_place(directory)
    _refuse_link(directory)
    groups: dict[str, dict[str, NDArray[Any]]] = {}
    for path, array in arrays_in(state):
        group = groups.setdefault(_group(path), {})
        if path in group:
            raise UsageError(f"two arrays of the state are called {path!r}; rename one of them")
        group[path] = to_numpy(array)
    home, files = {}, {}
    with os_errors("write", directory):
        directory.mkdir(parents=True, exist_ok=True)
    for arrays in groups.values():
        content = bytes_from_arrays(arrays)
        name = f"{hashlib.sha256(content).hexdigest()}.safetensors"
        home.update(dict.fromkeys(arrays, name))
        files[name] = len(content)
        if not _has_content(directory / name, content):
            write_atomic(directory / name, content)
    places = ({"$array": path, "file": home[path]} for path, _ in arrays_in(state))
    tree = map_arrays(state, lambda _: next(places))  # it visits arrays in the same order
    manifest = {"format": FORMAT, **about, "state": tree, "files": files}
    plain = json.loads(json_bytes(manifest))
    text = json_bytes({**manifest, "sha256": _digest(plain)}, indent=1)
    if len(text) > MAX_MANIFEST_BYTES:
        raise UsageError(
            f"{directory / MANIFEST} would have {len(text):,} bytes, and at most {MAX_MANIFEST_BYTES:,} "
            "are read; use fewer tasks, labels or notes"
        )
    write_atomic(directory / MANIFEST, text)
    for old in directory.iterdir():
        if _is_own_file(old.name) and old.name not in (LOCK, *files):
            with suppress(OSError):  # an extra file does no harm
                old.unlink()


def read(directory: Path) -> tuple[dict[str, Any], State]:
    """Read what `write` saved: what is known about the state, and the state with numpy arrays.

    Takes at most about three times the files' bytes of memory, and twenty times the manifest's. If a file is
    missing or damaged because a saver has replaced the memory meanwhile, reading starts again.
    """
    _refuse_link(directory)
    manifest = _read_manifest(directory)
    for _ in range(ATTEMPTS):
        try:
            return _read_arrays(directory, dict(manifest))
        except DgdmnError:
            latest = _read_manifest(directory)
            if latest == manifest:
                raise
            manifest = latest
    return _read_arrays(directory, manifest)


def _read_arrays(directory: Path, manifest: dict[str, Any]) -> tuple[dict[str, Any], State]:
    arrays: dict[str, NDArray[Any]] = {}
    try:
        files, state = dict(manifest.pop("files")), manifest.pop("state")
        for name, size in files.items():
            arrays.update(_read_array_file(directory, name, size))
        state = _with_arrays(state, arrays)
    except (RecursionError, *_PARSE_ERRORS) as error:
        raise _damaged(directory / MANIFEST, f"it does not fit its files ({error})") from error
    if not isinstance(state, dict) or arrays:
        raise _damaged(directory / MANIFEST, "it does not fit its files")
    return manifest, state


def holds_memory(directory: Path) -> bool:
    """Whether a memory is saved there; a linked manifest does not count."""
    path = directory / MANIFEST
    return path.is_file() and not path.is_symlink()


def check_place(directory: Path) -> None:
    """Refuse to save where other files are, among them the manifest of another program."""
    if directory.exists() and not directory.is_dir():
        raise UsageError(f"{directory} is a file; a memory is saved as a directory")
    # Listed first: another process may save its first manifest meanwhile.
    foreign = sorted(path.name for path in directory.glob("*") if not _is_own_file(path.name))
    if holds_memory(directory):
        with suppress(DgdmnError, AttributeError):
            if _parse(directory / MANIFEST).keys() >= {"format", "state", "files", "sha256"}:
                return
    if foreign:
        raise UsageError(f"{directory} holds {foreign[0]!r} and no memory; use an empty directory")


def discard(directory: Path, *parents: Path) -> None:
    """Remove files of an interrupted save, then directories that are empty. Links are not followed."""
    if directory.is_symlink():
        return
    with suppress(OSError):  # the error that interrupted the save is reported instead
        for path in directory.iterdir():
            if _is_own_file(path.name):
                path.unlink()
        for empty in (directory, *parents):
            empty.rmdir()


def _is_own_file(name: str) -> bool:
    """Whether an interrupted save may have left this file, or it is the lock."""
    return name == LOCK or bool(_ARRAY_FILE.fullmatch(name) or _TEMPORARY.fullmatch(name))


def _refuse_link(directory: Path) -> None:
    """Refuse a symbolic link. Links that a user names are resolved by `load` and `save` first."""
    if directory.is_symlink():
        raise DgdmnError(f"{directory} is a link, not a directory; remove it")


def _has_content(path: Path, content: bytes) -> bool:
    """Whether a regular file has this content."""
    with suppress(DgdmnError), _open(path) as (file, size):
        return size == len(content) and file.read() == content
    return False


def _group(path: str) -> str:
    """One file per part of the state, so that unchanged parts are not written again."""
    parts = path.split("/")
    return "/".join(parts[:2] if len(parts) > 2 and parts[1].isdigit() else parts[:1])


def _digest(manifest: Mapping[str, Any]) -> str:
    """Checksum of a manifest of plain JSON values, without its own."""
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()


def _with_arrays(tree: Any, arrays: dict[str, NDArray[Any]]) -> Any:
    """The tree with its arrays. Each is used once, so that no small file can stand for a large state."""
    if isinstance(tree, dict):
        if "$array" in tree:
            return arrays.pop(f"{tree['file']}:{tree['$array']}")
        return {key: _with_arrays(child, arrays) for key, child in tree.items()}
    if isinstance(tree, list):
        return [_with_arrays(child, arrays) for child in tree]
    return tree


def _read_manifest(directory: Path) -> dict[str, Any]:
    path = directory / MANIFEST
    with os_errors("read", path):
        if not path.exists() and not path.is_symlink():
            raise DgdmnError(f"{directory} holds no memory: there is no {MANIFEST} in it")
    manifest = _parse(path)
    if not isinstance(manifest, dict) or not isinstance(manifest.get("format"), int):
        raise _damaged(path, "it has no format number")
    if manifest["format"] != FORMAT:
        raise DgdmnError(
            f"{directory} was saved in format {manifest['format']}; this version reads format {FORMAT}, "
            "so load it with the version that saved it"
        )
    try:
        if manifest.pop("sha256", None) != _digest(manifest):
            raise _damaged(path, "its checksum is wrong")
    except (RecursionError, UsageError) as error:
        raise _damaged(path, str(error)) from error
    return manifest


def _parse(path: Path) -> Any:
    """The JSON value in a manifest."""
    with _open(path) as (file, size):
        if size > MAX_MANIFEST_BYTES:
            raise _damaged(path, f"it has {size:,} bytes, expected {MAX_MANIFEST_BYTES:,} at most")
        content = file.read(size)
    try:
        return json.loads(content, parse_constant=_parse_finite, parse_float=_parse_finite)
    except (ValueError, RecursionError) as error:
        raise _damaged(path, str(error)) from error


def _read_array_file(directory: Path, name: Any, size: Any) -> dict[str, NDArray[Any]]:
    """The arrays of one file, by file and path. It is read only if its size and checksum are right."""
    if not isinstance(name, str) or not _ARRAY_FILE.fullmatch(name) or not isinstance(size, int):
        raise _damaged(directory / MANIFEST, f"{name!r} is not the name of an array file")
    path = directory / name
    try:
        with _open(path) as (file, found):
            if found != size:
                raise _damaged(path, f"it has {found:,} bytes, expected {size:,}")
            if not 0 < int.from_bytes(file.read(8), "little") < size:
                raise _damaged(path, "its header is wrong")
            file.seek(0)
            if hashlib.file_digest(file, "sha256").hexdigest() != path.stem:
                raise _damaged(path, "its checksum is wrong")
            file.seek(0)
            arrays = arrays_from_bytes(file.read(size))
        # Copies: views into the file's buffer are unaligned, and sums over them differ in the last bit.
        return {f"{name}:{key}": np.array(array) for key, array in arrays.items()}
    except (SafetensorError, RuntimeError, *_PARSE_ERRORS) as error:
        raise _damaged(path, str(error)) from error
    except MemoryError as error:
        raise DgdmnError(f"{path} has {size:,} bytes; load it with more memory") from error


def _parse_finite(text: str) -> float:
    if not math.isfinite(number := float(text)):
        raise ValueError(f"{text} is not a finite number")
    return number


@contextmanager
def _open(path: Path) -> Iterator[tuple[Any, int]]:
    """A regular file, open for reading, and its size; a link or a pipe is refused without being read."""
    if not os.path.lexists(path):
        raise DgdmnError(f"{path} is missing; restore it from a copy")
    with open_regular(path, follow_link=False) as file:
        yield file, os.fstat(file.fileno()).st_size


def _damaged(path: Path, why: str) -> DgdmnError:
    return DgdmnError(f"{path} is damaged: {printable(shorten(why, 200))}; restore it from a copy")
