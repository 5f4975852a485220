"""What decides a run: a stream, an algorithm, its options and a seed. No torch in here."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, Self

from dgdmn.config import PAPER, Config, override, resolve, to_dict
from dgdmn.config.entries import SET_BY_RUN, Entry
from dgdmn.config.registry import algorithm_info
from dgdmn.core.errors import UsageError
from dgdmn.records import CONFIG, RunRecord, check_file_name, find_runs, run_key
from dgdmn.streams import DataFile, stream_options

_MAX_CHANGES = 160  # characters of options in a run's name; a file name has at most 255 bytes


@dataclass(frozen=True)
class RunSpec:
    """Everything that decides what a run computes, and where and on how many threads."""

    stream: str
    algorithm: str
    preset: str
    options: Config  # the preset for the stream, with the user's changes
    seed: int = 0
    evaluate_on: Literal["test", "validation"] = "test"
    revise: tuple[int, ...] = ()
    """Tasks, counted from 1, that are learned again after the whole stream (appendix A)."""
    together: bool = False
    """Learn all tasks at once as one task: the paper's joint training. Tests stay one per task."""
    device: str = "cpu"
    threads: int = 1
    arguments: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """Arguments of the estimator's constructor that are not fields of Config and differ from its defaults."""
    data: DataFile | None = None
    """Your own data; None for a stream that is loaded by its name."""

    def __post_init__(self) -> None:
        for name in ("stream", "algorithm", "preset", "device"):
            if not isinstance(value := getattr(self, name), str):
                raise UsageError(f"{name} is {value!r}; it must be a name")
        if not isinstance(self.arguments, dict) or not all(map(_is_plain, self.arguments.items())):
            allowed = "names with text, numbers, true, false or none"
            raise UsageError(f"arguments is {self.arguments!r}; it must be {allowed}")
        for name, low, high in (("seed", 0, 2**32 - 1), ("threads", 1, 1024)):
            if not _is_whole(value := getattr(self, name), low, high):
                allowed = f"a whole number from {low} to {high:,}"
                raise UsageError(f"{name} is {value!r}; it must be {allowed}")
        if self.evaluate_on not in ("test", "validation"):
            raise UsageError(f"evaluate_on is {self.evaluate_on!r}; it must be test or validation")
        if not all(_is_whole(number, 1, 10**6) for number in self.revise):
            raise UsageError(f"revise is {self.revise!r}; it must be numbers of tasks, from 1")
        if self.together and self.revise:
            raise UsageError(
                f"revise names task {self.revise[0]}, but together learns all tasks at once; "
                "leave one of them out"
            )
        changed = self.options.tdigits_classes != Config.tdigits_classes
        if changed and (self.data or not stream_options(self.stream, self.options)):
            raise UsageError(
                f"tdigits_classes is {self.options.tdigits_classes}, but the stream is {self.stream}; "
                "leave it out"
            )

    @classmethod
    def from_record(cls, record: RunRecord) -> Self:
        config = record.config
        try:
            config = {"data": None, **config}  # only own data has it
            values = {field.name: config[field.name] for field in fields(cls)}
            lists = {"options": Config(**config["options"]), "revise": tuple(config["revise"])}
            data = None if values["data"] is None else DataFile(**values["data"])
            together = config["together"] is True
            return cls(**{**values, **lists, "together": together, "data": data})
        except (KeyError, TypeError, AttributeError) as error:
            problem = f"{record.directory / CONFIG} does not describe a run ({error})"
            raise UsageError(f"{problem}; run it again") from error

    @property
    def key(self) -> str:
        """The hash of everything that decides the numbers; the preset's name is not part of it."""
        return run_key(self.identity())

    @property
    def name(self) -> str:
        """The name of the run directory; options that differ from the preset are part of it.

        The colon of a name like "package.module:Class" becomes a dot.
        """
        info, options = algorithm_info(self.algorithm), to_dict(self.options)
        changed = {k: v for k, v in self.changes().items() if not info.unused(k, options)}
        changes = [f"{name}-{_short(value)}" for name, value in changed.items()]
        changes += [_file_name(f"{name}_{value}") for name, value in sorted(self.arguments.items())]
        columns = self.data.options() if self.data else {}
        if self.data and self.data.test:
            columns["test"] = Path(self.data.test).name
        changes += [_file_name(f"{name}-{_short(value)}") for name, value in columns.items()]
        if sum(map(len, changes)) > _MAX_CHANGES:
            changes = [f"{len(changes)}-options-{sha256(repr(changes).encode()).hexdigest()[:8]}"]
        parts = [
            _file_name(self.stream.strip("/.- ") or "data" if self.data else self.stream),
            _file_name(self.algorithm),
            self.preset,
            *changes,
            *([f"revise-{_short(self.revise)}"] if self.revise else []),
            *(["together"] if self.together else []),
            *(["on-validation"] if self.evaluate_on == "validation" else []),
        ]
        name = "-".join([*parts, f"seed{self.seed}"])
        check_file_name("run name", name)
        return name

    def changes(self) -> dict[str, Any]:
        """The options that differ from the preset."""
        stream = self.stream if self.stream in PAPER and not self.data else None
        base = to_dict(resolve(self.preset, stream))
        return {name: value for name, value in to_dict(self.options).items() if value != base[name]}

    def training_options(self) -> Config:
        """The options that the algorithm gets.

        When all tasks are learned together, "all classifiers were provided 20 epochs of training"
        (appendix B), so `learner_epochs` is `joint_epochs`. The short-term memory sleeps after its only task.
        """
        if not self.together:
            return self.options
        return replace(self.options, learner_epochs=self.options.joint_epochs, n_stm=1)

    def identity(self) -> dict[str, Any]:
        """The part of config.json that this spec decides, as plain JSON values."""
        names = ("stream", "algorithm", "preset", "seed", "evaluate_on", "revise", "together")
        values = {name: getattr(self, name) for name in names}
        values |= {"revise": list(self.revise), "options": to_dict(self.options)}
        values |= {"arguments": dict(self.arguments)}
        return values | ({"data": self.data.to_json()} if self.data else {})


