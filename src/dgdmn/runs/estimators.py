"""`dgdmn.run_stream`: runs in Python, of estimators or of their names, on any stream."""

import inspect
import tempfile
from collections.abc import Iterable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from dgdmn.algorithms.estimator import ContinualClassifier
from dgdmn.algorithms.persistence import algorithm_name, qualified_name
from dgdmn.config import DEFAULT_PRESET, default_threads
from dgdmn.config.entries import FIELDS, SET_BY_RUN, parse_entry
from dgdmn.config.registry import algorithm_info
from dgdmn.core.errors import UsageError
from dgdmn.records import RunRecord
from dgdmn.runs.runner import VALIDATION, execute
from dgdmn.runs.spec import RunSpec, is_plain, make_spec
from dgdmn.streams import DataFile, TaskStream

Method = ContinualClassifier | str


def run_stream(
    estimators: Method | Iterable[Method], stream: TaskStream, *, out: str | Path | None = None
) -> list[RunRecord]:
    """Learn a stream with each estimator, test on all tasks after each one, and return a record of each.

    An estimator is an instance, which is copied first, or a string in the syntax of `dgdmn compare`:
    "dgdmn", "er:deep", "slda+features=none". The seed is its `random_state`, else that of the stream.
    With `out`, runs are recorded there as `dgdmn run` does it: a finished one is read, an interrupted one
    continues, and `dgdmn report` reads them. Without it, a record has its matrices, configuration and
    summary, but no events and artifacts. A stream with a validation part is tested on that part.

    >>> from dgdmn import SLDA, run_stream, streams
    >>> record, = run_stream(SLDA(), streams.load("wine")[:2])
    >>> record.accuracy.shape, record.summary["acc"] > 0.9
    ((2, 2), True)
    """
    if not isinstance(stream, TaskStream):
        kind = type(stream).__name__
        raise UsageError(f"stream is a {kind}; make a stream with from_arrays, from_frame or load")
    methods = [estimators] if isinstance(estimators, str | ContinualClassifier) else estimators
    data = DataFile.from_stream(stream)
    specs = [_spec_of(method, stream, data) for method in methods]
    with nullcontext(out) if out is not None else tempfile.TemporaryDirectory() as place:
        return [execute(spec, Path(place), stream=stream, own=own) for spec, own in specs]


def _spec_of(method: Method, stream: TaskStream, data: DataFile) -> tuple[RunSpec, dict[str, Any]]:
    """The run of a method, and the arguments of an instance that are code or arrays."""
    protocol: dict[str, Any] = {
        "evaluate_on": "validation" if stream.validation else "test",
        "threads": default_threads(),
    }
    usual = stream.is_registered and stream.validation in (0, VALIDATION)
    if isinstance(method, str):
        known = None if usual else data
        entry = parse_entry(method, None)
        return make_spec(stream.name, entry, stream.seed, data=known, **protocol), {}
    if not isinstance(method, ContinualClassifier):
        advice = "give one, or a word such as 'er:deep'"
        raise UsageError(f"{method!r} is not a dgdmn estimator; {advice}")
    if (seed := method.random_state) is None:
        seed = stream.seed
    preset = method.preset.partition("/")[0] if isinstance(method.preset, str) else DEFAULT_PRESET
    protocol["threads"] = method.threads or protocol["threads"]
    protocol["device"] = getattr(method, "device", "cpu")
    arguments, own = _own_arguments(method)
    # The seed of a run decides the rows of a stream with a name.
    protocol["data"] = None if usual and seed == stream.seed else data
    name, config = algorithm_name(type(method)), method.resolve_config()
    protocol["together"] = algorithm_info(name).together
    return RunSpec(stream.name, name, preset, config, seed, arguments=arguments, **protocol), own


def _own_arguments(method: ContinualClassifier) -> tuple[dict[str, Any], dict[str, Any]]:
    """Arguments that are not fields of Config and differ from their defaults: plain ones, and others.

    A run records the name of a function or class; of any other value, its type.
    """
    plain, own = dict[str, Any](), dict[str, Any]()
    defaults = inspect.signature(type(method)).parameters
    for key, value in method.get_params(deep=False).items():
        is_field = key in FIELDS and not callable(value)
        if key in SET_BY_RUN or is_field or value is defaults[key].default:
            continue
        if is_plain(value):
            plain[key] = value
            continue
        own[key] = value
        plain[key] = qualified_name(value)
    return {k: v for k, v in plain.items() if k in own or v != defaults[k].default}, own
