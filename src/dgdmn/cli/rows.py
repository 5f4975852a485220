"""Anyone's rows at the command line: read, compared with what a memory knows, refused in a sentence."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from dgdmn.errors import DgdmnError, UsageError

if TYPE_CHECKING:  # torch and numpy wait until the arguments are parsed, so that --help is quick
    from dgdmn.algorithms.base import ContinualClassifier
    from dgdmn.streams.reading import Arrays

DataPath = tyro.conf.Positional[Annotated[Path, tyro.conf.arg(metavar="DATA")]]


@contextmanager
def plainly() -> Iterator[None]:
    """What scikit-learn refuses is wrong usage; what is warned of is a line."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        try:
            yield
        except ValueError as error:
            if isinstance(error, DgdmnError):
                raise
            raise UsageError(str(error)) from error
        finally:
            for warning in caught:
                sys.stderr.write(f"dgdmn: {warning.message}\n")


def rows_of(data: Path, label: str | None = None) -> Arrays:
    """The rows of a file or a folder of images."""
    from dgdmn.streams.reading import read_arrays

    if not data.exists():
        raise UsageError(f"{data} does not exist; give .npz, .npy, .csv or a folder of images")
    return read_arrays(data, label=label)


def check_shape(model: ContinualClassifier, found: Arrays, data: Path) -> None:
    """Refuse samples of another shape than the memory knows."""
    if found.X.shape[1:] != model.learnt_.shape:
        raise UsageError(
            f"{data} has samples of shape {found.X.shape[1:]}; this memory knows {model.learnt_.shape}"
        )
