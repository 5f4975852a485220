"""Where tasks come from: the paper's datasets, embedded digits, and anyone's own arrays.

>>> from dgdmn.streams import load
>>> load("tdigits").task_names[13]
'3 mirrored'
"""

from __future__ import annotations

import importlib
import inspect
from typing import Any

from dgdmn.errors import UsageError, suggestion
from dgdmn.streams.arrays import from_arrays
from dgdmn.streams.reading import read_arrays
from dgdmn.streams.task import Rows, Task, TaskStream

STREAMS = ("digits", "tdigits", "permnist", "shapes", "hindi", "split-digits", "embedded")

__all__ = ["STREAMS", "Rows", "Task", "TaskStream", "from_arrays", "load", "read_arrays"]


def load(name: str, *, seed: int = 0, validation: float = 0.0, **options: Any) -> TaskStream:
    """The stream of that name; pixels are looked for, and fetched if need be, when a task is indexed."""
    if name not in STREAMS:
        meant = suggestion(name, STREAMS)
        raise UsageError(f"unknown stream {name!r}{meant}: choose from {', '.join(STREAMS)}")
    stream = importlib.import_module(f"dgdmn.streams.{name.replace('-', '_')}").stream
    allowed = [
        option for option in inspect.signature(stream).parameters if option not in ("seed", "validation")
    ]
    for option in options:
        if option not in allowed:
            choice = f"its options are {', '.join(allowed)}" if allowed else "it has none"
            meant = suggestion(option, allowed)
            raise UsageError(f"stream {name!r} has no option {option!r}{meant}: {choice}")
    result: TaskStream = stream(seed=seed, validation=validation, **options)
    return result
