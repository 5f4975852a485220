"""A front end maps a user's inputs to features. It is fixed: it has a seed and sizes and learns nothing."""

import copy
import math
from collections.abc import Callable
from typing import Any, Literal, Protocol, Self, get_args

import numpy as np
from numpy.typing import NDArray

from dgdmn.core.errors import UsageError
from dgdmn.core.text import join_names
from dgdmn.features.images import MIN_SIDE, ImageFeatures
from dgdmn.features.tables import RELU_FEATURES, PlainFeatures, Scale, TableFeatures
from dgdmn.storage import State, get_int, get_typed, to_numpy

Kind = Literal["auto", "gabor", "relu", "none"]
"""The built-in front ends; `auto` chooses by the shape of an input."""
FeatureFunction = Callable[[NDArray[Any]], Any]
"""A user's front end: inputs in the user's shape to an array (n, d)."""
RELU_COLUMNS = 64
"""Tables with fewer columns get ReLU units. Wider ones do not: exact forgetting needs a full code (docs/LOG.md)."""
PROBES, NUMBERS_PER_PROBE = 2, 8
"""A fingerprint has this many random inputs and numbers for each."""
MAX_FEATURES = 100_000
MAX_DECODED = 4_096
"""Largest number of values of an input that a memory decodes."""
MAX_SEED = 2**32 - 1


class _Features(Protocol):
    n_features: int

    def __call__(self, X: NDArray[Any]) -> NDArray[Any]: ...


