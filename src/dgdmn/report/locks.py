"""Who writes: the locks that are held on this machine, seen without touching any of them.

A reader that took the lock of a run to see whether it is free, shared and for an instant only, would make a
writer fail that asks at that instant. Linux lists all locks in /proc/locks; reading the list takes none.

The list has no locks of other machines (a network file system) or of processes that this one cannot see (a
container). `dgdmn.report.live` therefore also believes a file that grows.
"""

import os
from pathlib import Path

TABLE = Path("/proc/locks")


def held(table: Path = TABLE) -> frozenset[tuple[int, int]] | None:
    """Device and inode of every file that somebody holds alone by flock; None where there is no list."""
    try:
        lines = table.read_text().splitlines()
    except OSError:
        return None
    return frozenset(lock for line in lines if (lock := _parsed(line)) is not None)


def is_held(lock: os.stat_result, table: frozenset[tuple[int, int]]) -> bool:
    """Whether the file is in the list.

    File systems without a disk of their own (btrfs, overlays) show another device number to the list than
    to stat; both have major number 0, and there the inode decides.
    """
    device = _device(os.major(lock.st_dev), os.minor(lock.st_dev))
    if (device, lock.st_ino) in table:
        return True
    same = [other for other, inode in table if inode == lock.st_ino]
    return os.major(lock.st_dev) == 0 and any(other >> 32 == 0 for other in same)


def _parsed(line: str) -> tuple[int, int] | None:
    """Of a line `1: FLOCK  ADVISORY  WRITE 10759 fe:00:2499205 0 EOF`; those who wait have an arrow."""
    words = line.split()
    if len(words) < 6 or words[1] != "FLOCK" or words[3] != "WRITE":
        return None
    try:
        major, minor, inode = words[5].split(":")
        return _device(int(major, 16), int(minor, 16)), int(inode)
    except ValueError:
        return None


def _device(major: int, minor: int) -> int:
    return major << 32 | minor
