"""Read the arrays of a run: dreams, reconstructions, latents, resilience. A damaged file becomes a note."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
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
LARGEST_LATENT = 1e6  # t-SNE squares latents in single precision
MAX_ROWS, MAX_LATENTS = 100_000, 4_096  # rows of an array, and latents of a sample
MAX_POINTS = 500  # samples on a t-SNE map; its time grows faster than their number

_NO_IMAGES = np.zeros((0, 1, 1), np.uint8)


@dataclass(frozen=True, eq=False)
class Dreams:
    """Samples of the long-term memory after a sleep."""

    step: int  # tasks learned by then
    x: Array  # uint8 images, (n, h, w) or (n, h, w, 3); empty if the samples are no images
    tasks: Array  # the column of the task that each image resembles
    purity: float  # share of dreams whose label is that of the nearest test rows


@dataclass(frozen=True, eq=False)
class Latents:
    """Test samples in latent space, (n, d), and their labels."""

    z: NDArray[np.float64]
    y: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Resilience:
    """Accuracy on corrupted test samples."""

    noise: tuple[float, ...]  # standard deviations of noise that is not clipped
    noise_accuracy: tuple[float, ...]
    occlusion: tuple[float, ...]
    occlusion_accuracy: tuple[float, ...]
    corrupted: Array  # images, clipped for display; may be empty
    restored: Array  # their reconstructions


def read_dreams(run: Run) -> tuple[list[Dreams], list[str]]:
    """The dreams after each sleep, and a note for each file that could not be read."""
    steps = [name.removeprefix("dreams-") for name in run.artifacts if name.startswith("dreams-")]
    found, notes = [], list[str]()
    for step in sorted(filter(str.isdecimal, steps), key=int):
        dreams, note = _read(run, f"dreams-{step}", partial(_dreams, run, int(step)))
        found += [dreams] if dreams else []
        notes += note
    return found, notes


def read_reconstructions(run: Run) -> Read[tuple[Array, Array]]:
    """Test images and their reconstructions."""

    def parse(arrays: Arrays) -> tuple[Array, Array] | None:
        x, reconstructed = _images(arrays["x"]), _images(arrays["reconstructed"])
        if x.shape != reconstructed.shape:
            raise ValueError("samples and reconstructions differ in shape")
        return (x, reconstructed) if len(x) else None

    return _read(run, "reconstructions", parse)


def read_latents(run: Run) -> Read[Latents]:
    """Test samples in latent space."""

    def parse(arrays: Arrays) -> Latents:
        z, y = np.asarray(arrays["z"], dtype=np.float64), arrays["y"]
        good = z.ndim == 2 and 0 not in z.shape and z.shape[1] <= MAX_LATENTS
        if not good or y.shape != (len(z),) or not (abs(z) < LARGEST_LATENT).all():
            raise ValueError("latents are not one finite row for each label")
        return Latents(z, tuple(str(label) for label in y.tolist()))

    return _read(run, "latents", parse)


def read_resilience(run: Run) -> Read[Resilience]:
    """Accuracy under noise and occlusion."""

    def parse(arrays: Arrays) -> Resilience:
        # The paper does not clip its noise; clipped curves could not be compared with it.
        noise = _curve(arrays, "noise", "noise_accuracy_unclipped")
        occlusion = _curve(arrays, "occlusion", "occlusion_accuracy")
        images = [_images(arrays.get(name, _NO_IMAGES)) for name in ("corrupted", "restored")]
        same = images[0].shape == images[1].shape
        return Resilience(*noise, *occlusion, *(images if same else [_NO_IMAGES, _NO_IMAGES]))

    return _read(run, "resilience", parse)


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


def embed(latents: Latents) -> tuple[NDArray[np.float64], tuple[str, ...]]:
    """t-SNE with a fixed seed: points (n, 2) and labels of at most MAX_POINTS samples."""
    n = len(latents.z)
    chosen = np.unique(np.linspace(0, n - 1, min(n, MAX_POINTS)).round().astype(int))
    rows = np.ascontiguousarray(latents.z[chosen])
    points = np.frombuffer(_tsne(rows.tobytes(), rows.shape), dtype=np.float64).reshape(-1, 2)
    return points, tuple(latents.y[i] for i in chosen)


@lru_cache(maxsize=64)
def _tsne(content: bytes, shape: tuple[int, int]) -> bytes:
    # Cached: a page that follows a run needs the same map many times.
    z = np.frombuffer(content, dtype=np.float64).reshape(shape)
    if len(z) < 5 or not np.ptp(z, axis=0).any():  # too few points for neighbors
        return np.column_stack([z[:, :2], np.zeros((len(z), 2))])[:, :2].tobytes()
    from sklearn.manifold import TSNE
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    start, perplexity = "pca" if shape[1] > 1 else "random", min(30.0, (len(z) - 1) / 3)
    tsne = TSNE(init=start, perplexity=perplexity, max_iter=300, random_state=0)
    with threadpool_limits(1):  # threads add in any order, and rounding errors grow
        return np.asarray(tsne.fit_transform(z), dtype=np.float64).tobytes()


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
        chosen = np.argsort(y, kind="stable")[np.unique(np.linspace(0, len(x) - 1, 64).astype(int))]
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


def _dreams(run: Run, step: int, arrays: Arrays) -> Dreams:
    x, task = _images(arrays["x"]), np.asarray(arrays["task"])
    if task.ndim != 1 or (len(x) and len(task) != len(x)):
        raise ValueError("images and tasks differ in number")
    n = len(run.tasks)
    tasks = np.where(np.isin(task, np.arange(n)), task, n).astype(int)
    labels, judged = arrays["labels"], arrays["judged"]
    if labels.shape != judged.shape or labels.ndim != 1:
        raise ValueError("given and judged labels differ in number")
    return Dreams(step, x, tasks, float(np.mean(labels == judged)) if len(labels) else math.nan)


def _images(x: Array) -> Array:
    shape = x.shape[1:]
    flat = len(shape) == 2 or (len(shape) == 3 and shape[2] in (1, 3))
    good = x.dtype == np.uint8 and flat and min(shape[:2]) >= 2 and max(shape[:2]) <= 256
    return x if good else _NO_IMAGES


def _curve(arrays: Arrays, *names: str) -> tuple[tuple[float, ...], tuple[float, ...]]:
    if not set(names) <= arrays.keys():
        return (), ()
    if any(arrays[name].ndim != 1 for name in names):
        raise ValueError(f"{names[0]} and its accuracies are not lists of numbers")
    x, y = (tuple(float(value) for value in arrays[name].tolist()) for name in names)
    if len(x) != len(y) or not np.isfinite(x).all():
        raise ValueError(f"{names[0]} and its accuracies differ in number")
    return x, y
