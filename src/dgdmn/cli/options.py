"""The verbs (verbs.toml) and their parser: arguments, an option for each field of Config, one-line errors."""

import argparse
import re
import tomllib
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple, NoReturn, get_args, get_origin, get_type_hints

from dgdmn.config import DEFAULT_PRESET, PRESETS, Config, field_docs, resolve, to_dict
from dgdmn.config.entries import DEFAULT_ALGORITHM, FIELDS, applicable_fields, flag, split_algorithm
from dgdmn.config.registry import STREAM_OPTIONS, STREAMS, algorithm_info
from dgdmn.core.errors import UsageError, suggestion
from dgdmn.core.text import format_option

DATASETS = list(dict.fromkeys(info.dataset for info in STREAMS.values() if info.dataset))
_DATA = tomllib.loads(Path(__file__).with_name("verbs.toml").read_text("utf-8"))
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
    group.add_argument("-h", "--help", action="help", help="show the common options")
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
    preset, visible, common = _guess(words, "--preset"), set(FIELDS), list(verb.fields)
    if of_memory and {"-h", "--help", "--help-all"} & {*words}:
        algorithm, preset = split_algorithm(_guess(words, "--algorithm"), preset)
        info, options = algorithm_info(algorithm), to_dict(resolve(preset))
        common = [name for name in common if not info.unused(name, options)]
        if show_all or algorithm != DEFAULT_ALGORITHM:
            visible = applicable_fields(algorithm)
        if info.closed_form:
            parser._option_string_actions["--value-range"].help = argparse.SUPPRESS
    defaults = resolve(preset or DEFAULT_PRESET, stream)
    docs, kinds, titles, title = field_docs(), get_type_hints(Config), dict[str, str](), ""
    for name in FIELDS:
        titles[name] = title = _DATA["groups"].get(name, title)
    groups = {"": parser.add_argument_group("common hyperparameters [default]")}
    for name in dict.fromkeys([*common, *FIELDS]):
        key = "" if name in common else titles[name]
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


def check_applicable(name: str, changes: Iterable[str]) -> None:
    """Refuse fields that have no effect on an algorithm that learns from a file."""
    for field in changes:
        if field in STREAM_OPTIONS:
            reason = "here the file decides what is learned"
            raise UsageError(f"{flag(field)} is for `dgdmn run`; {reason}")
        if field not in applicable_fields(name):
            raise UsageError(f"{flag(field)} has no effect on {name}; leave it out")
