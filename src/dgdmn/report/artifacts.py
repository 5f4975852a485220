"""Read the arrays of a run: dreams, reconstructions, latents, resilience. A damaged file becomes a note.

Small files may unpack to large arrays. So a reader keeps only what a report shows, the dreams of a run have
a limit in total, and a report holds those of one run at a time.
"""

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dgdmn.core.errors import DgdmnError
from dgdmn.core.files import MAX_BYTES, read_npz
from dgdmn.core.text import printable
from dgdmn.report.images import grid_png
from dgdmn.report.load import Run

T = TypeVar("T")
Array = NDArray[Any]
Arrays = dict[str, Array]
Read = tuple[T | None, list[str]]  # what a file holds, and a note if it could not be read

LIMIT = MAX_BYTES  # largest number of bytes of an artifact, packed or unpacked
MAX_DREAM_BYTES = 128_000_000  # of all dreams of a run, unpacked
LARGEST_LATENT = 1e6  # t-SNE squares latents in single precision
MAX_ROWS, MAX_LATENTS = 100_000, 4_096  # rows of an array, and latents of a sample
MAX_POINTS = 500  # samples on a t-SNE map; its time grows faster than their number
MAX_PAIRS = 20  # samples shown beside their reconstructions
# Accuracies by the name of their strengths. The paper does not clip its noise, so clipped curves are left out.
CURVES = {"noise": "noise_accuracy_unclipped", "occlusion": "occlusion_accuracy"}

_NO_IMAGES = np.zeros((0, 1, 1), np.uint8)
_MAPS: dict[str, NDArray[np.float64]] = {}  # t-SNE maps: a page that follows a run needs them often


@dataclass(frozen=True, eq=False)
class Dreams:
    """Samples of the long-term memory after a sleep."""

    step: int  # tasks learned by then
    x: Array  # uint8 images, (n, h, w) or (n, h, w, 3); empty if the samples are not images
    labels: tuple[str, ...]  # the label dreamed, of each image
    purity: float  # share of dreams whose label is that of the nearest test rows


@dataclass(frozen=True, eq=False)
class Resilience:
    """Accuracy on corrupted test samples."""

    curves: dict[str, tuple[list[float], list[float]]]  # strengths and accuracies, as in CURVES
    images: tuple[Array, Array] | None  # corrupted samples, clipped, and their reconstructions


def read_dreams(run: Run) -> tuple[list[Dreams], list[str]]:
    """The dreams after each sleep, and a note for each file that could not be read."""
    names = [name.removeprefix("dreams-") for name in run.artifacts if name.startswith("dreams-")]
    found, notes, left = list[Dreams](), list[str](), MAX_DREAM_BYTES

    def parse(arrays: Arrays) -> Dreams:
        nonlocal left
        left -= sum(array.nbytes for array in arrays.values())
        if left < 0:
            problem = f"the dreams of a run may have {MAX_DREAM_BYTES:,} bytes"
            raise DgdmnError(f"{problem} in total; these and later ones are not shown")
        x, y, labels, judged = _images(arrays["x"]), *(arrays[k] for k in ("y", "labels", "judged"))
        if y.ndim != 1 or (len(x) and len(y) != len(x)):
            raise ValueError("images and labels differ in number")
        if labels.shape != judged.shape or labels.ndim != 1:
            raise ValueError("given and judged labels differ in number")
        purity = float(np.mean(labels == judged)) if len(labels) else math.nan
        return Dreams(int(step), x, tuple(printable(label) for label in y.tolist()), purity)

    for step in sorted(filter(str.isdecimal, names), key=int):
        if left >= 0:
            dreams, note = _read(run, f"dreams-{step}", parse)
            found += [dreams] if dreams else []
            notes += note
    return found, notes


def read_reconstructions(run: Run) -> Read[tuple[Array, Array]]:
    """Test images and their reconstructions."""
    return _read(run, "reconstructions", lambda arrays: _pair(arrays["x"], arrays["reconstructed"]))


def read_latents(run: Run) -> Read[tuple[NDArray[np.float64], list[str]]]:
    """At most MAX_POINTS test samples in latent space, (n, d), and their labels."""

    def parse(arrays: Arrays) -> tuple[NDArray[np.float64], list[str]]:
        z, y = arrays["z"], arrays["y"]
        if z.ndim != 2 or 0 in z.shape or z.shape[1] > MAX_LATENTS or y.shape != (len(z),):
            raise ValueError("latents are not one row for each label")
        chosen = choose_evenly(len(z), MAX_POINTS)
        z = z[chosen].astype(np.float64)
        if not (abs(z) < LARGEST_LATENT).all():
            raise ValueError("latents are not finite")
        return z, [str(label) for label in y[chosen].tolist()]

    return _read(run, "latents", parse)


def read_resilience(run: Run) -> Read[Resilience]:
    """Accuracy under noise and occlusion."""

    def parse(arrays: Arrays) -> Resilience:
        known = {x: y for x, y in CURVES.items() if {x, y} <= arrays.keys()}
        images = [arrays.get(name, _NO_IMAGES) for name in ("corrupted", "restored")]
        curves = {x: _curve(x, arrays[x], arrays[y]) for x, y in known.items()}
        return Resilience(curves, _pair(*images))

    return _read(run, "resilience", parse)


