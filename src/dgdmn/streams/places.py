"""Where data files may lie on this machine: the cache, then the directory that DGDMN_DATA names."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

CACHE, DATA, MISSING = "cache", "DGDMN_DATA", "missing"


class Copy(NamedTuple):
    """Where a file is: `path` is None and `source` "missing" where it is nowhere."""

    file: str
    path: Path | None
    source: str


def cache_dir() -> Path:
    """Where fetched files are kept: `DGDMN_CACHE`, or the platform's cache directory."""
    if named := os.environ.get("DGDMN_CACHE"):
        return Path(named).expanduser()
    import pooch

    return Path(pooch.os_cache("dgdmn"))


def folders() -> dict[str, Path]:
    """The directories to look in, in this order."""
    found = {CACHE: cache_dir()}
    if named := os.environ.get("DGDMN_DATA"):
        found[DATA] = Path(named).expanduser()
    return found


def copies(dataset: str, names: tuple[str, ...]) -> list[Copy]:
    """Every copy of a file that goes by one of `names`, the one to use first."""
    paths = [(source, folder / dataset / name) for source, folder in folders().items() for name in names]
    return [Copy(f"{dataset}/{path.name}", path, source) for source, path in paths if path.is_file()]


def locate(dataset: str, names: tuple[str, ...]) -> Copy:
    """The copy to use."""
    return next(iter(copies(dataset, names)), Copy(f"{dataset}/{names[0]}", None, MISSING))
