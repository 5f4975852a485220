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
from dgdmn.wording import listed

if TYPE_CHECKING:  # torch and numpy wait until the arguments are parsed, so that --help is quick
    from dgdmn.algorithms.base import ContinualClassifier
    from dgdmn.streams.reading import Arrays

DataPath = tyro.conf.Positional[Annotated[Path, tyro.conf.arg(metavar="DATA")]]


@contextmanager
def plainly() -> Iterator[None]:
    """What scikit-learn refuses is wrong usage; what is warned of is a line."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        warnings.filterwarnings("ignore", "X does not have valid feature names")  # `arranged` compares them
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


def arranged(model: ContinualClassifier, found: Arrays, data: Path) -> Arrays:
    """The samples with their columns as the memory learnt them; those of another shape or with others are refused."""
    if found.X.shape[1:] != model.learnt_.shape:
        raise UsageError(
            f"{data} has samples of shape {found.X.shape[1:]}; this memory knows {model.learnt_.shape}"
        )
    known = tuple(getattr(model, "feature_names_in_", ()))
    if not known or not found.names or found.names == known:
        return found
    if missing := [name for name in known if name not in found.names]:
        others = [name for name in found.names if name not in known]
        raise UsageError(
            f"{data} has columns {listed(others)} where this memory learnt {listed(missing)}: rename them"
        )
    return found._replace(X=found.X[:, [found.names.index(name) for name in known]], names=known)
