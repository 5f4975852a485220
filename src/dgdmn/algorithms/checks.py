"""Checks of values, weights, labels and names that a user passes."""

import math
from collections.abc import Iterable, Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight

from dgdmn.config.config import MAX_NUMBER
from dgdmn.core.errors import UsageError, suggestion
from dgdmn.core.table import MAX_VALUE
from dgdmn.core.text import count_noun, join_names
from dgdmn.storage.checks import MAX_WEIGHT, MIN_WEIGHT

Array = NDArray[Any]
Weights = NDArray[np.float64] | None
"""How often each row counts; None: once."""


def check_values(X: Array, *, learning: bool) -> None:
    """Refuse infinite values and, in learning, values that are too large."""
    if X.dtype.kind == "f" and (odd := np.isinf(X)).any():
        place = f"first in row {first_row(odd)}"
        raise UsageError(f"X contains infinity ({place}); every value must be finite")
    if learning and _largest(X) > MAX_VALUE:
        far = np.abs(X.astype(np.float64)) > MAX_VALUE
        limit = f"values may have a size of at most {MAX_VALUE:g}; fix it, or scale its column"
        raise UsageError(f"X has {X[far][0]:g} in row {first_row(far)}; {limit}")


def drop_zero_weights(X: Array, y: Array, sample_weight: Any) -> tuple[Array, Array, Weights]:
    """The rows with a weight, and their weights; None if every row counts once."""
    if sample_weight is None:
        return X, y, None
    weight = _check_sample_weight(sample_weight, X, dtype=np.float64)
    wrong = weight[(weight != 0) & ~((weight >= MIN_WEIGHT) & (weight <= MAX_WEIGHT))]
    if wrong.size:
        allowed = f"0, or at least {MIN_WEIGHT:g} and at most {MAX_WEIGHT:g}"
        raise UsageError(f"sample_weight has the value {wrong[0]:g}; it must be {allowed}")
    counts = weight > 0
    if not counts.any():
        raise UsageError("every sample_weight is 0; at least one row must count")
    weight = weight[counts]
    return X[counts], y[counts], None if (weight == 1).all() else weight


def _largest(X: Array) -> float:
    """The largest size of a value; NaN does not count."""
    return max(float(np.fmax.reduce(X, axis=None)), -float(np.fmin.reduce(X, axis=None)))


def first_row(marked: NDArray[np.bool_]) -> int:
    return int(marked.reshape(len(marked), -1).any(axis=1).argmax())


def check_label_objects(y: Any) -> None:
    """Check labels before they become an array: it would merge "a" with 1 or 2**53 with 2**53 + 1."""
    if missing := [row for row, label in enumerate(y) if _is_missing(label)]:
        count = count_noun(len(missing), "missing label")
        raise UsageError(f"y has {count} (first in row {missing[0]}); fill or remove such rows")
    labels = {to_plain(label) for label in y if np.isscalar(label)}
    if len({isinstance(label, str) for label in labels}) > 1:
        raise UsageError("y mixes kinds of labels; use only text or only numbers")
    check_labels(sorted(labels))


def _is_missing(label: Any) -> bool:
    """Whether a label is None, NaN, or pandas' NA or NaT."""
    nan = isinstance(label, float | np.floating) and bool(np.isnan(label))
    return label is None or nan or type(label).__name__ in ("NAType", "NaTType")


def check_label_dtype(y: Array) -> None:
    try:
        kinds = {type(label) for label in np.unique(y).tolist()}
    except TypeError as error:
        raise UsageError("y mixes kinds of labels; use only text or only numbers") from error
    for kind in kinds - {str, int, float, bool}:
        advice = "use text or numbers; dates can be text, y.astype(str)"
        raise UsageError(f"y has labels of kind {kind.__name__}; {advice}")
    check_classification_targets(y)


def check_labels(labels: Sequence[Any], n: int = 0) -> None:
    """Refuse labels that are neither text nor finite numbers, that an array merges, or more than n, if given."""
    for label in labels:
        text = isinstance(label, str) and label.encode(errors="replace").decode() == label
        number = isinstance(label, int) or (isinstance(label, float) and math.isfinite(label))
        if not text and not number:
            raise UsageError(f"label {label!r} cannot be saved; use text or finite numbers")
    array = np.asarray(labels)
    if array.tolist() != list(labels) or len(np.unique(array)) < len(labels):
        names = join_names(map(repr, labels), 3)
        raise UsageError(f"labels {names} are not distinct in an array; use text")
    if n and len(labels) > n:
        too_many = f"{labels[n]!r} is class {n + 1}, but n_classes is {n}"
        raise UsageError(f"{too_many}; raise it, or set 0")


def check_same_kind(what: str, label: Any, other: Any) -> None:
    """Refuse text among numbers and numbers among text."""
    if isinstance(label, str) != isinstance(other, str):
        raise UsageError(
            f"{what} and {other!r} have different types; use only text or only numbers"
        )


def check_new_names(what: str, known: Iterable[Any], names: Mapping[Any, Any]) -> dict[Any, Any]:
    """The new names of labels or tasks, {old: new}, if all old ones exist and all names stay different."""
    known, kind = list(known), "text" if what == "task" else "text or a number"
    for old, new in names.items():
        if old not in known:
            hint, shown = suggestion(str(old), map(str, known)), join_names(map(repr, known))
            raise UsageError(f"no {what} {old!r}{hint}; there are {shown}")
        is_name = isinstance(new, str) or (what == "label" and isinstance(new, int | float))
        if not is_name or new == "":
            problem = f"{what} {old!r} cannot be renamed to {new!r}"
            raise UsageError(f"{problem}; the name must be {kind}")
    after = [names.get(one, one) for one in known]
    for new in names.values():
        if after.count(new) > 1:
            raise UsageError(f"{what} {new!r} exists already; choose another name for it")
    return dict(names)


def check_priors(priors: Mapping[Any, Any]) -> dict[Any, float]:
    """Weights of labels as floats; refused unless each is a finite number above 0."""
    for label, weight in priors.items():
        number = isinstance(weight, Real) and not isinstance(weight, bool)
        if not (number and 0 < weight <= MAX_NUMBER):
            allowed = f"a number above 0 and at most {MAX_NUMBER:g}"
            raise UsageError(f"the prior of {label!r} is {weight!r}; it must be {allowed}")
    return {label: float(weight) for label, weight in priors.items()}


def to_plain(label: Any) -> Any:
    """A number of numpy as one of Python."""
    return label.item() if isinstance(label, np.generic) else label
