"""An estimator as a directory: what it was made with, and what it has learned."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dgdmn import __version__
from dgdmn.algorithms.checks import check_labels, check_priors
from dgdmn.algorithms.fitted import FittedState
from dgdmn.config import Config, override, to_dict
from dgdmn.config.registry import ALGORITHMS, REFERENCES, algorithm_info, load_target
from dgdmn.core.errors import DgdmnError, UsageError
from dgdmn.core.files import directory_lock, os_errors
from dgdmn.core.rng import SeedStream
from dgdmn.core.table import Columns
from dgdmn.core.text import printable, shorten
from dgdmn.memory.dual import DualMemory
from dgdmn.storage import State, arrays_in, check_place, read, write
from dgdmn.storage.checks import MAX_TASKS, get_int, get_typed

if TYPE_CHECKING:
    from dgdmn.algorithms.estimator import ContinualClassifier

OWN_PARTS = ("generator", "learner", "memory", "features")
"""Parameters that are code: they are passed again to `load`."""
_LOCAL = ("callback", "device", "threads")
"""Parameters of the process that uses a memory; they are not saved."""
SAVE_TIMEOUT = 60.0
"""Seconds to wait for another saver."""
MAX_FEATURES = 10**9
"""Most values of one input."""
MAX_TRIED = 10**8
"""Larger activations are not checked on load."""
MAX_SEED = 2**64 - 1


def save(model: ContinualClassifier, path: Path, notes: Mapping[str, Any] | None = None) -> None:
    """Save a fitted estimator as a directory, with a caller's notes beside it.

    Savers to the same place wait for each other; the last complete save wins.
    """
    if not algorithm_info(algorithm_name(type(model))).saved:
        name = type(model).__name__
        raise UsageError(f"{name} cannot be saved; it is only for `dgdmn compare`")
    about, state = describe(model)
    path = _real(path)
    check_place(path)
    with directory_lock(path, wait=SAVE_TIMEOUT):
        write(path, about if notes is None else {**about, "notes": notes}, state)


def load(path: str | Path, *, device: str = "cpu", **own: Any) -> ContinualClassifier:
    """Load a saved estimator: it predicts the same bits and continues learning as it would have.

    Pass `generator=`, `learner=` or `memory=` again if it was made with your own, `algorithm=` if its class is
    not registered, and `threads=` or `callback=` as you like.
    """
    return load_with_notes(path, device=device, **own)[0]


def load_with_notes(path: str | Path, **own: Any) -> tuple[ContinualClassifier, Any]:
    """A saved estimator and the notes of the same save; None where there are none."""
    if own.get("device", "cpu") != "cpu":
        from dgdmn.networks.runtime import check_device

        check_device(own["device"])
    about, state = read(_real(Path(path)))
    _check_own(Path(path), about, own)
    try:
        model = _check_prediction(restore_model(about, state, **own))
        return model, about.get("notes")
    except Exception as error:  # any failure here is the fault of the files
        if isinstance(error, UsageError) and own.keys() - {*_LOCAL}:  # or of the user's own parts
            raise
        name = "" if isinstance(error, DgdmnError | ValueError) else f"{type(error).__name__}: "
        reason = printable(shorten(" ".join(f"{name}{error}".split()), 300))
        raise DgdmnError(f"{path} is not a memory that can be loaded ({reason})") from error


def algorithm_name(kind: type) -> str:
    """The name of an estimator class in the registry; "package.module:Class" for one that is not there."""
    target = f"{kind.__module__}:{kind.__qualname__}"
    names = {info.target: name for name, info in {**ALGORITHMS, **REFERENCES}.items()}
    return names.get(target, target)


def describe(model: ContinualClassifier) -> tuple[dict[str, Any], State]:
    """A fitted estimator as plain values and a state."""
    fitted, parameters = model.fitted_, model.get_params(deep=False)
    _check_parameters(parameters)
    saved = {key: value for key, value in parameters.items() if key not in _LOCAL}
    code = [key for key in OWN_PARTS if not isinstance(saved.get(key, ""), str)]
    own = {key: saved.pop(key) for key in code}
    about: dict[str, Any] = {
        "dgdmn": __version__,
        "algorithm": algorithm_name(type(model)),
        "parameters": {key: _to_json(value) for key, value in saved.items()},
        "own": {key: qualified_name(part) for key, part in own.items() if part is not None},
        "config": to_dict(fitted.config),
        "features": fitted.shape[0],
        "columns": model.columns_.state() if hasattr(model, "columns_") else {},
        "categories": model.columns_.learned_state() if hasattr(model, "columns_") else {},
        "fitted": {
            "labels": fitted.labels,
            "rng": asdict(fitted.rng),
            "shape": list(fitted.shape),
            "closed": fitted.closed,
            "outputs": fitted.outputs,
            "warned": fitted.warned,
        },
    }
    if fitted.priors:
        about["fitted"]["priors"] = _to_json(fitted.priors)
    return about, {**fitted.inputs.state(), **fitted.memory.state()}


def restore_model(about: dict[str, Any], state: State, **own: Any) -> ContinualClassifier:
    """The estimator that `describe` described."""
    kind = own.pop("algorithm", None) or _registered_class(about["algorithm"])
    parameters = {key: _from_json(key, value) for key, value in about["parameters"].items()}
    _check_parameters(parameters)
    local = {"threads": None, "callback": None, "device": "cpu", **own}.items()
    if own.get("features") is not None and "features" not in about["own"]:
        raise UsageError("its features are built in; load it without features=")
    parameters |= {name: value for name, value in local if name in kind._get_param_names()}
    model: ContinualClassifier = kind(**parameters)
    fitted = _restore_fitted(about, state, model)
    model.n_features_in_ = fitted.shape[0]
    if columns := about["columns"]:
        width = fitted.shape[0] if len(fitted.shape) == 1 else 0
        model.columns_ = Columns.restore(columns, about["categories"], width)
        model.n_features_in_ = len(model.columns_.names)
        model.feature_names_in_ = np.array(model.columns_.names, dtype=object)
    return model._commit(fitted)


def _restore_fitted(about: State, state: State, model: ContinualClassifier) -> FittedState:
    saved, state = about["fitted"], dict(state)
    labels, shape = get_typed(saved, "labels", list), _restore_shape(saved, about["features"])
    largest = max(array.size for _, array in arrays_in(state))
    outputs = get_int(saved, "outputs", max(1, len(labels)), largest)
    if not labels:
        raise ValueError("there are no labels")
    check_labels(labels)
    _check_sizes(state, outputs)
    for path, array in arrays_in(state):
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise ValueError(f"{path} has values that are not finite")
    config = _from_json("preset", about["config"])
    inputs = model._load_inputs(state, shape, config)
    rng = SeedStream(*(get_int(saved["rng"], key, 0, MAX_SEED) for key in ("entropy", "used")))
    with model._empty_weights():
        memory = model._new_memory(model._factory(config, inputs, shape), outputs, SeedStream(0))
        memory.load_state(state)
    closed, warned = get_typed(saved, "closed", bool), get_typed(saved, "warned", bool)
    priors = check_priors(_from_json("priors", saved.get("priors", [])) or {})
    return FittedState(memory, labels, inputs, rng, shape, closed, outputs, config, warned, priors)


def _restore_shape(saved: State, features: Any) -> tuple[int, ...]:
    sizes = dict(enumerate(get_typed(saved, "shape", list)[:4]))
    shape = tuple(get_int({"size": size}, "size", 1, MAX_FEATURES) for size in sizes.values())
    if not 1 <= len(shape) <= 3 or math.prod(shape) > MAX_FEATURES or shape[0] != features:
        raise ValueError(f"{shorten(repr(features))} features and inputs of shape {shape}")
    return shape


def _registered_class(name: Any) -> Any:
    """Only registered classes are imported: a saved file must not choose what code runs."""
    if not isinstance(name, str) or ":" in name:
        raise UsageError(f"algorithm {shorten(repr(name))} is not registered")
    return load_target(algorithm_info(name).target)


def _check_own(path: Path, about: dict[str, Any], own: dict[str, Any]) -> None:
    for key in own.keys() - {*OWN_PARTS, *_LOCAL, "algorithm"}:
        raise UsageError(f"load takes no {key}; a memory keeps what it was made with")
    name = about.get("algorithm")
    if isinstance(name, str) and ":" in name and own.get("algorithm") is None:
        shown = printable(shorten(name, 200))
        raise UsageError(f"algorithm {shown} is not registered; pass load(path, algorithm=Class)")
    described = about.get("own")
    for key, what in described.items() if isinstance(described, dict) else ():
        if own.get(key) is None:
            shown = printable(shorten(f"{key}, {what}", 200))
            raise UsageError(f"{path} was made with its own {shown}; use load(path, {key}=…)")


def _check_sizes(state: Any, outputs: int) -> None:
    """Refuse a memory that answers with more or fewer classes than there are, or has too many tasks."""
    if isinstance(state, dict):
        width, tasks = state.get("n_classes", outputs), state.get("tasks")
        if type(width) is not int or width != outputs:
            raise ValueError(f"{width!r} classes and {outputs} outputs")
        if isinstance(tasks, list) and len(tasks) > MAX_TASKS:
            raise ValueError(f"{len(tasks):,} tasks; at most {MAX_TASKS:,} are recorded")
    children = state if isinstance(state, list) else ()
    for child in state.values() if isinstance(state, dict) else children:
        _check_sizes(child, outputs)


def _check_parameters(parameters: Mapping[str, Any]) -> None:
    """Refuse hyperparameters that the next `fit` would refuse."""
    known = parameters.keys() & vars(Config()).keys()
    plain = {key: parameters[key] for key in known if not callable(parameters[key])}
    override(Config(), {key: v for key, v in plain.items() if not isinstance(v, Mapping)})


def _check_prediction(model: ContinualClassifier) -> ContinualClassifier:
    """Predict with every memory once, so that errors of a file come up now and not later."""
    fitted, info = model.fitted_, model.info()
    awake, n_labels = info.awake, len(fitted.labels)
    for name, known in (*info.consolidated.items(), *awake.items()):
        if max(known.classes, default=0) >= n_labels:
            raise ValueError(f"task {shorten(repr(name))} has a class beyond the {n_labels} labels")
    options = to_dict(fitted.config).items()
    kernels = itertools.chain(*(value for key, value in options if key.endswith("_convolutions")))
    if math.prod(fitted.shape) * max((1, *kernels)) > MAX_TRIED:
        return model
    black_and_white = np.stack([np.zeros(fitted.shape), np.ones(fitted.shape)])
    inputs = fitted.inputs.apply(black_and_white)
    outputs = [fitted.memory.predict_proba(inputs, task) for task in (None, *awake)]
    if awake and isinstance(fitted.memory, DualMemory):
        outputs.append(fitted.memory.ltm.predict_proba(inputs))
    for output in outputs:
        model._most_likely(fitted.class_probabilities(output))
    return model


def _real(path: Path) -> Path:
    """Where a path that a user names leads; inside, storage follows no link."""
    with os_errors("read", path):  # `Path.resolve` raises a RuntimeError for a link to itself
        return Path(os.path.realpath(path)) if path.is_symlink() else path


def _to_json(value: Any) -> Any:
    """A constructor's argument as JSON; a random state that is not a number is in the seeds already."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, Config):
        return to_dict(value)
    if isinstance(value, Mapping):  # its keys need not be text
        return [[_to_json(key), _to_json(item)] for key, item in value.items()]
    if isinstance(value, tuple | list):
        return [_to_json(item) for item in value]
    return value if isinstance(value, str | bool | int | float) else None


def _from_json(key: str, value: Any) -> Any:
    if key == "preset" and isinstance(value, dict):
        return Config(**{name: _from_json(name, item) for name, item in value.items()})
    if key == "priors" and isinstance(value, list):
        return dict(value)
    return tuple(_from_json(key, item) for item in value) if isinstance(value, list) else value


def qualified_name(thing: Any) -> str:
    """The name of a function or class; of any other value, that of its type."""
    kind = thing if isinstance(thing, type) or hasattr(thing, "__qualname__") else type(thing)
    return f"{kind.__module__}.{kind.__qualname__}"