class FrontEnd:
    """Turns inputs of one shape into features. Make it with `fit`."""

    given = False
    """A front end has no value range (see `Inputs.given`)."""

    def __init__(
        self,
        kind: str,
        shape: tuple[int, ...],
        image_shape: tuple[int, ...] | None,
        seed: int,
        features: _Features,
    ) -> None:
        self.kind, self.shape, self.image_shape, self.seed = kind, shape, image_shape, seed
        self.mapping = features

    @classmethod
    def fit(
        cls,
        X: NDArray[Any],
        features: str | FeatureFunction,
        *,
        seed: int,
        image_shape: tuple[int, ...] | None = None,
        scale: Any = None,
        weight: NDArray[np.float64] | None = None,
    ) -> Self:
        """The front end for inputs like X. Only `relu` takes anything from X: the scale of its columns."""
        shape = X.shape[1:]
        view_shape = check_image_shape(image_shape, shape)
        kind = choose(features, view_shape) if isinstance(features, str) else "own"
        if scale is not None and kind != "relu":
            raise UsageError(f"scale is for features='relu', but these are {kind!r}; leave it out")
        if not isinstance(features, str):
            first = _to_values(X[:1].reshape(-1, *view_shape))
            return cls(kind, shape, view_shape, seed, UserFeatures.fit(features, first))
        column_scale = None
        if kind == "relu":
            values = _to_values(X.reshape(len(X), *view_shape))  # as `apply` sees them
            rows = values.reshape(len(X), -1).astype(np.float64)
            given = None if scale is None else Scale.parse(scale, rows.shape[1])
            column_scale = given or Scale.fit_sides(rows, seed, weight)
        return cls(kind, shape, view_shape, seed, _make(kind, view_shape, seed, column_scale))

    @property
    def n_features(self) -> int:
        return self.mapping.n_features

    def apply(self, X: NDArray[Any]) -> NDArray[Any]:
        """Features, shape (n, n_features). Bytes of an image mean value / 255; in a table they are numbers."""
        return self.mapping(_to_values(X.reshape(len(X), *(self.image_shape or self.shape))))

    def apply_unclipped(self, X: NDArray[Any]) -> NDArray[Any]:
        """The same as `apply`: nothing is ever clipped."""
        return self.apply(X)

    def raw(self, X: NDArray[Any]) -> NDArray[np.float32] | None:
        """Flat inputs if a memory must learn to decode features; else None."""
        if not self.n_decoded:
            return None
        view = _to_values(X.reshape(len(X), *(self.image_shape or self.shape)))
        return view.reshape(len(X), -1).astype(np.float32)

    @property
    def n_decoded(self) -> int:
        """Values of an input that a memory must learn to decode; 0 if `inverse` is exact or inputs are too large."""
        size = math.prod(self.shape)
        return 0 if self.inverse is not None or size > MAX_DECODED else size

    @property
    def inverse(self) -> Callable[[NDArray[Any]], NDArray[Any]] | None:
        """The exact map from features to flat inputs, if there is one."""
        exact = self.n_features >= math.prod(self.shape)
        return getattr(self.mapping, "invert", None) if exact else None

    def invert(self, rows: NDArray[Any], shape: tuple[int, ...]) -> NDArray[np.float32]:
        """Flat inputs that a memory generated, in the user's shape, float32."""
        largest = np.finfo(np.float32).max
        inputs: NDArray[np.float32] = np.clip(rows, -largest, largest).astype(np.float32)
        return inputs.reshape(len(rows), *shape)

    def clips(self, X: NDArray[Any]) -> bool:  # noqa: ARG002
        """Never: no value is outside a range."""
        return False

    def to_columns(self, X: NDArray[Any]) -> NDArray[Any]:
        """The first features of a table, one for each column; a missing value stays missing."""
        return self.mapping.columns(X) if isinstance(self.mapping, TableFeatures) else X

    def from_columns(self, columns: NDArray[Any]) -> NDArray[Any]:
        """The table whose `to_columns` these are."""
        return self.mapping.invert(columns) if isinstance(self.mapping, TableFeatures) else columns

    def fingerprint(self) -> NDArray[np.float64]:
        """A few numbers that identify this front end: random mixtures of the features of random inputs."""
        rng = np.random.default_rng(0)
        shape = self.image_shape or self.shape
        features = self.mapping(rng.uniform(size=(PROBES, *shape)))
        mixed = features @ rng.standard_normal((self.n_features, NUMBERS_PER_PROBE))
        return np.asarray(mixed, np.float64)

    def state(self) -> State:
        """What `restore` needs: seed, sizes, frozen scale and a fingerprint."""
        state: State = {
            "kind": self.kind,
            "seed": self.seed,
            "n_features": self.n_features,
            "image_shape": list(self.image_shape or self.shape),
            "fingerprint": self.fingerprint(),
        }
        if isinstance(self.mapping, TableFeatures):
            state |= self.mapping.scale.state()
        return {"features": state}

    @classmethod
    def restore(cls, state: State, shape: tuple[int, ...], own: FeatureFunction | None) -> Self:
        """Load what `state` returned; raises an error if the features are different now."""
        kind, seed = get_typed(state, "kind", str), get_int(state, "seed", 0, MAX_SEED)
        sides = get_typed(state, "image_shape", list)
        view_shape = check_image_shape(tuple(sides), shape)
        if kind == "own":
            if own is None:
                raise UsageError("its features are your own; use load(path, features=…)")
            features: _Features = UserFeatures(own, get_int(state, "n_features", 1, MAX_FEATURES))
        else:
            choose(kind, view_shape)
            scale = Scale.restore(state, math.prod(view_shape)) if kind == "relu" else None
            features = _make(kind, view_shape, seed, scale)
        front_end = cls(kind, shape, view_shape, seed, features)
        stored, now = np.asarray(to_numpy(state["fingerprint"])), front_end.fingerprint()
        size = float(np.abs(stored).max(initial=0))
        if stored.shape != now.shape or not np.allclose(stored, now, rtol=1e-3, atol=1e-4 * size):
            raise UsageError(f"its features {kind!r} differ from those it learned with")
        return front_end

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        return copy.copy(self)  # nothing in it ever changes


