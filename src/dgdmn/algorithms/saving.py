"""An estimator as a directory: what it was made with, and what it has learnt."""

from __future__ import annotations

import numbers
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from dgdmn import __version__
from dgdmn.algorithms.learnt import Learnt
from dgdmn.algorithms.scaling import Scaling
from dgdmn.errors import DgdmnError, UsageError
from dgdmn.networks.layers import hollow
from dgdmn.presets import Preset, as_dict
from dgdmn.seeds import Seeds
from dgdmn.storage import State, read, tensors_in, write

if TYPE_CHECKING:
    from dgdmn.algorithms.base import ContinualClassifier

_OWN = ("generator", "learner")
_HERE = ("listen", "device", "threads")
"""What belongs to the process that uses a memory, not to the memory."""
_MOST_LAYERS = 1000
"""Each costs time and memory before the weights are found not to be there."""


def save(model: ContinualClassifier, path: Path, noted: Mapping[str, Any] | None = None) -> None:
    """Save a fitted estimator as a directory; `noted` are plain values that a caller wants to find beside it."""
    about, state = described(model)
    write(path, about if noted is None else {**about, "noted": noted}, state)


def described(model: ContinualClassifier) -> tuple[dict[str, Any], State]:
    """A fitted estimator as plain values, and its state."""
    learnt = model.learnt_
    scaling = {"low": torch.tensor(learnt.scaling.low), "high": torch.tensor(learnt.scaling.high)}
    parameters = model.get_params(deep=False)
    about = {
        "dgdmn": __version__,
        "algorithm": name_of(type(model)),
        "parameters": {key: _plain(value) for key, value in parameters.items() if key not in (*_OWN, *_HERE)},
        "own": {key: _described(parameters[key]) for key in _OWN if parameters.get(key) is not None},
        "options": as_dict(learnt.options),
        "features": model.n_features_in_,
        "feature_names": getattr(model, "feature_names_in_", np.array([])).tolist(),
        "learnt": {
            "labels": learnt.labels,
            "given_range": learnt.scaling.given,
            "seeds": asdict(learnt.seeds),
            "shape": list(learnt.shape),
            "closed": learnt.closed,
            "outputs": learnt.outputs,
            "n_fixed": learnt.n_fixed,
            "warned": learnt.warned,
        },
    }
    return about, {"scaling": scaling, **learnt.memory.state()}


def load(path: str | Path, *, device: str = "cpu", **own: Any) -> ContinualClassifier:
    """The estimator that `save` saved: it predicts the same bits and goes on learning as it would have.

    Pass `generator=` and `learner=` again if it was made with networks of your own, and `threads=` or
    `listen=` as you like.
    """
    from dgdmn.algorithms.base import check_device

    check_device(device)
    about, state = read(Path(path))
    _check_own(Path(path), about, own)
    try:
        return _tried(restored(about, state, device=device, **own))
    except UsageError:
        raise
    except Exception as error:  # whatever a manifest makes go wrong here is the manifest's fault
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        raise DgdmnError(f"{path} holds no memory that can be restored ({reason})") from error


def name_of(kind: type[ContinualClassifier]) -> str:
    """The algorithm's name on the command line."""
    from dgdmn.algorithms import ALGORITHMS

    return next(name for name, found in ALGORITHMS.items() if found == kind.__name__)


