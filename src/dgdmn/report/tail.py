"""The end of a file that grows: events as they come, however long the file is."""

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

Events = list[dict[str, Any]]

WINDOW = 1 << 14
"""Bytes read at first, from the end."""
LIMIT = 1 << 24
"""Bytes read at most: beyond, what is looked for counts as absent."""
_MARK = 256


class Tail:
    """Reads events.jsonl from its end; what was read once is not read again."""

    def __init__(self, path: Path, enough: Callable[[Events], bool]) -> None:
        """`enough` says whether the events at the end tell all that is needed; if not, more are read."""
        self._path, self._enough = path, enough
        self._offset, self._mark = 0, b""

    def news(self) -> tuple[bool, Events]:
        """Whether this is a beginning, and the whole lines since the last look; a torn line has to wait.

        It begins anew where the last line read is no longer in its place: the file was replaced or cut.
        """
        descriptor = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK)  # a fifo must not hold us up
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise OSError(f"{self._path.name} is not a file")
            return self._continued(descriptor, status.st_size) or (
                True,
                self._begun(descriptor, status.st_size),
            )
        finally:
            os.close(descriptor)

    def _continued(self, descriptor: int, size: int) -> tuple[bool, Events] | None:
        if not self._mark or not self._offset <= size <= self._offset + LIMIT:
            return None
        since = self._offset - len(self._mark)
        content = os.pread(descriptor, size - since, since)
        if not content.startswith(self._mark):
            return None
        return False, self._taken(self._offset, content[len(self._mark) :])

    def _begun(self, descriptor: int, size: int) -> Events:
        window = WINDOW
        while True:
            start = max(0, size - window)
            content = os.pread(descriptor, size - start, start)
            cut = content.find(b"\n") + 1 if start else 0  # the first line may lack its beginning
            self._mark = b""
            events = self._taken(start + cut, content[cut:])
            if not start or window >= LIMIT or self._enough(events):
                return events
            window *= 4

    def _taken(self, start: int, content: bytes) -> Events:
        whole = content[: content.rfind(b"\n") + 1]
        self._offset = start + len(whole)
        self._mark = whole[-_MARK:] or self._mark
        return [event for line in whole.splitlines() if (event := _parsed(line)) is not None]


def _parsed(line: bytes) -> dict[str, Any] | None:
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return event if isinstance(event, dict) else None
