"""The arrays beside a run: dreams, reconstructions, latents, resilience. Damaged ones become a note."""

import stat
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dgdmn.errors import DgdmnError
from dgdmn.records.layout import ARTEFACTS
from dgdmn.report.runs import Run

Array = NDArray[Any]

ARTEFACT_LIMIT = 64_000_000
"""Most bytes of an artefact, packed or unpacked."""


@dataclass(frozen=True, eq=False)
class Dreams:
    """Samples of the long-term memory after a sleep."""

    step: int
    """Tasks learnt by then."""
    x: Array
    """Pictures, (n, h, w) or (n, h, w, 3), uint8; empty where the samples are no pictures."""
    rows: Array
    """The task of each picture, its column; its label's index where tasks are not recorded."""
    by_task: bool
    """Whether `rows` are tasks."""
    labels: Array
    """Labels the memory gave to many dreams; empty in older runs."""
    judged: Array
    """Labels of the nearest test rows; as long."""

    @property
    def purity(self) -> float:
        """Share of dreams whose label is that of the nearest test rows; NaN in older runs."""
        return float(np.mean(self.labels == self.judged)) if len(self.labels) else float("nan")


@dataclass(frozen=True, eq=False)
class Reconstructions:
    """Test samples and what the memory makes of them."""

    x: Array
    reconstructed: Array


@dataclass(frozen=True, eq=False)
class Latents:
    """Test samples in latent space."""

    z: NDArray[np.float64]
    """(n, d)."""
    y: tuple[str, ...]
    """Their labels as text."""


@dataclass(frozen=True, eq=False)
class Resilience:
    """Accuracy on spoilt test samples."""

    noise: tuple[float, ...]
    """Standard deviations of noise that is not clipped; empty where an older version clipped it."""
    noise_accuracy: tuple[float, ...]
    occlusion: tuple[float, ...]
    occlusion_accuracy: tuple[float, ...]
    corrupted: Array
    """Spoilt pictures, their noise clipped to be shown; may be empty."""
    restored: Array
    """What the memory makes of them; as many."""


def read_artefact(run: Run, name: str) -> dict[str, Array]:
    """The arrays of an artefact, empty where there is none; too much of anything is refused."""
    path = run.record.directory / ARTEFACTS / f"{name}.npz"
    if not path.exists():
        return {}
    _check(path)
    return run.record.artefact(name)


def _check(path: Path) -> None:
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise DgdmnError(f"{path.name} is not a file")
    try:
        with zipfile.ZipFile(path) as archive:
            unpacked = sum(member.file_size for member in archive.infolist())
    except (zipfile.BadZipFile, OSError) as error:
        raise DgdmnError(f"{path.name} is damaged: {error}") from error
    largest = max(status.st_size, unpacked)
    if largest > ARTEFACT_LIMIT:
        raise DgdmnError(f"{path.name} has {largest:,} bytes: a report reads at most {ARTEFACT_LIMIT:,}")


def dreams(run: Run) -> tuple[list[Dreams], list[str]]:
    """The dreams after each sleep, and notes on those that could not be read."""
    found, notes = [], []
    for name in run.record.artefacts:
        step = name.removeprefix("dreams-")
        if step == name or not step.isdecimal():
            continue
        try:
            found.append(_dreams(run, int(step), read_artefact(run, name)))
        except _BAD as error:
            notes.append(_note(name, error))
    return sorted(found, key=lambda one: one.step), notes


def reconstructions(run: Run) -> tuple[Reconstructions | None, list[str]]:
    """Test samples beside their reconstructions."""
    try:
        arrays = read_artefact(run, "reconstructions")
        if not arrays:
            return None, []
        x, reconstructed = _pictures(arrays["x"]), _pictures(arrays["reconstructed"])
        if x.shape != reconstructed.shape:
            raise ValueError("samples and reconstructions differ in shape")
        return Reconstructions(x, reconstructed) if len(x) else None, []
    except _BAD as error:
        return None, [_note("reconstructions", error)]