def choose_evenly(n: int, limit: int) -> list[int]:
    """At most `limit` of the numbers below n, evenly spaced, with the first and the last."""
    return sorted({int(i) for i in np.linspace(0, n - 1, min(n, limit)).round()})


def dream_quality(run: Run, dreams: Sequence[Dreams]) -> dict[int, tuple[float, float]]:
    """Label purity of the dreams and class balance of the replay after each sleep; NaN if unknown."""
    purity = {one.step: one.purity for one in dreams}
    even = {replay.step: class_balance(replay.per_class) for replay in run.timeline.replays}
    steps, nan = sorted({*purity, *even}), math.nan
    pairs = {step: (purity.get(step, nan), even.get(step, nan)) for step in steps}
    return {step: pair for step, pair in pairs.items() if any(map(math.isfinite, pair))}


def class_balance(counts: Sequence[int]) -> float:
    """Entropy of the class counts divided by its largest value: 1 even, 0 all one class.

    >>> class_balance([5, 5]), class_balance([1, 0])
    (1.0, 0.0)
    """
    total = sum(counts)
    if len(counts) < 2 or not total:
        return math.nan
    shares = [count / total for count in counts if count]
    return max(0.0, -sum(share * math.log(share) for share in shares)) / math.log(len(counts))


def embed(z: NDArray[np.float64]) -> NDArray[np.float64]:
    """A t-SNE map (n, 2) of latents (n, d), with a fixed seed."""
    key = hashlib.sha256(f"{z.shape}".encode() + z.tobytes()).hexdigest()
    if key not in _MAPS:
        _MAPS[key] = _tsne(z)
    return _MAPS[key]


def _tsne(z: NDArray[np.float64]) -> NDArray[np.float64]:
    if len(z) < 5 or not np.ptp(z, axis=0).any():  # too few points for neighbors
        return np.column_stack([z[:, :2], np.zeros((len(z), 2))])[:, :2]
    from sklearn.manifold import TSNE
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    start, perplexity = "pca" if z.shape[1] > 1 else "random", min(30.0, (len(z) - 1) / 3)
    tsne = TSNE(init=start, perplexity=perplexity, max_iter=300, random_state=0)
    with threadpool_limits(1):  # threads add in any order, and rounding errors grow
        return np.asarray(tsne.fit_transform(z), dtype=np.float64)


def newest_dreams(directory: Path) -> Path | None:
    """The file with the dreams after the latest sleep of a run."""
    found = {path.stem.split("-")[-1]: path for path in directory.glob("artifacts/dreams-*.npz")}
    newest = max(filter(str.isdecimal, found), key=int, default="")
    return found.get(newest)


def dreams_png(path: Path) -> bytes | None:
    """At most 64 dreams of a file as PNG, sorted by label, 16 in a row; None if there are no images."""
    try:
        arrays = load_arrays(path)
        x, y = _images(arrays["x"]), arrays["y"]
        if not len(x) or y.shape != (len(x),):
            return None
        chosen = np.argsort(y, kind="stable")[choose_evenly(len(x), 64)]
        rows = [x[chosen[i : i + 16]] for i in range(0, len(chosen), 16)]
        return grid_png(rows, min(16, len(chosen)))
    except Exception:  # a file may contain anything
        return None


def load_arrays(path: Path) -> Arrays:
    """The arrays of an npz file, within limits."""
    arrays = read_npz(path, LIMIT)
    if any(len(array) > MAX_ROWS for array in arrays.values() if array.ndim):
        raise DgdmnError(f"an array has more than {MAX_ROWS:,} rows")
    return arrays


def _read(run: Run, name: str, parse: Callable[[Arrays], T | None]) -> Read[T]:
    path = run.directory / "artifacts" / f"{name}.npz"
    try:
        return (parse(load_arrays(path)) if path.exists() else None), []
    except Exception as error:  # a file may contain anything; a report must not fail
        reason = f"it lacks {error}" if isinstance(error, KeyError) else str(error)
        reason = printable(reason.replace(f"{path} is", "it is"))
        return None, [f"{path.name} could not be used: {reason.partition(chr(10))[0]}"]


def _images(x: Array) -> Array:
    shape = x.shape[1:]
    flat = len(shape) == 2 or (len(shape) == 3 and shape[2] in (1, 3))
    good = x.dtype == np.uint8 and flat and min(shape[:2]) >= 2 and max(shape[:2]) <= 256
    return x if good else _NO_IMAGES


def _pair(x: Array, y: Array) -> tuple[Array, Array] | None:
    """A few images of two arrays, evenly spaced; None if they are not images."""
    x, y = _images(x), _images(y)
    if x.shape != y.shape:
        raise ValueError("samples and reconstructions differ in shape")
    chosen = choose_evenly(len(x), MAX_PAIRS)
    return (x[chosen], y[chosen]) if chosen else None


def _curve(name: str, x: Array, y: Array) -> tuple[list[float], list[float]]:
    if x.ndim != 1 or x.shape != y.shape or not np.isfinite(x.astype(float)).all():
        raise ValueError(f"{name} and its accuracies are not two lists of as many numbers")
    return x.astype(float).tolist(), y.astype(float).tolist()