class UserFeatures:
    """A user's callable, checked at each call."""

    def __init__(self, function: FeatureFunction, n_features: int) -> None:
        self.function, self.n_features = function, n_features

    @classmethod
    def fit(cls, function: FeatureFunction, X: NDArray[Any]) -> Self:
        if not callable(function):
            allowed = join_names(get_args(Kind))
            raise UsageError(f"features is {function!r}; it must be {allowed} or a function")
        features = _call(function, X)
        if not 1 <= features.shape[1] <= MAX_FEATURES:
            raise UsageError(f"features returned {features.shape[1]:,} numbers for one input")
        return cls(function, features.shape[1])

    def __call__(self, X: NDArray[Any]) -> NDArray[Any]:
        features = _call(self.function, X)
        if features.shape[1] != self.n_features:
            raise UsageError(
                f"features returned {features.shape[1]} numbers for each input; they were {self.n_features} before"
            )
        return features


def choose(features: str, shape: tuple[int, ...]) -> str:
    """The built-in front end of that name, or the one that suits inputs of this shape.

    >>> choose("auto", (28, 28)), choose("auto", (13,)), choose("auto", (256,)), choose("auto", (8, 8))
    ('gabor', 'relu', 'none', 'none')
    """
    is_image = len(shape) >= 2 and min(shape[:2]) >= MIN_SIDE
    n_columns = math.prod(shape)
    if features == "auto":
        small = "relu" if n_columns < RELU_COLUMNS else "none"
        return "gabor" if is_image else small
    if features == "gabor" and not is_image:
        raise UsageError(
            f"features is 'gabor', but an input has shape {shape}; it must be an image with both sides at "
            f"least {MIN_SIDE}; pass image_shape=(height, width) for flat rows"
        )
    if features == "relu" and n_columns >= RELU_FEATURES:
        raise UsageError(
            f"features is 'relu', but an input has {n_columns:,} values; it must have fewer than "
            f"{RELU_FEATURES:,}; use 'none'"
        )
    if features not in get_args(Kind):
        allowed = join_names(get_args(Kind))
        raise UsageError(f"features is {features!r}; it must be {allowed} or a function")
    return features


def check_image_shape(image_shape: Any, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape in which the front end sees an input: `image_shape` if given, else its own."""
    if image_shape is None:
        return shape
    sides = tuple(image_shape) if isinstance(image_shape, list | tuple) else ()
    right = 1 <= len(sides) <= 3 and all(type(side) is int and side >= 1 for side in sides)
    if not right or math.prod(sides) != math.prod(shape):
        raise UsageError(
            f"image_shape is {image_shape!r}, but an input has {math.prod(shape):,} values; give "
            "(height, width) or (height, width, channels) with as many"
        )
    return sides


def _make(kind: str, shape: tuple[int, ...], seed: int, scale: Scale | None) -> _Features:
    if kind == "gabor":
        return ImageFeatures(shape, seed)
    if kind == "relu":
        assert scale is not None
        return TableFeatures(math.prod(shape), seed, scale)
    return PlainFeatures(math.prod(shape), seed)


def _to_values(X: NDArray[Any]) -> NDArray[Any]:
    """Bytes of images as value / 255; everything else as it is."""
    return X / 255 if X.ndim > 2 and X.dtype == np.uint8 else X


def _call(function: FeatureFunction, X: NDArray[Any]) -> NDArray[Any]:
    try:
        features = np.asarray(function(np.array(X)))  # a copy: it may write into its input
    except Exception as error:  # it is the user's code
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        raise UsageError(f"features failed ({reason}); nothing was changed") from error
    if features.ndim != 2 or len(features) != len(X) or features.dtype.kind not in "fiub":
        raise UsageError(
            f"features returned {features.dtype} of shape {features.shape} for {len(X)} inputs; it must return "
            f"numbers of shape ({len(X)}, d)"
        )
    if not np.isfinite(features).all():
        raise UsageError("features returned NaN or infinity; every feature must be finite")
    return features
