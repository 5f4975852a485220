"""Which code made a run."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

import dgdmn

_SHOWS_ONLY = ("report", "cli")
"""Rooms that change no number."""


@cache
def checksum(package: Path = Path(dgdmn.__file__).parent) -> str:
    """A checksum of the Python files that a run's numbers may depend on; the version alone does not tell them apart."""
    files = sorted(path.relative_to(package) for path in package.rglob("*.py"))
    digest = hashlib.sha256()
    for path in files:
        if path.parts[0] not in _SHOWS_ONLY:
            content = (package / path).read_bytes()
            digest.update(f"{path.as_posix()} {len(content)}\n".encode() + content)
    return digest.hexdigest()[:12]
