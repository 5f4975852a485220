"""What a memory has learnt as plain values, and as a directory on disk."""

from dgdmn.storage.directory import FORMAT, check_place, discard, holds_memory, read, read_about, write
from dgdmn.storage.tree import State, bytes_in, tensors_in

__all__ = [
    "FORMAT",
    "State",
    "bytes_in",
    "check_place",
    "discard",
    "holds_memory",
    "read",
    "read_about",
    "tensors_in",
    "write",
]