def restored(about: dict[str, Any], state: State, *, device: str, **own: Any) -> ContinualClassifier:
    """The estimator that `described` described."""
    from dgdmn.algorithms import algorithm

    parameters = {key: _revived(key, value) for key, value in about["parameters"].items()}
    here = {"threads": None, "listen": None, "device": device, **own}
    model = algorithm(about["algorithm"])(**parameters, **here)
    noted, scaling = about["learnt"], state.pop("scaling")
    labels, outputs = list(noted["labels"]), int(noted["outputs"])
    largest = max(tensor.numel() for _, tensor in tensors_in(state))
    if not 0 < len(labels) <= outputs <= largest:
        raise ValueError(f"{len(labels)} labels and {outputs} outputs")
    if not all(isinstance(label, str | int | float) for label in labels) or len(set(labels)) < len(labels):
        raise ValueError("labels are text or numbers, each once")
    seeds = Seeds(**noted["seeds"])
    shape = tuple(int(size) for size in noted["shape"])
    if about["features"] != shape[0]:
        raise ValueError(f"{about['features']} features and inputs of shape {shape}")
    _check_widths(state, outputs)
    options = _options(about, model)
    with hollow():
        memory = model._begin(replace(model._blueprint(shape), preset=options), outputs, Seeds(0))
        memory.restore(_moved(state, device))
    low, high = (scaling[key].double().numpy() for key in ("low", "high"))
    model.n_features_in_ = int(about["features"])
    if about["feature_names"]:
        model.feature_names_in_ = np.array([str(name) for name in about["feature_names"]], dtype=object)
    return model._commit(
        Learnt(
            memory,
            labels,
            Scaling(low, high, given=bool(noted["given_range"])),
            seeds,
            shape,
            bool(noted["closed"]),
            outputs,
            int(noted["n_fixed"]),
            options,
            bool(noted["warned"]),
        )
    )


def _options(about: dict[str, Any], model: ContinualClassifier) -> Preset:
    """What it learnt with. It was not saved at first, when a learner always answered alone."""
    if "options" not in about:
        return replace(model._options(), answers="learner")
    preset = _revived("preset", about["options"])
    assert isinstance(preset, Preset)
    return preset


def _check_own(path: Path, about: dict[str, Any], own: dict[str, Any]) -> None:
    for key in own.keys() - {*_OWN, *_HERE}:
        raise UsageError(f"load takes no {key}: a memory keeps what it was made with; set_params changes it")
    described = about.get("own")
    for key, what in described.items() if isinstance(described, dict) else ():
        if own.get(key) is None:
            raise UsageError(f"{path} was made with a {key} of its own, {what}: load(path, {key}=…)")


def _check_widths(state: Any, outputs: int) -> None:
    """Refuse a memory that would answer with more or fewer classes than there are."""
    if isinstance(state, dict):
        width = state.get("n_classes", outputs)
        if type(width) is not int or width != outputs:
            raise ValueError(f"{width!r} classes and {outputs} outputs")
    for child in state.values() if isinstance(state, dict) else state if isinstance(state, list) else ():
        _check_widths(child, outputs)


def _tried(model: ContinualClassifier) -> ContinualClassifier:
    """The estimator, once it has answered: what its manifest makes go wrong comes up now, not later."""
    learnt = model.learnt_
    lowest = np.broadcast_to(learnt.scaling.low, learnt.shape)[None]
    model._labels(learnt.named(learnt.memory.probabilities(model._inputs(learnt, lowest), None)))
    return model


def _moved(state: Any, device: str) -> Any:
    if isinstance(state, Tensor):
        return state.to(device)
    if isinstance(state, dict):
        return {key: _moved(child, device) for key, child in state.items()}
    return [_moved(child, device) for child in state] if isinstance(state, list) else state


def _plain(value: Any) -> Any:
    """A constructor's argument as JSON; a random state that is no number is in the seeds already."""
    if isinstance(value, Preset):
        return as_dict(value)
    if isinstance(value, tuple | list | np.ndarray):
        return [_plain(item) for item in (value.tolist() if isinstance(value, np.ndarray) else value)]
    if isinstance(value, numbers.Integral) and not isinstance(value, bool):
        return int(value)
    if isinstance(value, numbers.Real) and not isinstance(value, bool):
        return float(value)
    return value if isinstance(value, str | bool | None) else None


def _revived(key: str, value: Any) -> Any:
    if isinstance(value, list) and key.endswith(("_layers", "_convolutions")) and len(value) > _MOST_LAYERS:
        raise ValueError(f"{key} are {len(value)}")
    if key == "preset" and isinstance(value, dict):
        return Preset(**{name: _revived(name, item) for name, item in value.items()})
    return tuple(_revived(key, item) for item in value) if isinstance(value, list) else value


def _described(thing: Any) -> str:
    kind = thing if isinstance(thing, type) else type(thing)
    return f"{kind.__module__}.{kind.__qualname__}"
