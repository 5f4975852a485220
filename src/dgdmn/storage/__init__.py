"""A memory's state as plain values, and as a directory on disk."""

from dgdmn.storage.checks import check_class_indices, get_int, get_typed
from dgdmn.storage.directory import check_place, discard, holds_memory, read, write
from dgdmn.storage.tree import State, arrays_in, bytes_in, map_arrays, to_numpy

__all__ = ["check_place", "discard", "holds_memory", "read", "write"]
__all__ += ["State", "arrays_in", "bytes_in", "map_arrays", "to_numpy"]
__all__ += ["check_class_indices", "get_int", "get_typed"]
