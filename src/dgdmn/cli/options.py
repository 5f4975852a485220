"""The verbs (verbs.toml) and their parser: arguments, an option for each field of Config, one-line errors."""

import argparse
import inspect
import math
import re
import sys
import tomllib
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import fields
from functools import partial
from pathlib import Path
from types import NoneType, SimpleNamespace, UnionType
from typing import Any, Literal, NamedTuple, NoReturn, Union, get_args, get_origin, get_type_hints

from dgdmn.config import DEFAULT_PRESET, PRESETS, Config, field_docs, resolve
from dgdmn.config.registry import ALGORITHMS, STREAMS, algorithm_info, load_target
from dgdmn.core.errors import UsageError, suggestion
from dgdmn.core.text import format_option, join_names

DATASETS = list(dict.fromkeys(info.dataset for info in STREAMS.values() if info.dataset))
DEFAULT_ALGORITHM = next(info.name for info in ALGORITHMS.values() if info.short_term)
FIELDS = [field.name for field in fields(Config)]
STREAM_FIELDS = {"tdigits_classes", "samples_per_task"}
"""Fields that change the data, not the algorithm."""
_DATA = tomllib.loads(Path(__file__).with_name("verbs.toml").read_text("utf-8"))
_PLAIN = (str, int, float, bool, NoneType)  # types of values that can be typed
_NUMBERS = {int: "a whole number", float: "a number", tuple: "whole numbers with commas between"}
_ARGUMENT = re.compile(r"(~?)(--[a-z-]+|[A-Z]+)(?: ([^\s=]+)(?:=(\S+))?)?  +(.+)")


_NEGATIVE = re.compile(r"-(\d+\.?\d*|\.\d+)(e[-+]?\d+)?$", re.IGNORECASE)


class Verb(NamedTuple):
    """A verb of the command line; verbs.toml says what the values mean."""

    module: str
    summary: str
    arguments: str = ""
    notes: str = ""
    fields: Sequence[str] = ()


def _read_verbs() -> dict[str, Verb]:
    words = _DATA["shared"] | {
        "algorithm": DEFAULT_ALGORITHM,
        "presets": f"{', '.join(PRESETS)} [{DEFAULT_PRESET}]",
        "streams": ", ".join(STREAMS),
        "datasets": ", ".join(DATASETS),
        "offline": "|".join(info.name for info in STREAMS.values() if info.dataset is None),
    }
    for verb in _DATA["verbs"].values():
        for key in {"arguments", "notes"} & verb.keys():
            verb[key] = verb[key].format_map(words).strip()
    return {name: Verb(**verb) for name, verb in _DATA["verbs"].items()}


USAGE: str = _DATA["usage"]
VERBS = _read_verbs()


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}; `{self.prog} --help` lists the options")


def parse(program: str, verb: Verb, words: Sequence[str]) -> argparse.Namespace:
    """Parse the words after a verb. The fields of Config that were typed are in `changes`."""
    show_all = "--help-all" in words
    about = f"{verb.summary[0].upper()}{verb.summary[1:]}. {verb.notes}"
    off: dict[str, Any] = dict.fromkeys(("add_help", "allow_abbrev", "exit_on_error"), False)
    parser = _Parser(program, description=about, **off)
    parser._negative_number_matcher = _NEGATIVE  # argparse takes -1e3 for an option
    usage, group = [parser.prog], parser.add_argument_group("options")
    group.add_argument("-h", "--help", action="help", help="show the options that matter most")
    group.add_argument("--help-all", action="help", help="show every option")
    group.add_argument("--debug", action="store_true", help="show the traceback of an error")
    for rare, option, kind, default, about in _ARGUMENT.findall(verb.arguments):
        settings = _argument_settings(kind, default, about)
        if rare and not show_all:
            settings["help"] = argparse.SUPPRESS
        if option.startswith("--"):
            group.add_argument(option, **settings)
        else:
            parser.add_argument(option.lower(), **settings | {"metavar": option})
            usage.append(option + (" …" if "nargs" in settings else ""))
    parser.usage = " ".join([*usage, "[OPTION …]"])
    if verb.fields:
        _add_fields(parser, verb, words, show_all)
    try:
        args, unknown = parser.parse_known_intermixed_args(list(words))
    except argparse.ArgumentError as error:
        parser.error(" ".join(filter(None, (error.argument_name, error.message))))
    if unknown:
        word = next((word for word in unknown if word.startswith("-")), unknown[0])
        hint = suggestion(word.partition("=")[0], parser._option_string_actions)
        parser.error(f"unknown argument {word}{hint}")
    typed = {field: vars(args).pop(field) for field in FIELDS if field in args}
    args.changes = {key: tuple(v) if isinstance(v, list) else v for key, v in typed.items()}
    return args


def _argument_settings(kind: str, default: str, about: str) -> dict[str, Any]:
    if not kind:
        return {"action": "store_true", "help": about}
    base = kind.rstrip("+*")
    convert = Path if base == "PATH" else partial(_convert, base)
    settings: dict[str, Any] = {"type": convert, "metavar": base.removesuffix(">0")}
    settings["help"] = f"{about} [{default}]" if default not in ("", "0") else about
    settings["default"] = default or None  # argparse converts it
    if "," in base:
        settings |= {"nargs": 2, "metavar": tuple(base.split(","))}
        settings |= {"type": float} if base == "LOW,HIGH" else {"action": "append"}
    if kind != base:
        settings |= {"nargs": kind[-1], "default": [convert(default)] if default else []}
    return settings


