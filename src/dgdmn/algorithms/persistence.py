"""An estimator as a directory: what it was made with, and what it has learned."""

from __future__ import annotations

import numbers
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dgdmn import __version__
from dgdmn.algorithms.fitted import FittedState, check_labels
from dgdmn.algorithms.scaling import Scaling
from dgdmn.config import Config, to_dict
from dgdmn.config.registry import ALGORITHMS, algorithm_info, load_target
from dgdmn.core.errors import DgdmnError, UsageError
from dgdmn.core.files import directory_lock
from dgdmn.core.rng import SeedStream
from dgdmn.storage import State, arrays_in, check_place, read, read_about, to_numpy, write

if TYPE_CHECKING:
    from dgdmn.algorithms.estimator import ContinualClassifier

_OWN = ("generator", "learner", "memory")
"""Parameters that are code: they are passed again to `load`."""
_LOCAL = ("callback", "device", "threads")
"""Parameters of the process that uses a memory; they are not saved."""
SAVE_TIMEOUT = 60.0
"""Seconds to wait for another saver."""
MAX_LAYERS = 1000
"""Each layer costs time and memory before its weights are found missing."""


def save(model: ContinualClassifier, path: Path, notes: Mapping[str, Any] | None = None) -> None:
    """Save a fitted estimator as a directory, with a caller's notes beside it.

    Savers to the same place wait for each other; the last complete save wins.
    """
    about, state = describe(model)
    check_place(path)
    with directory_lock(path, wait=SAVE_TIMEOUT):
        write(path, about if notes is None else {**about, "notes": notes}, state)


def load(path: str | Path, *, device: str = "cpu", **own: Any) -> ContinualClassifier:
    """Load a saved estimator: it predicts the same bits and continues learning as it would have.

    Pass `generator=`, `learner=` or `memory=` again if it was made with your own, `algorithm=` if its class is
    not registered, and `threads=` or `callback=` as you like.
    """
    from dgdmn.networks.runtime import check_device

    check_device(device)
    about, state = read(Path(path))
    _check_own(Path(path), about, own)
    try:
        return _try_out(restore_model(about, state, device=device, **own))
    except UsageError:
        raise
    except Exception as error:  # any failure here is the fault of the files
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        raise DgdmnError(f"{path} is not a memory that can be loaded ({reason})") from error


def read_notes(path: Path) -> Any:
    """The notes saved beside a memory; None where there are none."""
    return read_about(path).get("notes")


def algorithm_name(kind: type) -> str:
    """The name of an estimator class in the registry; "package.module:Class" for one that is not there."""
    target = f"{kind.__module__}:{kind.__qualname__}"
    return next((name for name, info in ALGORITHMS.items() if info.target == target), target)


def describe(model: ContinualClassifier) -> tuple[dict[str, Any], State]:
    """A fitted estimator as plain values and a state."""
    fitted, parameters = model.fitted_, model.get_params(deep=False)
    saved = {key: value for key, value in parameters.items() if key not in (*_OWN, *_LOCAL)}
    about = {
        "dgdmn": __version__,
        "algorithm": algorithm_name(type(model)),
        "parameters": {key: _to_json(value) for key, value in saved.items()},
        "own": {
            key: _qualified_name(parameters[key])
            for key in _OWN
            if parameters.get(key) is not None and not isinstance(parameters[key], str)
        },
        "config": to_dict(fitted.config),
        "features": model.n_features_in_,
        "feature_names": getattr(model, "feature_names_in_", np.array([])).tolist(),
        "fitted": {
            "labels": fitted.labels,
            "given_range": fitted.scaling.given,
            "rng": asdict(fitted.rng),
            "shape": list(fitted.shape),
            "closed": fitted.closed,
            "outputs": fitted.outputs,
            "warned": fitted.warned,
        },
    }
    named = {key: parameters[key] for key in _OWN if isinstance(parameters.get(key), str)}
    about["parameters"] |= named
    scaling = {"low": np.asarray(fitted.scaling.low), "high": np.asarray(fitted.scaling.high)}
    return about, {"scaling": scaling, **fitted.memory.state()}


