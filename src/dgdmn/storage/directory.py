"""A saved memory: content-named tensor files written first, the manifest replaced last. Complete or absent.

Nothing on the way in is trusted: names, sizes and checksums are looked at before a byte is taken for a
tensor, and nothing is ever unpickled.
"""

from __future__ import annotations

import hashlib
import json
import re
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load as tensors_from_bytes
from safetensors.torch import save as bytes_from_tensors
from torch import Tensor

from dgdmn.disk import json_bytes, os_errors, replace
from dgdmn.errors import DgdmnError, UsageError
from dgdmn.storage.tree import State, tensors_in

FORMAT = 1
"""What this version writes. Readers of every format from 1 on stay."""
MANIFEST = "manifest.json"
LARGEST_MANIFEST = 64 << 20
"""A manifest is text about tensors; one of more bytes than this is none."""
_TENSOR_FILE = re.compile(r"[0-9a-f]{64}\.safetensors")


def write(directory: Path, about: Mapping[str, Any], state: State) -> None:
    """Save a state and what is known about it; an older memory there is replaced by a whole new one."""
    check_place(directory)
    groups: dict[str, dict[str, Tensor]] = {}
    for path, tensor in tensors_in(state):
        group = groups.setdefault(_group(path), {})
        if path in group:
            raise UsageError(f"two tensors of the state are called {path!r}; rename one of them")
        group[path] = tensor.detach().cpu().contiguous().clone()
    home: dict[str, str] = {}
    files: dict[str, int] = {}
    with os_errors("write", directory):
        directory.mkdir(parents=True, exist_ok=True)
    for tensors in groups.values():
        content = bytes_from_tensors(tensors)
        name = f"{hashlib.sha256(content).hexdigest()}.safetensors"
        home.update(dict.fromkeys(tensors, name))
        files[name] = len(content)
        if not _holds(directory / name, content):
            replace(directory / name, content)
    manifest = {"format": FORMAT, **about, "state": _without_tensors(state, home), "files": files}
    replace(directory / MANIFEST, json_bytes({**manifest, "sha256": _digest(manifest)}, indent=1))
    for old in directory.glob("*.safetensors"):
        if _TENSOR_FILE.fullmatch(old.name) and old.name not in files:
            with suppress(OSError):  # a file too many does no harm
                old.unlink()


def read(directory: Path) -> tuple[dict[str, Any], State]:
    """What `write` saved: all that is known about the state, and the state.

    Takes at most about three times the files' bytes of memory, and twenty times the manifest's.
    """
    manifest = _manifest(directory)
    tensors = {}
    try:
        files, state = dict(manifest.pop("files")), manifest.pop("state")
        for name, size in files.items():
            tensors.update(_tensors(directory, name, size))
        state = _with_tensors(state, tensors)
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise _damaged(directory / MANIFEST, f"it does not fit its files ({error})") from error
    if not isinstance(state, dict) or tensors:
        raise _damaged(directory / MANIFEST, "it does not fit its files")
    return manifest, state


def read_about(directory: Path) -> dict[str, Any]:
    """What is known about a saved state, without the state."""
    manifest = _manifest(directory)
    return {key: value for key, value in manifest.items() if key not in ("state", "files")}


def holds_memory(directory: Path) -> bool:
    """Whether a memory was saved there."""
    return (directory / MANIFEST).is_file()


def check_place(directory: Path) -> None:
    """Refuse to save where something else is."""
    if directory.exists() and not directory.is_dir():
        raise UsageError(f"{directory} is a file; a memory is saved as a directory")
    if directory.is_dir() and not holds_memory(directory):
        strangers = [path.name for path in directory.iterdir() if not _ours(path.name)]
        if strangers:
            raise UsageError(
                f"{directory} holds {sorted(strangers)[0]!r} and no memory; choose an empty directory"
            )


def discard(directory: Path) -> None:
    """Remove what a save that was cut short has left, and the directory if nothing else is in it."""
    with suppress(OSError):  # the error that cut it short is the one to tell
        for path in directory.iterdir():
            if _ours(path.name):
                path.unlink()
        directory.rmdir()


def _ours(name: str) -> bool:
    """What a save that was cut short may have left, and the lock."""
    return bool(_TENSOR_FILE.fullmatch(name.removeprefix(".").removesuffix(".tmp"))) or name in (
        f".{MANIFEST}.tmp",
        ".lock",
    )


