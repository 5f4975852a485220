"""Appendix B as data: the one home of every hyper-parameter (no torch in here)."""

from dgdmn.presets.arrays import ARRAYS
from dgdmn.presets.best import BEST_ARRAYS
from dgdmn.presets.fields import Preset
from dgdmn.presets.lookup import (
    PRESETS,
    as_dict,
    field_docs,
    idle,
    overridden,
    preset,
    sources_of,
    stream_options,
)
from dgdmn.presets.paper import PAPER, WHENCE

__all__ = [
    "ARRAYS",
    "BEST_ARRAYS",
    "PAPER",
    "PRESETS",
    "WHENCE",
    "Preset",
    "as_dict",
    "field_docs",
    "idle",
    "overridden",
    "preset",
    "sources_of",
    "stream_options",
]
