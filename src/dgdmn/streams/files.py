"""A file or folder of your own as a stream that a run can name, record and recognize."""

import hashlib
import os
import warnings
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Self

import numpy as np

from dgdmn.core.errors import DataError, DgdmnError, UsageError
from dgdmn.core.files import os_errors
from dgdmn.core.text import printable
from dgdmn.streams.arrays import from_arrays
from dgdmn.streams.base import TaskStream

_PATHS = ("path", "test")
"""Fields that are paths. They may change, so they are not part of a run's key."""


@dataclass(frozen=True)
class DataFile:
    """Where the data of a run is, how its rows become tasks, and a digest of it.

    Without a path the data came from Python, and only its digest is known.
    """

    path: str = ""
    label: str | None = None
    task: str | None = None
    order_by: str | None = None
    tasks: int = 0
    test: str | None = None
    ignore: tuple[str, ...] = ()
    text: tuple[str, ...] = ()
    digest: str = ""

    def __post_init__(self) -> None:
        for name in ("ignore", "text"):  # JSON has lists
            object.__setattr__(self, name, tuple(getattr(self, name)))
        for field in fields(self):
            value, kind = getattr(self, field.name), str(field.type)
            fits = isinstance(value, str) or (value is None and "None" in kind)
            if field.type is int:
                fits = isinstance(value, int) and not isinstance(value, bool) and value >= 0
            if "tuple" in kind:
                fits = isinstance(value, tuple) and all(isinstance(one, str) for one in value)
            if not fits:
                raise UsageError(f"{field.name} of the data is {value!r}; repeat the run command")

    @classmethod
    def find(cls, path: Path, *, test: Path | None = None, **options: Any) -> Self:
        """The file or folder at `path`, and perhaps another one to test on."""
        places = [one.absolute() for one in (path, test) if one is not None]
        for place in places:
            if not place.exists():
                raise UsageError(f"{place} does not exist; name a file or a folder")
        digest = _digest_files(places)
        test_path = None if test is None else str(places[1])
        return cls(str(places[0]), test=test_path, digest=digest, **options)

    @classmethod
    def from_stream(cls, stream: TaskStream) -> Self:
        """The data of a stream that was made in Python."""
        head = (stream.task_names, stream.validation, *(("common test",) * stream.common_test))
        digest = hashlib.sha256(repr(head).encode())
        for task in stream:
            for rows in (task.train, task.validation, task.test):
                for part in () if rows is None else (rows.x, rows.y):
                    digest.update(f"{part.dtype} {part.shape}".encode())
                    plain = part.astype("U") if part.dtype.kind in "OT" else part
                    digest.update(np.ascontiguousarray(plain).tobytes())
        return cls(digest=digest.hexdigest()[:32])

    @property
    def name(self) -> str:
        """The name of the stream: that of the file, with a slash for a folder."""
        path = Path(self.path)
        return printable(path.name) + ("/" if path.is_dir() else "")

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values."""
        values = asdict(self)
        return values | {"ignore": list(self.ignore), "text": list(self.text)}

    def options(self) -> dict[str, Any]:
        """The options that divide rows into tasks, without paths and digest."""
        values = self.to_json().items()
        return {k: v for k, v in values if v and k not in (*_PATHS, "digest")}

    def load(self, *, seed: int = 0, validation: float = 0.0) -> TaskStream:
        """Load the stream; refuse missing or changed files. Warnings of the reader are added to its note."""
        if not self.path:
            advice = "call dgdmn.run_stream with it again to continue"
            raise UsageError(f"the data of this run came from Python; {advice}")
        advice = "put it back, or repeat the run command with the new path"
        places = [Path(one) for one in (self.path, self.test) if one]
        for path in places:
            if not path.exists():
                raise DataError(f"{path} does not exist; {advice} to continue")
        if self.digest != _digest_files(places):
            names = " or ".join(path.name for path in places)
            advice = "restore it, or run it again with another --out"
            raise DataError(f"{names} has changed since this run began; {advice}")
        options: dict[str, Any] = {"seed": seed, "validation": validation, "name": self.name}
        options |= self.options()
        place = f"{Path(self.path).parent}{os.sep}"
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UserWarning)
            try:
                stream = from_arrays(self.path, test=self.test, shuffle=True, **options)
            except DgdmnError as error:
                raise type(error)(str(error).replace(place, "")) from error
        # A page that others read does not say where the file is.
        stream.add_note(*dict.fromkeys(str(one.message).replace(place, "") for one in caught))
        return stream


def _digest_files(places: Iterable[Path]) -> str:
    """A hash of the content of files and folders; hidden files of a folder do not count."""
    digest = hashlib.sha256()
    for place in places:
        found = sorted(place.rglob("*")) if place.is_dir() else [place]
        for path in found:
            name = path.relative_to(place).as_posix()
            if not path.is_file() or any(part.startswith(".") for part in Path(name).parts):
                continue
            with os_errors("read", path), path.open("rb") as file:
                content = hashlib.file_digest(file, "sha256").hexdigest()
            digest.update(f"{name} {content}\n".encode(errors="replace"))
        digest.update(b"\n")
    return digest.hexdigest()[:32]
