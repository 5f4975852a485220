"""A saved memory: files of arrays named by content, then a manifest. A save is complete or absent.

What is read is not trusted: names, sizes and checksums are checked before bytes become arrays, and nothing
is unpickled.
"""

import hashlib
import json
import re
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load as arrays_from_bytes
from safetensors.numpy import save as bytes_from_arrays

from dgdmn.core.errors import DgdmnError, UsageError
from dgdmn.core.files import LOCK, json_bytes, os_errors, write_atomic
from dgdmn.storage.tree import State, arrays_in, map_arrays, to_numpy

FORMAT = 2
MANIFEST = "manifest.json"
MAX_MANIFEST_BYTES = 64 << 20
_UNFIT = (KeyError, TypeError, ValueError, AttributeError)  # what parsing wrong content may raise
_ARRAY_FILE = re.compile(r"[0-9a-f]{64}\.safetensors")


def write(directory: Path, about: Mapping[str, Any], state: State) -> None:
    """Save a state and what is known about it; an older memory there is replaced."""
    check_place(directory)
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
        file = directory / name
        if file.is_symlink() or not file.is_file() or file.read_bytes() != content:
            write_atomic(file, content)
    places = ({"$array": path, "file": home[path]} for path, _ in arrays_in(state))
    tree = map_arrays(state, lambda _: next(places))  # which meets the arrays in the same order
    manifest = {"format": FORMAT, **about, "state": tree, "files": files}
    manifest["sha256"] = _digest(manifest)
    write_atomic(directory / MANIFEST, json_bytes(manifest, indent=1))
    for old in directory.glob("*.safetensors"):
        if _ARRAY_FILE.fullmatch(old.name) and old.name not in files:
            with suppress(OSError):  # an extra file does no harm
                old.unlink()


def read(directory: Path) -> tuple[dict[str, Any], State]:
    """Read what `write` saved: what is known about the state, and the state with numpy arrays.

    Takes at most about three times the files' bytes of memory, and twenty times the manifest's.
    """
    manifest = _manifest(directory)
    arrays: dict[str, NDArray[Any]] = {}
    try:
        files, state = dict(manifest.pop("files")), manifest.pop("state")
        for name, size in files.items():
            arrays.update(_arrays(directory, name, size))
        state = _with_arrays(state, arrays)
    except (RecursionError, *_UNFIT) as error:
        raise _damaged(directory / MANIFEST, f"it does not fit its files ({error})") from error
    if not isinstance(state, dict) or arrays:
        raise _damaged(directory / MANIFEST, "it does not fit its files")
    return manifest, state


def read_about(directory: Path) -> dict[str, Any]:
    """Read what is known about a saved state, without the state."""
    manifest = _manifest(directory)
    return {key: value for key, value in manifest.items() if key not in ("state", "files")}


def holds_memory(directory: Path) -> bool:
    """Whether a memory is saved there."""
    return (directory / MANIFEST).is_file()


def check_place(directory: Path) -> None:
    """Refuse to save where other files are."""
    if directory.exists() and not directory.is_dir():
        raise UsageError(f"{directory} is a file; a memory is saved as a directory")
    if directory.is_dir() and not holds_memory(directory):
        foreign = sorted(path.name for path in directory.iterdir() if not _ours(path.name))
        if foreign:
            raise UsageError(
                f"{directory} holds {foreign[0]!r} and no memory; choose an empty directory"
            )


def discard(directory: Path) -> None:
    """Remove what an interrupted save left, and the directory if nothing else is in it."""
    with suppress(OSError):  # the error that interrupted the save is reported instead
        for path in directory.iterdir():
            if _ours(path.name):
                path.unlink()
        directory.rmdir()


def _ours(name: str) -> bool:
    """Whether an interrupted save may have left this file, or it is the lock."""
    final = name.removeprefix(".").removesuffix(".tmp")
    return name in (f".{MANIFEST}.tmp", LOCK) or bool(_ARRAY_FILE.fullmatch(final))


def _group(path: str) -> str:
    """One file per part of the state, so that unchanged parts are not written again."""
    parts = path.split("/")
    return "/".join(parts[:2] if len(parts) > 2 and parts[1].isdigit() else parts[:1])


def _digest(manifest: Mapping[str, Any]) -> str:
    """Checksum of a manifest without its own."""
    plain = {key: value for key, value in manifest.items() if key != "sha256"}
    text = json.dumps(json.loads(json_bytes(plain)), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _with_arrays(tree: Any, arrays: dict[str, NDArray[Any]]) -> Any:
    """The tree with its arrays. Each is used once, so that no small file can stand for a large state."""
    if isinstance(tree, dict):
        if "$array" in tree:
            return arrays.pop(f"{tree['file']}:{tree['$array']}")
        return {key: _with_arrays(child, arrays) for key, child in tree.items()}
    if isinstance(tree, list):
        return [_with_arrays(child, arrays) for child in tree]
    return tree


def _manifest(directory: Path) -> dict[str, Any]:
    path = directory / MANIFEST
    with os_errors("read", path):
        if not path.exists():
            raise DgdmnError(f"{directory} holds no memory: there is no {MANIFEST} in it")
    content = _content(path, MAX_MANIFEST_BYTES)
    try:
        manifest = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise _damaged(path, str(error)) from error
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


def _arrays(directory: Path, name: Any, size: Any) -> dict[str, NDArray[Any]]:
    """The arrays of one file, by file and path."""
    if not isinstance(name, str) or not _ARRAY_FILE.fullmatch(name) or not isinstance(size, int):
        raise _damaged(directory / MANIFEST, f"{name!r} is not the name of an array file")
    path = directory / name
    if not path.exists() and not path.is_symlink():
        raise DgdmnError(f"{path} is missing; restore it from a copy")
    content = _content(path, size)
    if len(content) != size or hashlib.sha256(content).hexdigest() != path.stem:
        raise _damaged(path, "its checksum is wrong")
    try:
        arrays = arrays_from_bytes(content)
    except (SafetensorError, RuntimeError, *_UNFIT) as error:
        raise _damaged(path, str(error)) from error
    # Copies: views into the file's buffer are unaligned, and sums over them differ in the last bit.
    return {f"{name}:{key}": np.array(array) for key, array in arrays.items()}


def _content(path: Path, limit: int) -> bytes:
    """The bytes of a regular file; a link, a device or a larger file is refused unread."""
    with os_errors("read", path):
        found = path.lstat()
        if not stat.S_ISREG(found.st_mode):
            raise DgdmnError(f"{path} is not a regular file; a memory contains no links")
        if found.st_size > limit:
            raise _damaged(path, f"it has {found.st_size} bytes, expected {limit} at most")
        return path.read_bytes()


def _damaged(path: Path, why: str) -> DgdmnError:
    return DgdmnError(f"{path} is damaged: {why}; restore it from a copy")