def _convert(kind: str, text: str) -> Any:
    if "|" in kind and text not in (choices := kind.split("|")):
        hint, allowed = suggestion(text, choices), " or ".join(choices)
        raise argparse.ArgumentTypeError(f"is {text}{hint}; it must be {allowed}")
    if kind == "SHARE":
        with suppress(ValueError):
            if 0 <= (share := float(text)) < 1:
                return share
        raise argparse.ArgumentTypeError(f"is {text}; it must be a number in [0, 1)")
    if kind not in ("N", "N>0"):
        return text
    least = int(kind == "N>0")
    if not text.removeprefix("-").isdecimal() or int(text) < least:
        allowed = f"a whole number of at least {least}"
        raise argparse.ArgumentTypeError(f"is {text}; it must be {allowed}")
    return int(text)


def _add_fields(parser: _Parser, verb: Verb, words: Sequence[str], show_all: bool) -> None:
    of_memory = verb.module == "memory"
    stream = None if of_memory else next(iter(STREAMS))
    stream = next((word for word in words if word in STREAMS), stream)
    defaults = resolve(_guess(words, "--preset") or DEFAULT_PRESET, stream)
    visible = set(FIELDS)
    if of_memory and {"-h", "--help", "--help-all"} & {*words}:
        algorithm = _guess(words, "--algorithm") or DEFAULT_ALGORITHM
        if show_all or algorithm != DEFAULT_ALGORITHM:
            visible = applicable_fields(algorithm)
    docs, kinds, title = field_docs(), get_type_hints(Config), ""
    groups = {"": parser.add_argument_group("hyper-parameters that matter most [default]")}
    for name in FIELDS:
        title = _DATA["groups"].get(name, title)
        key = "" if name in verb.fields else title
        if key not in groups:
            groups[key] = parser.add_argument_group(key)
        doc = f"{docs[name]} [{format_option(getattr(defaults, name))}]".replace("%", "%%")
        groups[key].add_argument(
            flag(name),
            default=argparse.SUPPRESS,  # only what was typed changes a preset
            help=doc if name in visible and (show_all or not key) else argparse.SUPPRESS,
            **_field_settings(kinds[name]),
        )


def _field_settings(kind: Any) -> dict[str, Any]:
    if kind is bool:
        return {"action": argparse.BooleanOptionalAction}
    choices = get_args(kind) if get_origin(kind) is Literal else ()
    several = get_origin(kind) is tuple
    read = type(choices[0]) if choices else int if several else kind

    def convert(text: str) -> Any:
        try:
            return read(text)
        except ValueError:
            return text  # Config refuses it

    metavar = "|".join(map(str, choices)) if choices else "N" if read is int else "X"
    return {"type": convert, "metavar": metavar} | ({"nargs": "*"} if several else {})


def _guess(words: Sequence[str], option: str) -> str | None:
    """The value of an option before the words are parsed: it decides what the help shows."""
    finder = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    finder.add_argument(option, nargs="?", dest="value")
    value: str | None = finder.parse_known_args(list(words))[0].value
    return value


def flag(field: str) -> str:
    """The option that sets a field."""
    return f"--{field.replace('_', '-')}"


def split_algorithm(word: str | None, preset: str | None) -> tuple[str, str]:
    """An algorithm and its preset: the one after a colon, the given one, or the default.

    >>> split_algorithm("nn:paper", "deep"), split_algorithm(None, None)
    (('nn', 'paper'), ('dgdmn', 'best'))
    """
    name, *rest = (word or DEFAULT_ALGORITHM).split(":")
    if rest and ("." in name or rest[0][:1].isupper()):  # package.module:Class
        name = f"{name}:{rest.pop(0)}"
        load_target(name)
    algorithm_info(name)
    return name, ":".join(rest) if rest else preset or DEFAULT_PRESET


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
        if key in STREAM_FIELDS:
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
            own = f"its own are {join_names(arguments)}" if arguments else "it has none of its own"
            shared = "`dgdmn run --help-all` lists those that algorithms share"
            raise UsageError(f"no option {key!r} of {name}{hint}; {own}, {shared}")
    return entry


def _class_arguments(name: str) -> dict[str, tuple[Any, tuple[Any, ...]]]:
    """The default and the plain types of each argument that only an algorithm's class has."""
    from dgdmn.runs.spec import SET_BY_RUN  # the help needs no numpy

    kind = load_target(algorithm_info(name).target)
    hints: dict[str, Any] = {}
    for place in (kind.__init__, *reversed(kind.__mro__)):  # a dataclass annotates its fields
        names = vars(sys.modules[place.__module__]) if place.__module__ in sys.modules else {}
        for key, hint in inspect.get_annotations(place).items():
            one = SimpleNamespace(__annotations__={key: hint})
            with suppress(
                NameError, TypeError
            ):  # only for type checkers, or a ClassVar: no plain value
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


def check_applicable(name: str, changes: Iterable[str]) -> None:
    """Refuse fields that have no effect on an algorithm that learns from a file."""
    for field in changes:
        if field in STREAM_FIELDS:
            reason = "here the file decides what is learned"
            raise UsageError(f"{flag(field)} is for `dgdmn run`; {reason}")
        if field not in applicable_fields(name):
            raise UsageError(f"{flag(field)} has no effect on {name}; leave it out")


def applicable_fields(name: str) -> set[str]:
    """The fields that have an effect on an algorithm; this imports torch."""
    # A field that is no parameter of any algorithm belongs to all of them. An algorithm that keeps rows may
    # keep as many bytes as a dual memory needs, so the fields of that memory have an effect on it.
    infos = [*ALGORITHMS.values(), algorithm_info(name)]
    own = {info.name: {*inspect.signature(load_target(info.target)).parameters} for info in infos}
    keeps_rows = algorithm_info(name).exemplars
    used = own[name].union(*(own[info.name] for info in infos if info.short_term and keeps_rows))
    return set(FIELDS) - (set().union(*own.values()) - used) - STREAM_FIELDS
