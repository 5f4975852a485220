"""Two writers never share a run directory: a lock that dies with its process."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dgdmn.disk import os_errors
from dgdmn.errors import DgdmnError


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Hold a run directory; refuse if another process does."""
    with os_errors("write", directory):
        directory.mkdir(parents=True, exist_ok=True)
        file = (directory / ".lock").open("w")
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise DgdmnError(
                f"{directory} is being written by another process; wait for it, or stop it"
            ) from error
        yield
