"""Parse a method, written ALGORITHM[:PRESET][+OPTION=VALUE…]. A class is imported only if options are given."""

import inspect
import math
import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import fields
from importlib.util import find_spec
from types import NoneType, SimpleNamespace, UnionType
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

from dgdmn.config.config import Config
from dgdmn.config.presets import DEFAULT_PRESET
from dgdmn.config.registry import ALGORITHMS, STREAM_OPTIONS, algorithm_info, load_target
from dgdmn.core.errors import UsageError, suggestion
from dgdmn.core.text import join_names

DEFAULT_ALGORITHM = next(info.name for info in ALGORITHMS.values() if info.short_term)
FIELDS = [field.name for field in fields(Config)]
SET_BY_RUN = ("preset", "random_state", "device", "threads", "callback")
"""Arguments of an estimator's constructor that the run itself decides."""
_PLAIN = (str, int, float, bool, NoneType)  # types of values that can be typed
_NUMBERS = {int: "a whole number", float: "a number", tuple: "whole numbers with commas between"}


def flag(field: str) -> str:
    """The option that sets a field."""
    return f"--{field.replace('_', '-')}"


def split_algorithm(word: str | None, preset: str | None) -> tuple[str, str]:
    """Split ALGORITHM[:PRESET]. Without a colon the preset is `preset`, else the default.

    >>> split_algorithm("nn:paper", "deep"), split_algorithm(None, None)
    (('nn', 'paper'), ('dgdmn', 'best'))
    """
    name, *rest = (word or DEFAULT_ALGORITHM).split(":")
    if rest and ("." in name or rest[0][:1].isupper() or _is_module(name)):  # package.module:Class
        name = f"{name}:{rest.pop(0)}"
        if not hasattr(load_target(name), "_new_memory"):
            advice = "give a subclass of ContinualClassifier"
            raise UsageError(f"{name} is not a dgdmn estimator; {advice}")
    algorithm_info(name)
    return name, ":".join(rest) if rest else preset or DEFAULT_PRESET


def _is_module(name: str) -> bool:
    """Whether a word that names no algorithm names a module."""
    try:
        algorithm_info(name)
    except UsageError:
        return name.isidentifier() and (name in sys.modules or find_spec(name) is not None)
    return False


class Entry(NamedTuple):
    """A method to run: an algorithm, its preset, and its own options."""

    algorithm: str
    preset: str
    changes: dict[str, Any]  # fields of Config
    arguments: dict[str, Any]  # other arguments of its class; those equal to a default are left out


def parse_entry(word: str, preset: str | None) -> Entry:
    """Parse ALGORITHM[:PRESET][+OPTION=VALUE…].

    >>> parse_entry("dgdmn:paper+kappa=0.1+predict_with=learner+prior", None).changes
    {'kappa': 0.1, 'predict_with': 'learner+prior'}
    """
    head, *options = re.split(r"\+(?=\w*=)", word)  # the value of an option may contain "+"
    head, *rest = head.split("+", 1)
    name, preset = split_algorithm(head, preset)
    for option in rest:
        raise UsageError(f"option {option!r} of {name} has no value; write +{option}=VALUE")
    entry = Entry(name, preset, {}, {})
    if not options:
        return entry
    arguments, kinds = _class_arguments(name), get_type_hints(Config)
    for option in options:
        key, _, text = option.partition("=")
        if key in entry.changes or key in entry.arguments:
            raise UsageError(f"{word} has {key} twice; leave one out")
        if key in STREAM_OPTIONS:
            raise UsageError(f"{key} changes the data of all methods; use {flag(key)} instead")
        if key in arguments:
            default, allowed = arguments[key]
            entry.arguments[key] = _parse_value(key, text, allowed)
            if entry.arguments[key] == default:
                del entry.arguments[key]
        elif key in applicable_fields(name):
            if key == "generator" and text not in get_args(kinds[key]):
                entry.arguments[key], text = text, "vae"  # of another package, for the deep memory
            entry.changes[key] = _parse_value(key, text, (kinds[key],))
        elif key in FIELDS:
            raise UsageError(f"{key} has no effect on {name}; leave it out")
        else:
            hint = suggestion(key, [*arguments, *applicable_fields(name)])
            own = f"it has {join_names(arguments)}" if arguments else "it has no options of its own"
            shared = "`dgdmn run --help-all` lists those that algorithms share"
            raise UsageError(f"no option {key!r} of {name}{hint}; {own}, {shared}")
    return entry


def _class_arguments(name: str) -> dict[str, tuple[Any, tuple[Any, ...]]]:
    """{argument: (default, plain types)} of constructor arguments that are not fields of Config."""
    kind = load_target(algorithm_info(name).target)
    hints: dict[str, Any] = {}
    for place in (kind.__init__, *reversed(kind.__mro__)):  # a dataclass annotates its fields
        names = vars(sys.modules[place.__module__]) if place.__module__ in sys.modules else {}
        for key, hint in inspect.get_annotations(place).items():
            one = SimpleNamespace(__annotations__={key: hint})
            # A name for type checkers only, or a ClassVar, is not a plain value.
            with suppress(NameError, TypeError):
                hints |= get_type_hints(one, names)
    found = {}
    for key, parameter in inspect.signature(kind).parameters.items():
        if key in FIELDS or key in SET_BY_RUN:
            continue
        default = parameter.default
        hint = hints.get(key, type(default))
        kinds = get_args(hint) if _origin(hint) in (Union, UnionType) else (hint,)
        plain = [one for one in kinds if one in _PLAIN or get_origin(one) is Literal]
        if any(one is not NoneType for one in plain):
            found[key] = default, tuple(plain)
    return found


def _parse_value(name: str, text: str, kinds: Sequence[Any]) -> Any:
    """The value that a text has as one of these types."""
    if get_origin(kinds[0]) is tuple:
        sizes = [] if text == "none" else text.split(",")
        if all(size.isdecimal() for size in sizes):
            return tuple(map(int, sizes))
    words: dict[str, Any] = {}
    for kind in kinds:
        words |= {str(choice): choice for choice in get_args(kind) if get_origin(kind) is Literal}
    words |= {"true": True, "false": False} if bool in kinds else {}
    words |= {"none": None} if NoneType in kinds else {}
    if text in words:
        return words[text]
    for number in (int, float):
        with suppress(ValueError):
            if number in kinds and math.isfinite(value := number(text)):
                return value
    if str in kinds:
        return text
    allowed = [meaning for kind, meaning in _NUMBERS.items() if kind in map(_origin, kinds)]
    allowed += [f"one of {', '.join(words)}"] if words else []
    hint = suggestion(text, words)
    raise UsageError(f"{name} is {text!r}{hint}; it must be {' or '.join(allowed)}")


def _origin(kind: Any) -> Any:
    return get_origin(kind) or kind


def applicable_fields(name: str) -> set[str]:
    """The fields that have an effect on an algorithm; this imports torch."""
    # A field that is not a parameter of any algorithm belongs to all of them. An algorithm that keeps rows may
    # keep as many bytes as a dual memory needs, so the fields of that memory have an effect on it.
    infos = [*ALGORITHMS.values(), algorithm_info(name)]
    own = {info.name: {*inspect.signature(load_target(info.target)).parameters} for info in infos}
    keeps_rows = algorithm_info(name).exemplars
    used = own[name].union(*(own[info.name] for info in infos if info.short_term and keeps_rows))
    return set(FIELDS) - (set().union(*own.values()) - used) - set(STREAM_OPTIONS)