def restore_model(
    about: dict[str, Any], state: State, *, device: str, **own: Any
) -> ContinualClassifier:
    """The estimator that `describe` described."""
    from dgdmn.networks.layers import meta_weights

    kind = own.pop("algorithm", None) or _registered_class(about["algorithm"])
    parameters = {key: _from_json(key, value) for key, value in about["parameters"].items()}
    local = {"threads": None, "callback": None, "device": device, **own}
    model: ContinualClassifier = kind(**parameters, **local)
    saved, scaling = about["fitted"], state.pop("scaling")
    labels, outputs = list(saved["labels"]), int(saved["outputs"])
    largest = max(array.size for _, array in arrays_in(state))
    if not 0 < len(labels) <= outputs <= largest:
        raise ValueError(f"{len(labels)} labels and {outputs} outputs")
    check_labels(labels)
    for path, array in arrays_in(state):
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise ValueError(f"{path} has values that are not finite")
    shape = tuple(int(size) for size in saved["shape"])
    if about["features"] != shape[0]:
        raise ValueError(f"{about['features']} features and inputs of shape {shape}")
    _check_widths(state, outputs)
    config = _from_json("preset", about["config"])
    with meta_weights():
        memory = model._new_memory(model._factory(config, shape), outputs, SeedStream(0))
        memory.load_state(state)
    model.n_features_in_ = int(about["features"])
    if about["feature_names"]:
        names = [str(name) for name in about["feature_names"]]
        model.feature_names_in_ = np.array(names, dtype=object)
    low, high = (np.asarray(to_numpy(scaling[key]), np.float64) for key in ("low", "high"))
    return model._commit(
        FittedState(
            memory,
            labels,
            Scaling(low, high, given=bool(saved["given_range"])),
            SeedStream(**saved["rng"]),
            shape,
            bool(saved["closed"]),
            outputs,
            config,
            bool(saved["warned"]),
        )
    )


def _registered_class(name: Any) -> Any:
    """Only registered classes are imported: a saved file must not choose what code runs."""
    if ":" in str(name):
        raise UsageError(f"algorithm {name} is not registered; pass load(path, algorithm=Class)")
    return load_target(algorithm_info(str(name)).target)


def _check_own(path: Path, about: dict[str, Any], own: dict[str, Any]) -> None:
    for key in own.keys() - {*_OWN, *_LOCAL, "algorithm"}:
        raise UsageError(f"load takes no {key}; a memory keeps what it was made with")
    described = about.get("own")
    for key, what in described.items() if isinstance(described, dict) else ():
        if own.get(key) is None:
            raise UsageError(f"{path} was made with its own {key}, {what}; use load(path, {key}=…)")


def _check_widths(state: Any, outputs: int) -> None:
    """Refuse a memory that would answer with more or fewer classes than there are."""
    if isinstance(state, dict):
        width = state.get("n_classes", outputs)
        if type(width) is not int or width != outputs:
            raise ValueError(f"{width!r} classes and {outputs} outputs")
    children = state if isinstance(state, list) else ()
    for child in state.values() if isinstance(state, dict) else children:
        _check_widths(child, outputs)


def _try_out(model: ContinualClassifier) -> ContinualClassifier:
    """Predict once, so that errors of a manifest come up now and not later."""
    fitted = model.fitted_
    lowest = np.broadcast_to(fitted.scaling.low, fitted.shape)[None]
    outputs = fitted.memory.predict_proba(model._scale(fitted, lowest), None)
    model._most_likely(fitted.class_probabilities(outputs))
    return model


def _to_json(value: Any) -> Any:
    """A constructor's argument as JSON; a random state that is not a number is in the seeds already."""
    if isinstance(value, Config):
        return to_dict(value)
    if isinstance(value, tuple | list | np.ndarray):
        items = value.tolist() if isinstance(value, np.ndarray) else value
        return [_to_json(item) for item in items]
    if isinstance(value, numbers.Integral) and not isinstance(value, bool):
        return int(value)
    if isinstance(value, numbers.Real) and not isinstance(value, bool):
        return float(value)
    return value if isinstance(value, str | bool | None) else None


def _from_json(key: str, value: Any) -> Any:
    layers = key.endswith(("_layers", "_convolutions"))
    if isinstance(value, list) and layers and len(value) > MAX_LAYERS:
        raise ValueError(f"{key} has {len(value)} entries")
    if key == "preset" and isinstance(value, dict):
        return Config(**{name: _from_json(name, item) for name, item in value.items()})
    return tuple(_from_json(key, item) for item in value) if isinstance(value, list) else value


def _qualified_name(thing: Any) -> str:
    kind = thing if isinstance(thing, type) else type(thing)
    return f"{kind.__module__}.{kind.__qualname__}"
