"""What exists by name: algorithms, streams and generators (registry.toml). No torch in here.

An entry names its code as "package.module:Class", which is imported when it is used. Other packages add
entries by entry points of the groups `dgdmn.algorithms`, `dgdmn.streams` and `dgdmn.generators`: the entry
point's name is the name here, its object the class or function.
"""

import importlib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from importlib.resources import files
from typing import Any, TypeVar

from dgdmn.core.errors import UsageError, suggestion

CLOSED_FORM_OPTIONS = ("features", "code_seed", "shrinkage", "ridge_units")
"""Options of closed-form methods."""
MIXTURE_OPTIONS = ("generator", "memory_budget", "code_dim", "own_covariance", "priors")
"""Options that select the mixture memory, and options of that memory."""
USED_BY_MIXTURE = ("n_stm", "kappa", "n_classes", "features", "code_seed", "shrinkage")
"""Other options that the mixture memory uses."""
STREAM_OPTIONS = ("tdigits_classes", "samples_per_task")
"""Options that change the data."""


@dataclass(frozen=True)
class AlgorithmInfo:
    """Registry entry of an algorithm: import path, description and traits."""

    name: str
    """On the command line and in run directories."""
    title: str
    """As the literature writes it."""
    target: str
    """Its estimator class, "package.module:Class"."""
    category: str
    """How it counters forgetting, in the paper's terms."""
    keeps: str
    """What it keeps of the past."""
    source: str
    """Where it was published."""
    generative: bool = False
    """Has a generative memory: it sleeps, samples and reconstructs."""
    short_term: bool = False
    """Has a short-term memory, so the options of one matter."""
    exemplars: bool = False
    """Keeps a bounded number of training rows."""
    replays: str = ""
    """What a network without a generator trains on besides new rows: "noise", "exemplars" or all "rows"."""
    closed_form: bool = False
    """Is made of exact sums: it has a front end and no networks."""
    saved: bool = True
    """Can be saved and resumed. References cannot."""
    together: bool = False
    """Learns all tasks at once, also without `dgdmn run --together`."""

    def has_networks(self, generator: str) -> bool:
        """Whether it trains networks with this `generator`; assumed true for algorithms of other packages."""
        return not self.closed_form and not (self.generative and generator == "mixture")

    def unused(self, option: str, options: Mapping[str, Any] | None = None) -> bool:
        """Whether the algorithm ignores an option: it has no short-term memory, no networks or no front end.

        Algorithms that keep rows use every option that changes DGDMN's bytes: they may keep as many.
        """
        if self.category == "custom":
            return False  # its options are unknown
        mixture = options is not None and options.get("generator") == "mixture"
        if self.closed_form:
            return option not in (*CLOSED_FORM_OPTIONS, "n_classes", *STREAM_OPTIONS)
        if self.generative and mixture:
            if option == "n_stm" and not self.short_term:
                return True
            return option not in (*MIXTURE_OPTIONS, *USED_BY_MIXTURE, *STREAM_OPTIONS)
        if option in (*CLOSED_FORM_OPTIONS, *MIXTURE_OPTIONS):
            return not (self.exemplars and mixture and option in ("generator", "memory_budget"))
        if self.short_term or (self.exemplars and not mixture):
            return False
        return option.startswith("sttm_") or option in ("n_stm", "kappa_per")


@dataclass(frozen=True)
class StreamInfo:
    """One built-in stream: where its function is, and which data it reads."""

    name: str
    title: str
    target: str
    """Function that returns the TaskStream, "package.module:function"."""
    dataset: str | None = None
    """Folder of its data files; None where nothing is fetched."""
    about: str = ""


@dataclass(frozen=True)
class GeneratorInfo:
    """One generator that a deep memory can use."""

    name: str
    target: str
    """Factory, "package.module:object"."""


_TEXT = (files("dgdmn.config") / "registry.toml").read_text("utf-8")
_DATA: dict[str, dict[str, dict[str, Any]]] = tomllib.loads(_TEXT)

Info = TypeVar("Info", AlgorithmInfo, StreamInfo, GeneratorInfo)


def _built_in(section: str, kind: type[Info]) -> Mapping[str, Info]:
    return {name: kind(name, **row) for name, row in _DATA[section].items()}


ALGORITHMS = _built_in("algorithms", AlgorithmInfo)
REFERENCES = _built_in("references", AlgorithmInfo)
"""Classifiers of other libraries, as rows of a comparison."""
STREAMS = _built_in("streams", StreamInfo)
GENERATORS = _built_in("generators", GeneratorInfo)


def algorithm_info(name: str) -> AlgorithmInfo:
    """The entry of an algorithm or reference: built in, of an entry point, or a class given as "package.module:Class".

    >>> algorithm_info("dgdmn").title
    'DGDMN'
    """
    if ":" in name:
        return _custom(name, name)
    return _find("algorithm", name, {**ALGORITHMS, **REFERENCES}, _custom)


def stream_info(name: str) -> StreamInfo:
    """The entry of a stream: built in, of an entry point, or a function given as "package.module:function"."""
    if ":" in name:
        return StreamInfo(name, name.rpartition(":")[2], name)
    return _find("stream", name, STREAMS, lambda key, target: StreamInfo(key, key, target))


def generator_info(name: str) -> GeneratorInfo:
    """The entry of a generator, built in or of an entry point."""
    # `mixture` is not a generator of the deep memory, but the option allows both.
    return _find("generator", name, GENERATORS, GeneratorInfo, "mixture")


def load_target(target: str) -> Any:
    """Import what "package.module:name" names."""
    module, _, name = target.partition(":")
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        problem = f"cannot import {target!r} ({error})"
        raise UsageError(f"{problem}; give package.module:Class") from error


def _custom(name: str, target: str) -> AlgorithmInfo:
    """Entry for an algorithm of another package; its traits are unknown."""
    title = target.rpartition(":")[2]
    return AlgorithmInfo(name, title, target, "custom", "not stated", target.partition(":")[0])


def _find(kind: str, name: str, built_in: Mapping[str, Info], make: Any, *more: str) -> Info:
    if name in built_in:
        return built_in[name]
    added: dict[str, str] = _entry_points(f"dgdmn.{kind}s")
    if name in added:
        info: Info = make(name, added[name])
        return info
    names = [*more, *built_in, *added]
    raise UsageError(f"no {kind} {name!r}{suggestion(name, names)}; there are {', '.join(names)}")


@cache
def _entry_points(group: str) -> dict[str, str]:
    return {point.name: point.value for point in entry_points(group=group)}
