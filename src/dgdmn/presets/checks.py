"""What a hyper-parameter may be: its kind and its range, refused in one line."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any

from dgdmn.errors import UsageError

_ANY = float("inf")
_RANGES = (
    ("n_stm", "n_STM", 1, _ANY),
    ("n_max", "N_max", 1, _ANY),
    ("kappa", "κ", 0, 1),
    ("gamma", "γ", 0, _ANY),
    ("recog_trainings", "", 1, _ANY),
    ("n_classes", "", 0, _ANY),
    ("latent", "", 1, _ANY),
    ("sttm_latent", "", 1, _ANY),
    ("generator_epochs", "", 1, _ANY),
    ("learner_epochs", "", 1, _ANY),
    ("joint_epochs", "", 1, _ANY),
    ("min_steps", "", 0, _ANY),
    ("sttm_steps", "", 0, _ANY),
    ("batch_size", "", 1, _ANY),
    ("learning_rate", "", 1e-12, _ANY),
    ("rho", "ρ", 0, 1),
    ("epsilon", "ε", 1e-12, _ANY),
    ("momentum", "", 0, 0.999),
    ("clip_norm", "", 0, _ANY),
    ("clip_value", "", 0, _ANY),
    ("clip_probability", "", 0, 0.1),
    ("beta", "β", 0, _ANY),
    ("prior_components", "", 0, _ANY),
    ("soft_labels", "", 0, 1),
    ("latent_noise", "", 0, _ANY),
    ("dropout", "", 0, 0.99),
    ("ppr_memory", "", 0, _ANY),
    ("ewc_coefficient", "λ", 0, _ANY),
    ("si_strength", "c", 0, _ANY),
    ("si_damping", "ξ", 1e-12, _ANY),
    ("lwf_weight", "λ_o", 0, _ANY),
    ("lwf_temperature", "T", 1e-3, _ANY),
    ("gem_margin", "γ", 0, _ANY),
    ("exemplars", "", 0, _ANY),
    ("samples_per_task", "", 0, _ANY),
)


def check_kind(name: str, value: Any, kind: str) -> None:
    """Refuse what is not of the field's kind: a whole number, a number, layer sizes or a word."""
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    if kind == "int" and not whole:
        raise UsageError(f"{name} is {value!r}; it must be a whole number")
    number = isinstance(value, Real) and not isinstance(value, bool)
    if kind == "float" and not (number and math.isfinite(value)):
        raise UsageError(f"{name} is {value!r}; it must be a finite number")
    if kind.startswith("tuple"):
        sizes = isinstance(value, tuple) and all(
            isinstance(units, int | Integral) and int(units) >= 1 for units in value
        )
        if not sizes:
            raise UsageError(f"{name} is {value!r}; it must be a tuple of layer sizes, each at least 1")
    if kind.startswith("Literal"):
        words = re.findall(r"['\"](\w+)['\"]", kind)
        if value not in words:
            raise UsageError(f"{name} is {value!r}; it must be one of {', '.join(words)}")


def check_ranges(values: Mapping[str, Any]) -> None:
    """Refuse the first value that is out of its range."""
    for name, symbol, low, high in _RANGES:
        value = values[name]
        if not low <= value <= high:
            named = f"{name} ({symbol})" if symbol else name
            allowed = f"in [{low:g}, {high:g}]" if high < _ANY else f"at least {low:g}"
            raise UsageError(f"{named} is {value}; it must be {allowed}")
    if values["rho"] >= 1:
        raise UsageError(f"rho (ρ) is {values['rho']}; it must be below 1")
