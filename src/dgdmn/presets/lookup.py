"""A preset by its name: changed, as JSON, and explained field by field."""

from __future__ import annotations

import ast
import inspect
import itertools
from dataclasses import asdict, fields, replace
from typing import Any

from dgdmn.errors import UsageError, suggestion
from dgdmn.presets.arrays import ARRAYS
from dgdmn.presets.best import BEST_ARRAYS, best
from dgdmn.presets.fields import Preset
from dgdmn.presets.paper import PAPER, WHENCE
from dgdmn.presets.quick import quick

PRESETS = ("paper", "best", "quick", "arrays")


def preset(name: str, dataset: str | None = None) -> Preset:
    """The preset of that name for a dataset; without one, for own arrays, or Digits' sizes with outputs that grow.

    >>> preset("paper", "tdigits").kappa
    0.05
    """
    if name not in PRESETS:
        raise UsageError(f"no preset {name!r}{suggestion(name, PRESETS)}; there are {', '.join(PRESETS)}")
    if dataset is not None and dataset not in PAPER:
        raise UsageError(
            f"no preset for {dataset!r}{suggestion(dataset, PAPER)}; there are presets for {', '.join(PAPER)}"
        )
    if name == "arrays":
        return ARRAYS
    if name == "best" and dataset is None:
        return BEST_ARRAYS
    base = replace(PAPER["digits"], n_classes=0) if dataset is None else PAPER[dataset]
    if name == "best" and dataset:
        return best(base, dataset)
    return base if name == "paper" else quick(base)


def overridden(preset: Preset, changes: dict[str, Any]) -> Preset:
    """The preset with some fields changed; None leaves a field as it is."""
    known = {field.name for field in fields(Preset)}
    for name in changes.keys() - known:
        raise UsageError(f"no hyper-parameter {name!r}{suggestion(name, known)}")
    return replace(preset, **{name: value for name, value in changes.items() if value is not None})


def stream_options(dataset: str, preset: Preset) -> dict[str, Any]:
    """How a preset wants the dataset's stream where that is not as usual.

    >>> stream_options("tdigits", overridden(PAPER["tdigits"], {"tdigits": "ten"}))
    {'labels': 'ten', 'order': 'digit'}
    """
    ten = dataset == "tdigits" and preset.tdigits == "ten"
    return {"labels": "ten", "order": "digit"} if ten else {}


def as_dict(preset: Preset) -> dict[str, Any]:
    """The preset as plain JSON values."""
    return {
        name: list(value) if isinstance(value, tuple) else value for name, value in asdict(preset).items()
    }


def sources_of(name: str, dataset: str) -> dict[str, str]:
    """What each field means and where its value in this preset comes from."""
    digits = PAPER["digits"]
    chosen, paper, docs = preset(name, dataset), PAPER.get(dataset, digits), field_docs()
    for field, doc in docs.items():
        value = getattr(chosen, field)
        if value == getattr(digits, field):
            continue
        own = "ours" if value != getattr(paper, field) else WHENCE.get(dataset, {}).get(field, "ours")
        meaning = doc.rsplit(" (", 1)[0] if doc.endswith(").") else doc.rstrip(".")
        docs[field] = f"{meaning} ({own})."
    return docs


def field_docs() -> dict[str, str]:
    """What each field means, from the docstring under it."""
    body = ast.parse(inspect.getsource(Preset)).body[0]
    assert isinstance(body, ast.ClassDef)
    docs = {}
    for statement, following in itertools.pairwise(body.body):
        if isinstance(statement, ast.AnnAssign) and isinstance(following, ast.Expr):
            assert isinstance(statement.target, ast.Name)
            docs[statement.target.id] = " ".join(str(ast.literal_eval(following.value)).split())
    return docs


NO_SHORT_TERM = ("nn", "dropnn", "ppr", "ewc", "si", "lwf", "dgr", "joint")
"""Algorithms for which the options of a short-term memory decide nothing."""


def idle(algorithm: str, option: str) -> bool:
    """Whether an option is of a short-term memory that an algorithm has not: it decides nothing.

    Without one a replay has one task, so it does not matter what κ is a floor for. Those that keep rows are not among
    them: they may have as many as DGDMN has bytes.
    """
    return algorithm in NO_SHORT_TERM and (option.startswith("sttm_") or option in ("n_stm", "kappa_per"))