def latents(run: Run) -> tuple[Latents | None, list[str]]:
    """Test samples in latent space."""
    try:
        arrays = read_artefact(run, "latents")
        if not arrays:
            return None, []
        z, y = np.asarray(arrays["z"], dtype=np.float64), arrays["y"]
        if z.ndim != 2 or 0 in z.shape or len(z) != len(y) or not (np.abs(z) < _LARGEST).all():
            raise ValueError("latents are not one finite row a label")
        return Latents(z, tuple(str(label) for label in y.tolist())), []
    except _BAD as error:
        return None, [_note("latents", error)]


def resilience(run: Run) -> tuple[Resilience | None, list[str]]:
    """Accuracy under noise and occlusion."""
    try:
        arrays = read_artefact(run, "resilience")
        if not arrays:
            return None, []
        # The paper did not clip its noise (docs/decisions/resilience.md), and clipped curves do not compare with it.
        unclipped = "noise_accuracy_unclipped" in arrays
        noise, noisy = _curve(arrays, "noise", "_unclipped") if unclipped else ((), ())
        occlusion, occluded = _curve(arrays, "occlusion")
        none = np.zeros((0, 1, 1), np.uint8)
        spoilt, restored = (_pictures(arrays.get(name, none)) for name in ("corrupted", "restored"))
        if spoilt.shape != restored.shape:
            spoilt = restored = none
        return Resilience(noise, noisy, occlusion, occluded, spoilt, restored), []
    except _BAD as error:
        return None, [_note("resilience", error)]


_LARGEST = 1e6
"""No latent lies further out, and t-SNE squares them in single precision."""

_BAD = (DgdmnError, KeyError, ValueError, TypeError, IndexError, OSError, zlib.error, OverflowError)
"""What reading and using a foreign array may raise."""


def _note(name: str, error: Exception) -> str:
    what = f"it lacks {error}" if isinstance(error, KeyError) else str(error).splitlines()[0]
    return f"{name}.npz could not be used: {what}"


def _dreams(run: Run, step: int, arrays: dict[str, Array]) -> Dreams:
    x = _pictures(arrays["x"])
    by_task = "task" in arrays
    rows = _columns(run, arrays["task"]) if by_task else _indices(run, arrays["y"])
    if len(x) and len(rows) != len(x):
        raise ValueError("pictures and labels are not equally many")
    labels, judged = (arrays.get(name, np.zeros(0)) for name in ("labels", "judged"))
    if labels.shape != judged.shape or labels.ndim != 1:
        raise ValueError("given and judged labels are not equally many")
    return Dreams(step, x, rows, by_task, labels, judged)


def _columns(run: Run, task: Array) -> Array:
    """Columns of tasks; unknown ones come last."""
    known = np.isin(task, np.arange(len(run.tasks)))
    return np.where(known, task, len(run.tasks)).astype(int)


def _indices(run: Run, y: Array) -> Array:
    """Labels as their place among the run's classes; unknown ones come last."""
    places = {label: place for place, label in enumerate(run.classes)}
    return np.array([places.get(str(label), len(places)) for label in y.tolist()], dtype=int)


def _pictures(x: Array) -> Array:
    """uint8 pictures; none where the samples are rows."""
    if x.dtype != np.uint8 or not _is_picture(x.shape[1:]):
        return np.zeros((0, 1, 1), np.uint8)
    return x


def _is_picture(shape: Sequence[int]) -> bool:
    """Whether samples of this shape can be shown as they are."""
    flat = len(shape) == 2 or (len(shape) == 3 and shape[2] in (1, 3))
    return flat and min(shape[:2]) >= 2 and max(shape[:2]) <= 256


def _curve(
    arrays: dict[str, Array], name: str, kind: str = ""
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    if name not in arrays:
        return (), ()
    x, y = (tuple(float(v) for v in arrays[key].tolist()) for key in (name, f"{name}_accuracy{kind}"))
    if len(x) != len(y) or not np.isfinite(x).all():
        raise ValueError(f"{name} and its accuracies are not equally many numbers")
    return x, y
