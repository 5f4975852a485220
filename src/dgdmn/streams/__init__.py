"""Streams of tasks: the paper's datasets, embedded digits, and your own arrays, frames and files.

>>> from dgdmn.streams import load
>>> load("tdigits").task_names[13]
'3 mirrored'
"""

import inspect
from typing import Any

from dgdmn.config import Config
from dgdmn.config.registry import load_target, stream_info
from dgdmn.core.errors import UsageError, suggestion
from dgdmn.streams.arrays import from_arrays, from_frame
from dgdmn.streams.base import Chunk, Rows, Task, TaskStream
from dgdmn.streams.files import DataFile
from dgdmn.streams.readers import read_arrays

__all__ = [
    "Chunk",
    "DataFile",
    "Rows",
    "Task",
    "TaskStream",
    "from_arrays",
    "from_frame",
    "load",
    "read_arrays",
    "stream_options",
]


def load(name: str, *, seed: int = 0, validation: float = 0.0, **options: Any) -> TaskStream:
    """Return the stream of that name. Its files are found or fetched when a task is indexed."""
    allowed = _options_of(name)
    for option in options:
        if option not in allowed:
            choice = f"its options are {', '.join(allowed)}" if allowed else "it has none"
            hint = suggestion(option, allowed)
            raise UsageError(f"stream {name!r} has no option {option!r}{hint}: {choice}")
    create = load_target(stream_info(name).target)
    stream: TaskStream = create(seed=seed, validation=validation, **options)
    stream.is_registered = not options
    return stream


def stream_options(name: str, config: Config) -> dict[str, Any]:
    """Return the options for `load` that a configuration asks for.

    >>> from dgdmn.config import override, resolve
    >>> stream_options("tdigits", override(resolve("paper", "tdigits"), {"tdigits_classes": 10}))
    {'classes': 10}
    """
    changed = config.tdigits_classes == 10 and "classes" in _options_of(name)
    return {"classes": 10} if changed else {}


def _options_of(name: str) -> list[str]:
    parameters = inspect.signature(load_target(stream_info(name).target)).parameters
    return [option for option in parameters if option not in ("seed", "validation")]