def _group(path: str) -> str:
    """One file for each part of the state, so that what did not change since the last save is not written again."""
    parts = path.split("/")
    return "/".join(parts[:2] if len(parts) > 2 and parts[1].isdigit() else parts[:1])


def _holds(path: Path, content: bytes) -> bool:
    return path.is_file() and not path.is_symlink() and path.read_bytes() == content


def _digest(manifest: Mapping[str, Any]) -> str:
    """Checksum of a manifest without its own."""
    plain = {key: value for key, value in manifest.items() if key != "sha256"}
    return hashlib.sha256(json.dumps(json.loads(json_bytes(plain)), sort_keys=True).encode()).hexdigest()


def _without_tensors(state: Any, home: Mapping[str, str], path: str = "") -> Any:
    """The tree with the name of its file in the place of each tensor."""
    if isinstance(state, Tensor):
        return {"$tensor": path, "file": home[path]}
    if isinstance(state, dict):
        return {
            key: _without_tensors(child, home, f"{path}/{key}".lstrip("/")) for key, child in state.items()
        }
    if isinstance(state, list):
        return [_without_tensors(child, home, f"{path}/{index}") for index, child in enumerate(state)]
    return state


def _with_tensors(tree: Any, tensors: dict[str, Tensor]) -> Any:
    """The tree with its tensors back; each is used once, so that no small file can stand for a large state."""
    if isinstance(tree, dict) and "$tensor" in tree:
        return tensors.pop(f"{tree['file']}:{tree['$tensor']}")
    if isinstance(tree, dict):
        return {key: _with_tensors(child, tensors) for key, child in tree.items()}
    if isinstance(tree, list):
        return [_with_tensors(child, tensors) for child in tree]
    return tree


def _manifest(directory: Path) -> dict[str, Any]:
    path = directory / MANIFEST
    with os_errors("read", path):
        found = path.exists()
    if not found:
        raise DgdmnError(f"{directory} holds no memory: there is no {MANIFEST} in it")
    content = _content(path, LARGEST_MANIFEST)
    try:
        manifest = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise _damaged(path, str(error)) from error
    if not isinstance(manifest, dict) or not isinstance(manifest.get("format"), int):
        raise _damaged(path, "it names no format")
    if manifest["format"] > FORMAT:
        raise DgdmnError(
            f"{directory} was saved in format {manifest['format']} by a newer dgdmn; this one reads formats "
            f"up to {FORMAT}: upgrade dgdmn"
        )
    try:
        right = manifest.pop("sha256", None) == _digest(manifest)
    except (RecursionError, UsageError) as error:
        raise _damaged(path, str(error)) from error
    if manifest["format"] < 1 or not right:
        raise _damaged(path, "its checksum is wrong")
    return manifest


def _tensors(directory: Path, name: Any, size: Any) -> dict[str, Tensor]:
    """The tensors of one file, by file and path."""
    if not isinstance(name, str) or not _TENSOR_FILE.fullmatch(name) or not isinstance(size, int):
        raise _damaged(directory / MANIFEST, f"{name!r} is no name of a tensor file")
    path = directory / name
    if not path.exists() and not path.is_symlink():
        raise DgdmnError(f"{path} is missing; restore it from a copy")
    content = _content(path, size)
    if len(content) != size or hashlib.sha256(content).hexdigest() != path.stem:
        raise _damaged(path, "its checksum is wrong")
    try:
        tensors = tensors_from_bytes(content)
    except (SafetensorError, ValueError, KeyError, TypeError, RuntimeError, AttributeError) as error:
        raise _damaged(path, str(error)) from error
    # Copies: what is read from a buffer lies where it lies, and sums over unaligned rows differ in the last bit.
    return {f"{name}:{key}": tensor.clone() for key, tensor in tensors.items()}


def _content(path: Path, limit: int) -> bytes:
    """A plain file's bytes; a link, a device or more bytes than the limit are refused unread."""
    with os_errors("read", path):
        found = path.lstat()
        if not stat.S_ISREG(found.st_mode):
            raise DgdmnError(f"{path} is no plain file; a memory's files are never links")
        if found.st_size > limit:
            raise _damaged(path, f"it has {found.st_size} bytes, expected {limit} at most")
        return path.read_bytes()


def _damaged(path: Path, why: str) -> DgdmnError:
    return DgdmnError(f"{path} is damaged: {why}; restore it from a copy")
