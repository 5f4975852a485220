"""Resolve a preset for a stream, override fields, convert to JSON, describe fields."""

import ast
import hashlib
import inspect
import itertools
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, fields, replace
from typing import Any

from dgdmn.config.config import Config
from dgdmn.config.presets import PAPER, PRESETS, paper_sources
from dgdmn.config.registry import STREAMS
from dgdmn.core.errors import UsageError, suggestion


def resolve(name: str, stream: str | None = None) -> Config:
    """The preset of that name for a stream, such as "deep/hindi" or in two parts; without a stream, for own arrays.

    A built-in stream without an entry in presets.toml has the options for own arrays.

    >>> resolve("paper/tdigits") == resolve("paper", "tdigits")
    True
    """
    if stream is None and "/" in name:
        name, stream = name.split("/", 1)
    if name not in PRESETS:
        hint = suggestion(name, PRESETS)
        raise UsageError(f"no preset {name!r}{hint}; there are {', '.join(PRESETS)}")
    if stream in STREAMS and stream not in PAPER:
        stream = None  # a stream without values of its own
    if stream is not None and stream not in PAPER:
        hint = suggestion(stream, PAPER)
        raise UsageError(f"no preset for {stream!r}{hint}; there are some for {', '.join(PAPER)}")
    return PRESETS[name](stream)


def override(config: Config, changes: Mapping[str, Any]) -> Config:
    """The config with some fields changed; None leaves a field as it is."""
    known = {field.name for field in fields(Config)}
    for name in changes.keys() - known:
        raise UsageError(f"no hyperparameter {name!r}{suggestion(name, known)}")
    return replace(config, **{name: value for name, value in changes.items() if value is not None})


def to_dict(config: Config) -> dict[str, Any]:
    """The config as plain JSON values."""
    return {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(config).items()}


def key_of(values: Mapping[str, Any]) -> str:
    """A short hash of plain JSON values that does not depend on their order.

    >>> key_of({"a": 1, "b": [2]}) == key_of({"b": [2], "a": 1})
    True
    """
    text = json.dumps(values, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def sources_of(name: str, stream: str) -> dict[str, str]:
    """What each field means and where its value in this preset comes from."""
    digits, paper, sources = PAPER["digits"], PAPER[stream], paper_sources(stream)
    chosen, docs = resolve(name, stream), field_docs()
    for field, doc in docs.items():
        value = getattr(chosen, field)
        if value == getattr(digits, field):
            continue
        own = "ours" if value != getattr(paper, field) else sources.get(field, "ours")
        meaning = doc.rsplit(" (", 1)[0] if doc.endswith(").") else doc.rstrip(".")
        docs[field] = f"{meaning} ({own})."
    return docs


def field_docs() -> dict[str, str]:
    """What each field means, from the docstring under it."""
    body = ast.parse(inspect.getsource(Config)).body[0]
    assert isinstance(body, ast.ClassDef)
    docs = {}
    for statement, following in itertools.pairwise(body.body):
        if isinstance(statement, ast.AnnAssign) and isinstance(following, ast.Expr):
            assert isinstance(statement.target, ast.Name)
            docs[statement.target.id] = " ".join(str(ast.literal_eval(following.value)).split())
    return docs


def default_threads() -> int:
    """OMP_NUM_THREADS if it is set, else 1: small networks gain little from a second thread."""
    value = os.environ.get("OMP_NUM_THREADS", "")
    number = int(value[:9]) if value.isascii() and value.isdigit() else 0
    if number > 1024:
        raise UsageError(f"OMP_NUM_THREADS is {number}; set it to a whole number from 1 to 1,024")
    return number or 1