def make_spec(
    stream: str,
    entry: Entry,
    seed: int,
    *,
    changes: Mapping[str, Any] | None = None,
    data: DataFile | None = None,
    together: bool = False,
    **protocol: Any,
) -> RunSpec:
    """The run of a method on a stream; its own options win over `changes`, which are those of all methods."""
    preset_stream = stream if stream in PAPER and data is None else None
    options = override(resolve(entry.preset, preset_stream), {**(changes or {}), **entry.changes})
    together = together or algorithm_info(entry.algorithm).together
    given = {"arguments": entry.arguments, "data": data, "together": together, **protocol}
    return RunSpec(stream, entry.algorithm, entry.preset, options, seed, **given)


def find_run(spec: RunSpec, out: Path) -> RunRecord | None:
    """The record of this run in `out`, complete or not, whatever its directory is called."""
    directory = out / spec.name
    if not (directory / CONFIG).exists():
        found = find_runs(out).get(spec.key)
        return None if found is None else RunRecord.read(found)
    record = RunRecord.read(directory)
    if record.key == spec.key:
        return record
    name, theirs, ours = _first_difference(record.config, spec.identity())
    run = f"a run with {name} = {theirs}, not {ours}"
    if name == "digest":
        run = f"a run on different rows of {spec.stream}"
    raise UsageError(f"{directory} holds {run}; remove it or choose another --out")


def _first_difference(theirs: dict[str, Any], ours: dict[str, Any]) -> tuple[str, Any, Any]:
    nested = ("options", "arguments", "data")
    theirs, ours = (
        {**one, **{k: v for part in nested for k, v in (one.get(part) or {}).items()}}
        for one in (theirs, ours)
    )
    differing = [name for name, value in ours.items() if theirs.get(name) != value]
    skipped = {"preset", "path", "test", *nested}  # a run may have them and be the same
    name = next((name for name in differing if name not in skipped), "key")
    return name, theirs.get(name), ours.get(name)


def _is_whole(value: Any, low: int, high: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


def _is_plain(item: tuple[Any, Any]) -> bool:
    name, value = item
    return isinstance(name, str) and name not in SET_BY_RUN and is_plain(value)


def is_plain(value: Any) -> bool:
    """Whether a value can be an argument of a spec."""
    return value is None or isinstance(value, str | bool | int | float)


def _file_name(text: str) -> str:
    return re.sub(r"[^\w.-]", ".", text)


def _short(value: Any) -> str:
    return ".".join(map(str, value)) or "none" if isinstance(value, list | tuple) else str(value)
