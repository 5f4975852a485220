"""A memory's state as plain values, and as a directory on disk."""

from dgdmn.storage.directory import (
    FORMAT,
    check_place,
    discard,
    holds_memory,
    read,
    read_about,
    write,
)
from dgdmn.storage.tree import State, arrays_in, bytes_in, map_arrays, to_numpy

__all__ = [
    "FORMAT",
    "State",
    "arrays_in",
    "bytes_in",
    "check_place",
    "discard",
    "holds_memory",
    "map_arrays",
    "read",
    "read_about",
    "to_numpy",
    "write",
]
